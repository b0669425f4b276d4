/* avx2.c: the kernels for x86-64 CPUs with AVX2 and POPCNT. Same names and same results as in scalar.c. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

ND_TARGET_AVX2 static __m256i load(const void *address)
{
    return _mm256_loadu_si256((const __m256i *)address);
}

ND_TARGET_AVX2 static void store(void *address, __m256i value)
{
    _mm256_storeu_si256((__m256i *)address, value);
}

/* All bits of lanes 0 to count - 1 of eight, whatever count is beyond. */
ND_TARGET_AVX2 static __m256i first(size_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count < 8 ? (int)count : 8), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Lanes that are not among the first are 0 and are not read. */
ND_TARGET_AVX2 static __m256i load_first(__m256i lanes, const uint32_t *address)
{
    return _mm256_maskload_epi32((const int *)address, lanes);
}

/* ---- MinHash ------------------------------------------------------------------------------------------------------------ */

/* Eight slots a register, four registers at once: the multiplication takes about ten cycles, so that four independent ones are
 * under way while the minima stay in registers over all of x. Plain loop:
 *     for every slot i, every x[j]: minima[i] = min(minima[i], a[i] * x[j] + b[i] + offset) */
ND_TARGET_AVX2 static void minhash_update(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm,
    const uint32_t *x, size_t count, uint32_t *minima)
{
    const __m256i offsets = _mm256_set1_epi32((int)offset);
    size_t i = 0;
    for (; i + 32 <= num_perm; i += 32) {
        __m256i a0 = load(a + i), a1 = load(a + i + 8), a2 = load(a + i + 16), a3 = load(a + i + 24);
        __m256i b0 = _mm256_add_epi32(load(b + i), offsets), b1 = _mm256_add_epi32(load(b + i + 8), offsets);
        __m256i b2 = _mm256_add_epi32(load(b + i + 16), offsets), b3 = _mm256_add_epi32(load(b + i + 24), offsets);
        __m256i m0 = load(minima + i), m1 = load(minima + i + 8), m2 = load(minima + i + 16), m3 = load(minima + i + 24);
        for (size_t j = 0; j < count; j++) {
            __m256i value = _mm256_set1_epi32((int)x[j]);
            m0 = _mm256_min_epu32(m0, _mm256_add_epi32(_mm256_mullo_epi32(a0, value), b0));
            m1 = _mm256_min_epu32(m1, _mm256_add_epi32(_mm256_mullo_epi32(a1, value), b1));
            m2 = _mm256_min_epu32(m2, _mm256_add_epi32(_mm256_mullo_epi32(a2, value), b2));
            m3 = _mm256_min_epu32(m3, _mm256_add_epi32(_mm256_mullo_epi32(a3, value), b3));
        }
        store(minima + i, m0);
        store(minima + i + 8, m1);
        store(minima + i + 16, m2);
        store(minima + i + 24, m3);
    }
    for (; i < num_perm; i += 16) {
        __m256i low = first(num_perm - i), high = first(num_perm - i < 8 ? 0 : num_perm - i - 8);
        __m256i a0 = load_first(low, a + i), a1 = load_first(high, a + i + 8);
        __m256i b0 = _mm256_add_epi32(load_first(low, b + i), offsets);
        __m256i b1 = _mm256_add_epi32(load_first(high, b + i + 8), offsets);
        __m256i m0 = load_first(low, minima + i), m1 = load_first(high, minima + i + 8);
        for (size_t j = 0; j < count; j++) {
            __m256i value = _mm256_set1_epi32((int)x[j]);
            m0 = _mm256_min_epu32(m0, _mm256_add_epi32(_mm256_mullo_epi32(a0, value), b0));
            m1 = _mm256_min_epu32(m1, _mm256_add_epi32(_mm256_mullo_epi32(a1, value), b1));
        }
        _mm256_maskstore_epi32((int *)minima + i, low, m0);
        _mm256_maskstore_epi32((int *)minima + i + 8, high, m1);
    }
}

/* ---- SimHash ------------------------------------------------------------------------------------------------------------ */

/* Four bytes of each of up to 255 digests, spread so that byte lane n holds bit n (most significant first) as 0 or -1, and
 * subtracted from byte counters, which cannot overflow within 255. */
ND_TARGET_AVX2 static void count_32_bits(const uint8_t *digests, size_t count, size_t stride, int64_t *ones)
{
    const __m256i byte_of_lane = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3,
        3, 3, 3, 3, 3);
    const __m256i bit_of_lane = _mm256_set1_epi64x(0x0102040810204080);
    __m256i counters = _mm256_setzero_si256();
    for (size_t j = 0; j < count; j++) {
        int four_bytes;
        memcpy(&four_bytes, digests + j * stride, 4);
        __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(four_bytes), byte_of_lane);
        counters = _mm256_sub_epi8(counters, _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of_lane), bit_of_lane));
    }
    uint8_t sums[32];
    store(sums, counters);
    for (size_t bit = 0; bit < 32; bit++)
        ones[bit] += sums[bit];
}

ND_TARGET_AVX2 static void count_bits(const uint8_t *digests, size_t count, size_t stride, size_t width, int64_t *ones)
{
    const size_t most = 255;
    size_t whole = width - width % 4;
    for (size_t start = 0; start < count; start += most) {
        size_t size = count - start < most ? count - start : most;
        for (size_t i = 0; i < whole; i += 4)
            count_32_bits(digests + start * stride + i, size, stride, ones + 8 * i);
    }
    if (whole < width)
        nd_kernels_scalar.count_bits(digests + whole, count, stride, width - whole, ones + 8 * whole);
}

/* Byte counters of 64 bits, the most significant first: 32 in each register. */
typedef struct bit_counters {
    __m256i high, low;
} bit_counters;

/* A word of 64 bits in every quarter of a register: 1 to each counter whose bit is set. */
ND_TARGET_AVX2 static inline void count_word(bit_counters *counters, __m256i word)
{
    const __m256i high_bytes = _mm256_setr_epi8(7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5, 5, 5, 5, 5, 5, 5, 4, 4, 4,
        4, 4, 4, 4, 4);
    const __m256i bit_of_lane = _mm256_set1_epi64x(0x0102040810204080);
    __m256i high = _mm256_shuffle_epi8(word, high_bytes);
    __m256i low = _mm256_shuffle_epi8(word, _mm256_sub_epi8(high_bytes, _mm256_set1_epi8(4)));
    counters->high = _mm256_sub_epi8(counters->high, _mm256_cmpeq_epi8(_mm256_and_si256(high, bit_of_lane), bit_of_lane));
    counters->low = _mm256_sub_epi8(counters->low, _mm256_cmpeq_epi8(_mm256_and_si256(low, bit_of_lane), bit_of_lane));
}

ND_TARGET_AVX2 static inline void count_words(bit_counters *counters, __m256i words)
{
    count_word(counters, _mm256_permute4x64_epi64(words, 0x00));
    count_word(counters, _mm256_permute4x64_epi64(words, 0x55));
    count_word(counters, _mm256_permute4x64_epi64(words, 0xaa));
    count_word(counters, _mm256_permute4x64_epi64(words, 0xff));
}

/* A full adder of 256 columns: leaves the sum in *a, returns the carry. */
ND_TARGET_AVX2 static inline __m256i add_columns(__m256i *a, __m256i b, __m256i c)
{
    __m256i half = _mm256_xor_si256(*a, b);
    __m256i carry = _mm256_or_si256(_mm256_and_si256(*a, b), _mm256_and_si256(half, c));
    *a = _mm256_xor_si256(half, c);
    return carry;
}

/* Up to 1,984 hashes. Vertical counters: `ones`, `twos` and `fours` hold three binary digits of 256 counts, four for each bit of a
 * hash; eight registers of hashes go in through seven full adders, and only their carry into the eights, an eighth of the words,
 * is counted in bytes (after Harley and Seal's population count). 62 rounds fill a byte with 248 at most. */
ND_TARGET_AVX2 static void count_bits64_part(const uint64_t *hashes, size_t count, int64_t *ones_of_bits)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i ones = zero, twos = zero, fours = zero;
    bit_counters counted = {zero, zero}, eights_counted = {zero, zero};
    size_t j = 0;
    for (; j + 32 <= count; j += 32) {
        __m256i twos_a = add_columns(&ones, load(hashes + j), load(hashes + j + 4));
        __m256i twos_b = add_columns(&ones, load(hashes + j + 8), load(hashes + j + 12));
        __m256i fours_a = add_columns(&twos, twos_a, twos_b);
        twos_a = add_columns(&ones, load(hashes + j + 16), load(hashes + j + 20));
        twos_b = add_columns(&ones, load(hashes + j + 24), load(hashes + j + 28));
        __m256i fours_b = add_columns(&twos, twos_a, twos_b);
        count_words(&eights_counted, add_columns(&fours, fours_a, fours_b));
    }
    /* (4 * 2 + 4) * 2 + 4 + 31 fits a byte */
    if (j > 0) {
        count_words(&counted, fours);
        counted = (bit_counters){_mm256_add_epi8(counted.high, counted.high), _mm256_add_epi8(counted.low, counted.low)};
        count_words(&counted, twos);
        counted = (bit_counters){_mm256_add_epi8(counted.high, counted.high), _mm256_add_epi8(counted.low, counted.low)};
        count_words(&counted, ones);
    }
    for (; j < count; j++)
        count_word(&counted, _mm256_set1_epi64x((long long)hashes[j]));
    uint8_t few[64], eights[64];
    store(few, counted.high);
    store(few + 32, counted.low);
    store(eights, eights_counted.high);
    store(eights + 32, eights_counted.low);
    for (size_t bit = 0; bit < 64; bit++)
        ones_of_bits[bit] += 8 * eights[bit] + few[bit];
}

ND_TARGET_AVX2 static void count_bits64(const uint64_t *hashes, size_t count, int64_t *ones)
{
    const size_t most = 62 * 32;
    for (size_t start = 0; start < count; start += most)
        count_bits64_part(hashes + start, count - start < most ? count - start : most, ones);
}

/* Eight sums of 64 bits in two registers; the weight is masked by the bits of a byte of the digest. */
ND_TARGET_AVX2 static void add_weights(const uint8_t *digests, size_t count, size_t stride, size_t width, const int64_t *weights,
    uint64_t *sums)
{
    const __m256i high_bits = _mm256_setr_epi64x(128, 64, 32, 16), low_bits = _mm256_setr_epi64x(8, 4, 2, 1);
    for (size_t i = 0; i < width; i++) {
        __m256i high = load(sums + 8 * i), low = load(sums + 8 * i + 4);
        for (size_t j = 0; j < count; j++) {
            __m256i byte = _mm256_set1_epi64x(digests[j * stride + i]), weight = _mm256_set1_epi64x(weights[j]);
            __m256i high_set = _mm256_cmpeq_epi64(_mm256_and_si256(byte, high_bits), high_bits);
            __m256i low_set = _mm256_cmpeq_epi64(_mm256_and_si256(byte, low_bits), low_bits);
            high = _mm256_add_epi64(high, _mm256_and_si256(weight, high_set));
            low = _mm256_add_epi64(low, _mm256_and_si256(weight, low_set));
        }
        store(sums + 8 * i, high);
        store(sums + 8 * i + 4, low);
    }
}

/* ---- comparisons -------------------------------------------------------------------------------------------------------- */

ND_TARGET_AVX2 static uint64_t hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t distance = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8)
        distance += (uint64_t)_mm_popcnt_u64(nd_load64(a + i) ^ nd_load64(b + i));
    for (; i < size; i++)
        distance += (uint64_t)_mm_popcnt_u32((uint32_t)(a[i] ^ b[i]));
    return distance;
}

ND_TARGET_AVX2 static size_t keep_near(const uint8_t *codes, size_t count, size_t size, const uint8_t *code,
    uint64_t max_distance, uint32_t *out)
{
    size_t kept = 0;
    uint64_t wanted = size == 8 ? nd_load64(code) : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t distance = size == 8 ? (uint64_t)_mm_popcnt_u64(nd_load64(codes + 8 * i) ^ wanted)
                                      : hamming(codes + i * size, code, size);
        out[kept] = (uint32_t)i;
        kept += distance <= max_distance;
    }
    return kept;
}

/* Equal bytes come out as ones of a 32-bit mask: two for each equal slot of 16 bits, four for one of 32. */
ND_TARGET_AVX2 static size_t equal_slots16(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t i = 0, ones = 0;
    for (; i + 16 <= count; i += 16)
        ones += (size_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi16(load(a + 2 * i), load(b + 2 * i))));
    return ones / 2 + nd_kernels_scalar.equal_slots16(a + 2 * i, b + 2 * i, count - i);
}

ND_TARGET_AVX2 static size_t equal_slots32(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t i = 0, ones = 0;
    for (; i + 8 <= count; i += 8)
        ones += (size_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi32(load(a + 4 * i), load(b + 4 * i))));
    return ones / 4 + nd_kernels_scalar.equal_slots32(a + 4 * i, b + 4 * i, count - i);
}

/* Compares every value of four of a with every one of four of b, in four turns of the second register, then leaves behind the
 * block whose last value is smaller (or both): 16 comparisons for eight values, with no branch on the values. Skips are looked
 * at after every block; the rest is merged. */
ND_TARGET_AVX2 static size_t count_common(const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, size_t max_skips)
{
    size_t i = 0, j = 0, common = 0;
    while (i + 4 <= a_count && j + 4 <= b_count) {
        __m256i left = load(a + 8 * i), right = load(b + 8 * j);
        uint64_t left_last = nd_load64(a + 8 * i + 24), right_last = nd_load64(b + 8 * j + 24);
        __m256i equal = _mm256_or_si256(
            _mm256_or_si256(_mm256_cmpeq_epi64(left, right), _mm256_cmpeq_epi64(left, _mm256_permute4x64_epi64(right, 0x39))),
            _mm256_or_si256(_mm256_cmpeq_epi64(left, _mm256_permute4x64_epi64(right, 0x4e)),
                _mm256_cmpeq_epi64(left, _mm256_permute4x64_epi64(right, 0x93))));
        common += (size_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
        i += left_last <= right_last ? 4 : 0;
        j += right_last <= left_last ? 4 : 0;
        if (i + j > max_skips + 2 * common)
            return SIZE_MAX;
    }
    /* Values of the block not yet left behind may be counted as common already: the merge passes them as skips, which the
     * allowance makes good. */
    size_t rest = nd_kernels_scalar.count_common(a + 8 * i, a_count - i, b + 8 * j, b_count - j,
        max_skips + 2 * common - (i + j));
    return rest == SIZE_MAX ? SIZE_MAX : common + rest;
}

const nd_kernels nd_kernels_avx2 = {
    .name = "avx2",
    .minhash_update = minhash_update,
    .count_bits = count_bits,
    .count_bits64 = count_bits64,
    .add_weights = add_weights,
    .hamming = hamming,
    .keep_near = keep_near,
    .equal_slots16 = equal_slots16,
    .equal_slots32 = equal_slots32,
    .count_common = count_common,
};

#endif
