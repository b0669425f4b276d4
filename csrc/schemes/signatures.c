/* signatures.c: hashes of shingles -> SimHash, MinHash, one-bit samples. */
#include "kernels/kernels.h"
#include "schemes/schemes.h"

/* ---- SimHash (Charikar 2002) --------------------------------------------------------------------------------------- */

/* counters[i] > 0 sets bit i. */
static void signs(const int64_t *counters, size_t bits, uint8_t *code)
{
    for (size_t i = 0; i < bits; i += 8) {
        unsigned byte = 0;
        for (size_t bit = 0; bit < 8; bit++)
            byte = byte << 1 | (counters[i + bit] > 0);
        code[i / 8] = (uint8_t)byte;
    }
}

/* No sum of the weights' signs can leave 64 bits. */
static int weights_fit(const int64_t *weights, size_t count)
{
    uint64_t rest = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = weights[i] < 0 ? 0 - (uint64_t)weights[i] : (uint64_t)weights[i];
        if (size > rest)
            return 0;
        rest -= size;
    }
    return 1;
}

/* From "how many have the bit" (or the sum of their weights) to "with minus without". What the sums pass on the way may leave 64
 * bits, the differences never do. */
static void balance(int64_t *counters, size_t bits, uint64_t total)
{
    for (size_t i = 0; i < bits; i++)
        counters[i] = (int64_t)(2 * (uint64_t)counters[i] - total);
}

static uint64_t sum_of(const int64_t *weights, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)weights[i];
    return sum;
}

/* Eight bytes of up to ND_HASH_BLOCK digests, or what is left of them, with the most significant bit first. */
static void count_bits(const uint8_t *digests, size_t count, size_t stride, size_t width, int64_t *ones)
{
    uint64_t words[ND_HASH_BLOCK];
    int64_t counted[64] = {0};
    for (size_t i = 0; i < count; i++)
        words[i] = nd_load_big(digests + i * stride, width) << (64 - 8 * width);
    nd_kernels_active()->count_bits64(words, count, counted);
    for (size_t bit = 0; bit < 8 * width; bit++)
        ones[bit] += counted[bit];
}

int nd_simhash(const uint8_t *digests, size_t count, size_t digest_size, size_t bits, const int64_t *weights, int64_t *counters,
    uint8_t *code)
{
    if (bits == 0 || bits % 8 != 0 || bits / 8 > digest_size || (weights != NULL && !weights_fit(weights, count)))
        return ND_ERROR_PARAMETER;
    const size_t width = bits / 8;
    memset(counters, 0, bits * sizeof *counters);
    for (size_t start = 0; start < count; start += ND_HASH_BLOCK) {
        const size_t size = count - start < ND_HASH_BLOCK ? count - start : ND_HASH_BLOCK;
        const uint8_t *const block = digests + start * digest_size;
        if (weights != NULL)
            nd_kernels_active()->add_weights(block, size, digest_size, width, weights + start, (uint64_t *)counters);
        for (size_t i = 0; weights == NULL && i < width; i += 8)
            count_bits(block + i, size, digest_size, width - i < 8 ? width - i : 8, counters + 8 * i);
    }
    balance(counters, bits, weights == NULL ? count : sum_of(weights, count));
    signs(counters, bits, code);
    return ND_OK;
}

void nd_simhash_finish(int64_t *ones, size_t bits, size_t count, uint8_t *code)
{
    balance(ones, bits, count);
    signs(ones, bits, code);
}

/* ---- MinHash (Broder 1997) ----------------------------------------------------------------------------------------- */

/* Family affine32, version 1, of a shingle hash h (a 32-bit hash is zero-extended), all modulo the width of the left side:
 *     uint32 x      = fold(fold(h)) >> 32, fold(h) = (h ^ (h >> 32)) * 0x9E3779B97F4A7C15
 *     uint32 h_i(x) = a_i * x + b_i                                      a_i odd: a bijection of the 32-bit numbers
 *     uint32 slot_i = mix32(min over the shingles of h_i(x))             mix32: the finaliser of MurmurHash3, a bijection
 * with a_i = low 32 bits | 1 and b_i = high 32 bits of the i-th output of SplitMix64(seed) (Steele, Lea and Flood 2014).
 * The minima of an affine function over an arithmetic progression are no fair draws: its ends are chosen too often. A single
 * fold leaves a progression one, and the similarity of two intervals of 100 numbers would be estimated 0.036 too low; after two
 * nothing can be seen of it.
 * The minimum of a long text is a small number and its low bits are those of a product of low bits: without mix32 the 16 or
 * the single bit that a signature keeps would agree by arithmetic, not by chance, wherever two minima differ.
 *
 * Family java32, of the article "MinHashing and LSH": x = the low 32 bits of h, h_i(x) = a_i * x + b_i in 32-bit two's complement,
 * the minimum of signed numbers, kept as it is; a_i and b_i in turn from java.util.Random(seed).nextInt(). */

static uint32_t mix32(uint32_t value)
{
    value = (value ^ value >> 16) * 0x85EBCA6Bu;
    value = (value ^ value >> 13) * 0xC2B2AE35u;
    return value ^ value >> 16;
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t value = *state += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

/* nextInt of java.util.Random: 48-bit linear congruence, its high 32 bits. */
static uint32_t java_next(uint64_t *state)
{
    *state = (*state * 0x5DEECE66Du + 0xBu) & 0xFFFFFFFFFFFFu;
    return (uint32_t)(*state >> 16);
}

int nd_minhash_coefficients(int32_t family, uint64_t seed, size_t num_perm, uint32_t *a, uint32_t *b)
{
    if (family != ND_FAMILY_AFFINE32 && family != ND_FAMILY_JAVA32)
        return ND_ERROR_PARAMETER;
    uint64_t state = family == ND_FAMILY_AFFINE32 ? seed : (seed ^ 0x5DEECE66Du) & 0xFFFFFFFFFFFFu;
    for (size_t i = 0; i < num_perm; i++) {
        if (family == ND_FAMILY_AFFINE32) {
            const uint64_t drawn = splitmix64(&state);
            a[i] = (uint32_t)drawn | 1;
            b[i] = (uint32_t)(drawn >> 32);
        } else {
            a[i] = java_next(&state);
            b[i] = java_next(&state);
        }
    }
    return ND_OK;
}

void nd_minhash_add(int32_t family, const uint32_t *a, const uint32_t *b, size_t num_perm, const uint64_t *hashes, size_t count,
    uint32_t *minima)
{
    const nd_kernels *kernels = nd_kernels_active();
    /* Signed order is unsigned order of numbers moved by 2^31: one kernel for both families. */
    const uint32_t offset = family == ND_FAMILY_JAVA32 ? 0x80000000u : 0;
    const unsigned shift = family == ND_FAMILY_JAVA32 ? 0 : 32;
    uint32_t x[ND_HASH_BLOCK];
    for (size_t start = 0; start < count; start += ND_HASH_BLOCK) {
        size_t size = count - start < ND_HASH_BLOCK ? count - start : ND_HASH_BLOCK;
        if (family == ND_FAMILY_AFFINE32)
            kernels->fold_hashes(hashes + start, size, x);
        for (size_t i = 0; family != ND_FAMILY_AFFINE32 && i < size; i++)
            x[i] = (uint32_t)(hashes[start + i] >> shift);
        kernels->minhash_update(a, b, offset, num_perm, x, size, minima);
    }
}

void nd_minhash_finish(int32_t family, size_t num_perm, uint32_t *minima)
{
    for (size_t i = 0; i < num_perm; i++)
        minima[i] = family == ND_FAMILY_JAVA32 ? minima[i] - 0x80000000u : mix32(minima[i]);
}

int nd_minhash(int32_t family, const uint32_t *a, const uint32_t *b, size_t num_perm, const uint64_t *hashes, size_t count,
    uint32_t *slots)
{
    if (count == 0 || (family != ND_FAMILY_AFFINE32 && family != ND_FAMILY_JAVA32))
        return ND_ERROR_PARAMETER;
    memset(slots, 0xff, num_perm * sizeof *slots);
    nd_minhash_add(family, a, b, num_perm, hashes, count, slots);
    nd_minhash_finish(family, num_perm, slots);
    return ND_OK;
}

void nd_bit_sample(const uint32_t *slots, size_t bits, uint8_t *code)
{
    memset(code, 0, (bits + 7) / 8);
    for (size_t i = 0; i < bits; i++)
        code[i / 8] = (uint8_t)(code[i / 8] | (slots[i] & 1) << (7 - i % 8));
}
