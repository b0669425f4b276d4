/* fingerprint.c: hashes of shingles -> SimHash, MinHash, bottom-k, one-bit samples. */
#include "internal.h"

/* Hashes are taken in blocks of this many, so that what is made of them fits the stack and the first-level cache. */
#define HASH_BLOCK 512

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

static void add_weighted(const uint8_t *digest, size_t bits, int64_t weight, int64_t *counters)
{
    for (size_t i = 0; i < bits; i++)
        counters[i] += digest[i / 8] >> (7 - i % 8) & 1 ? weight : -weight;
}

/* From "how many have the bit" to "with minus without". */
static void balance(int64_t *counters, size_t bits, size_t count)
{
    for (size_t i = 0; i < bits; i++)
        counters[i] = 2 * counters[i] - (int64_t)count;
}

int nd_simhash(const uint8_t *digests, size_t count, size_t digest_size, size_t bits, const int64_t *weights,
    int64_t *counters, uint8_t *code)
{
    if (bits == 0 || bits % 8 != 0 || bits / 8 > digest_size || (weights != NULL && !weights_fit(weights, count)))
        return ND_ERROR_PARAMETER;
    memset(counters, 0, bits * sizeof *counters);
    if (weights == NULL) {
        nd_kernels_active()->count_bits(digests, count, digest_size, bits / 8, counters);
        balance(counters, bits, count);
    } else {
        for (size_t i = 0; i < count; i++)
            add_weighted(digests + i * digest_size, bits, weights[i], counters);
    }
    signs(counters, bits, code);
    return ND_OK;
}

int nd_simhash_u64(const uint64_t *hashes, size_t count, size_t hash_bits, size_t bits, const int64_t *weights,
    int64_t *counters, uint8_t *code)
{
    if ((hash_bits != 32 && hash_bits != 64) || bits == 0 || bits % 8 != 0 || bits > hash_bits)
        return ND_ERROR_PARAMETER;
    if (weights != NULL && !weights_fit(weights, count))
        return ND_ERROR_PARAMETER;
    const nd_kernels *kernels = nd_kernels_active();
    uint8_t digests[8 * HASH_BLOCK];
    memset(counters, 0, bits * sizeof *counters);
    for (size_t start = 0; start < count; start += HASH_BLOCK) {
        size_t size = count - start < HASH_BLOCK ? count - start : HASH_BLOCK;
        for (size_t i = 0; i < size; i++)
            nd_store_big64(digests + 8 * i, hashes[start + i] << (64 - hash_bits));
        if (weights == NULL)
            kernels->count_bits(digests, size, 8, bits / 8, counters);
        else
            for (size_t i = 0; i < size; i++)
                add_weighted(digests + 8 * i, bits, weights[start + i], counters);
    }
    if (weights == NULL)
        balance(counters, bits, count);
    signs(counters, bits, code);
    return ND_OK;
}

/* ---- MinHash (Broder 1997) ----------------------------------------------------------------------------------------- */

/* Family affine32, version 1, of a shingle hash h (a 32-bit hash is zero-extended), all modulo the width of the left side:
 *     uint32 x      = ((h ^ (h >> 32)) * 0x9E3779B97F4A7C15) >> 32       every bit of h reaches x
 *     uint32 h_i(x) = a_i * x + b_i                                      a_i odd: a bijection of the 32-bit numbers
 *     uint32 slot_i = mix32(min over the shingles of h_i(x))             mix32: the finaliser of MurmurHash3, a bijection
 * with a_i = low 32 bits | 1 and b_i = high 32 bits of the i-th output of SplitMix64(seed) (Steele, Lea and Flood 2014).
 * The minimum of a long text is a small number and its low bits are those of a product of low bits: without mix32 the 16 or
 * the single bit that a signature keeps would agree by arithmetic, not by chance, wherever two minima differ.
 *
 * Family java32, of the article "MinHashing and LSH": x = the low 32 bits of h, h_i(x) = a_i * x + b_i in 32-bit two's complement,
 * the minimum of signed numbers, kept as it is; a_i and b_i in turn from java.util.Random(seed).nextInt(). */

static uint32_t premix(uint64_t hash)
{
    return (uint32_t)((hash ^ hash >> 32) * 0x9E3779B97F4A7C15u >> 32);
}

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
    if (family == ND_FAMILY_AFFINE32) {
        for (size_t i = 0; i < num_perm; i++) {
            uint64_t drawn = splitmix64(&seed);
            a[i] = (uint32_t)drawn | 1;
            b[i] = (uint32_t)(drawn >> 32);
        }
        return ND_OK;
    }
    if (family == ND_FAMILY_JAVA32) {
        uint64_t state = (seed ^ 0x5DEECE66Du) & 0xFFFFFFFFFFFFu;
        for (size_t i = 0; i < num_perm; i++) {
            a[i] = java_next(&state);
            b[i] = java_next(&state);
        }
        return ND_OK;
    }
    return ND_ERROR_PARAMETER;
}

int nd_minhash(int32_t family, const uint32_t *a, const uint32_t *b, size_t num_perm, const uint64_t *hashes, size_t count,
    uint32_t *slots)
{
    if (count == 0 || (family != ND_FAMILY_AFFINE32 && family != ND_FAMILY_JAVA32))
        return ND_ERROR_PARAMETER;
    const nd_kernels *kernels = nd_kernels_active();
    /* Signed order is unsigned order of numbers moved by 2^31: one kernel for both families. */
    const uint32_t offset = family == ND_FAMILY_JAVA32 ? 0x80000000u : 0;
    uint32_t x[HASH_BLOCK];
    memset(slots, 0xff, num_perm * sizeof *slots);
    for (size_t start = 0; start < count; start += HASH_BLOCK) {
        size_t size = count - start < HASH_BLOCK ? count - start : HASH_BLOCK;
        for (size_t i = 0; i < size; i++)
            x[i] = family == ND_FAMILY_JAVA32 ? (uint32_t)hashes[start + i] : premix(hashes[start + i]);
        kernels->minhash_update(a, b, offset, num_perm, x, size, slots);
    }
    for (size_t i = 0; i < num_perm; i++)
        slots[i] = family == ND_FAMILY_JAVA32 ? slots[i] - offset : mix32(slots[i]);
    return ND_OK;
}

int nd_bit_sample(const uint32_t *slots, size_t bits, uint8_t *code)
{
    memset(code, 0, (bits + 7) / 8);
    for (size_t i = 0; i < bits; i++)
        code[i / 8] = (uint8_t)(code[i / 8] | (slots[i] & 1) << (7 - i % 8));
    return ND_OK;
}

/* ---- bottom-k ------------------------------------------------------------------------------------------------------- */

/* kept[count] and fresh[fresh_count], both ascending and distinct: the k smallest of the two together, in kept, which has room
 * for k. Drops from fresh what kept has, then from the larger end of the two what is beyond k, then merges backwards. */
static size_t merge_smallest(uint64_t *kept, size_t count, uint64_t *fresh, size_t fresh_count, size_t k)
{
    size_t left = 0;
    for (size_t i = 0, j = 0; j < fresh_count; j++) {
        while (i < count && kept[i] < fresh[j])
            i++;
        if (i == count || kept[i] != fresh[j])
            fresh[left++] = fresh[j];
    }
    while (count + left > k) {
        if (left == 0 || (count > 0 && kept[count - 1] > fresh[left - 1]))
            count--;
        else
            left--;
    }
    size_t total = count + left;
    for (size_t out = total; left > 0; out--) {
        if (count > 0 && kept[count - 1] > fresh[left - 1])
            kept[out - 1] = kept[--count];
        else
            kept[out - 1] = fresh[--left];
    }
    return total;
}

/* One pass: hashes below the k-th smallest so far wait in a block, which is merged in when it is full. */
int nd_bottom_k(const uint64_t *hashes, size_t count, size_t k, uint64_t *out, size_t *out_count)
{
    uint64_t waiting[HASH_BLOCK];
    size_t waiting_count = 0, next = count < k ? count : k;
    *out_count = 0;
    if (k == 0)
        return ND_ERROR_PARAMETER;
    if (next > 0)
        memcpy(out, hashes, next * sizeof *out);
    size_t kept = nd_sort_distinct(out, next);
    for (; next < count; next++) {
        if (kept == k && hashes[next] >= out[k - 1])
            continue;
        waiting[waiting_count++] = hashes[next];
        if (waiting_count == HASH_BLOCK) {
            kept = merge_smallest(out, kept, waiting, nd_sort_distinct(waiting, waiting_count), k);
            waiting_count = 0;
        }
    }
    *out_count = merge_smallest(out, kept, waiting, nd_sort_distinct(waiting, waiting_count), k);
    return ND_OK;
}
