/* neon.c: the kernels for 64-bit ARM, all of which has NEON. Same names and same results as in scalar.c; merges
 * and joins are no faster here than there. */
#include "kernels/kernels.h"

#if ND_HAVE_NEON

#include <arm_neon.h>

/* ---- MinHash ------------------------------------------------------------------------------------------------------------ */

/* Four slots a register, eight registers at once: a, b and the minima of 32 slots stay in registers over all of x. */
static void update_32(const uint32_t *a, const uint32_t *b, uint32_t offset, const uint32_t *x, size_t count, uint32_t *minima)
{
    uint32x4_t factors[8], shifts[8], least[8];
    for (size_t n = 0; n < 8; n++) {
        factors[n] = vld1q_u32(a + 4 * n);
        shifts[n] = vaddq_u32(vld1q_u32(b + 4 * n), vdupq_n_u32(offset));
        least[n] = vld1q_u32(minima + 4 * n);
    }
    for (size_t j = 0; j < count; j++) {
        uint32x4_t value = vdupq_n_u32(x[j]);
        for (size_t n = 0; n < 8; n++)
            least[n] = vminq_u32(least[n], vmlaq_u32(shifts[n], factors[n], value));
    }
    for (size_t n = 0; n < 8; n++)
        vst1q_u32(minima + 4 * n, least[n]);
}

static void minhash_update(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm, const uint32_t *x,
    size_t count, uint32_t *minima)
{
    size_t i = 0;
    for (; i + 32 <= num_perm; i += 32)
        update_32(a + i, b + i, offset, x, count, minima + i);
    for (; i + 4 <= num_perm; i += 4) {
        uint32x4_t factor = vld1q_u32(a + i), least = vld1q_u32(minima + i);
        uint32x4_t shift = vaddq_u32(vld1q_u32(b + i), vdupq_n_u32(offset));
        for (size_t j = 0; j < count; j++)
            least = vminq_u32(least, vmlaq_u32(shift, factor, vdupq_n_u32(x[j])));
        vst1q_u32(minima + i, least);
    }
    nd_kernels_scalar.minhash_update(a + i, b + i, offset, num_perm - i, x, count, minima + i);
}

/* ---- SimHash ------------------------------------------------------------------------------------------------------------ */

/* Byte counters of 64 bits, 16 in each register. */
typedef struct bit_counters {
    uint8x16_t parts[4];
} bit_counters;

/* A word of 64 bits, twice in a register: 1 to each counter whose bit is set. first_byte and step say in which order the bytes
 * of the word are counted: 7 and -1, the most significant first, or 0 and 1. */
static inline void count_word(bit_counters *counters, uint8x16_t word, int first_byte, int step)
{
    const uint8x16_t bit_of_lane = vreinterpretq_u8_u64(vdupq_n_u64(0x0102040810204080));
    for (int n = 0; n < 4; n++) {
        uint8x8_t even = vdup_n_u8((uint8_t)(first_byte + 2 * n * step));
        uint8x8_t odd = vdup_n_u8((uint8_t)(first_byte + (2 * n + 1) * step));
        uint8x16_t spread = vqtbl1q_u8(word, vcombine_u8(even, odd));
        counters->parts[n] = vsubq_u8(counters->parts[n], vtstq_u8(spread, bit_of_lane));
    }
}

static inline void count_words(bit_counters *counters, uint64x2_t words)
{
    count_word(counters, vreinterpretq_u8_u64(vdupq_laneq_u64(words, 0)), 7, -1);
    count_word(counters, vreinterpretq_u8_u64(vdupq_laneq_u64(words, 1)), 7, -1);
}

static inline void twice(bit_counters *counters)
{
    for (size_t n = 0; n < 4; n++)
        counters->parts[n] = vaddq_u8(counters->parts[n], counters->parts[n]);
}

static inline void add_counters(const bit_counters *counters, int64_t factor, size_t bits, int64_t *ones)
{
    uint8_t sums[64];
    for (size_t n = 0; n < 4; n++)
        vst1q_u8(sums + 16 * n, counters->parts[n]);
    for (size_t bit = 0; bit < bits; bit++)
        ones[bit] += factor * sums[bit];
}

/* A full adder of 128 columns: leaves the sum in *a, returns the carry. */
static inline uint64x2_t add_columns(uint64x2_t *a, uint64x2_t b, uint64x2_t c)
{
    uint64x2_t half = veorq_u64(*a, b), carry = vbslq_u64(half, c, b);
    *a = veorq_u64(half, c);
    return carry;
}

/* Up to 1,984 hashes, by vertical counters as in avx2.c. 124 rounds fill a byte with 248 at most. */
static void count_bits64_part(const uint64_t *hashes, size_t count, int64_t *ones_of_bits)
{
    uint64x2_t ones = vdupq_n_u64(0), twos = ones, fours = ones;
    bit_counters counted = {{vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)}}, eights_counted = counted;
    size_t j = 0;
    for (; j + 16 <= count; j += 16) {
        const uint64_t *next = hashes + j;
        uint64x2_t twos_a = add_columns(&ones, vld1q_u64(next), vld1q_u64(next + 2));
        uint64x2_t twos_b = add_columns(&ones, vld1q_u64(next + 4), vld1q_u64(next + 6));
        uint64x2_t fours_a = add_columns(&twos, twos_a, twos_b);
        twos_a = add_columns(&ones, vld1q_u64(next + 8), vld1q_u64(next + 10));
        twos_b = add_columns(&ones, vld1q_u64(next + 12), vld1q_u64(next + 14));
        uint64x2_t fours_b = add_columns(&twos, twos_a, twos_b);
        count_words(&eights_counted, add_columns(&fours, fours_a, fours_b));
    }
    /* (2 * 2 + 2) * 2 + 2 + 15 fits a byte */
    count_words(&counted, fours);
    twice(&counted);
    count_words(&counted, twos);
    twice(&counted);
    count_words(&counted, ones);
    for (; j < count; j++)
        count_word(&counted, vreinterpretq_u8_u64(vdupq_n_u64(hashes[j])), 7, -1);
    add_counters(&counted, 1, 64, ones_of_bits);
    add_counters(&eights_counted, 8, 64, ones_of_bits);
}

static void count_bits64(const uint64_t *hashes, size_t count, int64_t *ones)
{
    const size_t most = 124 * 16;
    for (size_t start = 0; start < count; start += most)
        count_bits64_part(hashes + start, count - start < most ? count - start : most, ones);
}

/* Eight bytes of up to 255 digests without the lowest `drop` bits of each. */
static void count_columns(const uint8_t *digests, size_t count, size_t stride, unsigned drop, size_t width, int64_t *ones)
{
    bit_counters counted = {{vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)}};
    for (size_t j = 0; j < count; j++)
        count_word(&counted, vreinterpretq_u8_u64(vdupq_n_u64(nd_load64(digests + j * stride) >> drop)), 0, 1);
    add_counters(&counted, 1, 8 * width, ones);
}

static void count_bits(const uint8_t *digests, size_t count, size_t stride, size_t width, int64_t *ones)
{
    const size_t most = 255, rest = width % 8;
    if (width < 8) {
        nd_kernels_scalar.count_bits(digests, count, stride, width, ones);
        return;
    }
    for (size_t start = 0; start < count; start += most) {
        const uint8_t *part = digests + start * stride;
        size_t size = count - start < most ? count - start : most, i = 0;
        for (; i + 8 <= width; i += 8)
            count_columns(part + i, size, stride, 0, 8, ones + 8 * i);
        if (rest > 0) /* the last eight bytes without those that were counted */
            count_columns(part + width - 8, size, stride, (unsigned)(64 - 8 * rest), rest, ones + 8 * i);
    }
}

static void add_weights(const uint8_t *digests, size_t count, size_t stride, size_t width, const int64_t *weights, uint64_t *sums)
{
    static const uint64_t bits[8] = {128, 64, 32, 16, 8, 4, 2, 1};
    for (size_t i = 0; i < width; i++) {
        uint64x2_t sum[4];
        for (size_t n = 0; n < 4; n++)
            sum[n] = vld1q_u64(sums + 8 * i + 2 * n);
        for (size_t j = 0; j < count; j++) {
            uint64x2_t byte = vdupq_n_u64(digests[j * stride + i]), weight = vdupq_n_u64((uint64_t)weights[j]);
            for (size_t n = 0; n < 4; n++)
                sum[n] = vaddq_u64(sum[n], vandq_u64(weight, vtstq_u64(byte, vld1q_u64(bits + 2 * n))));
        }
        for (size_t n = 0; n < 4; n++)
            vst1q_u64(sums + 8 * i + 2 * n, sum[n]);
    }
}

/* ---- comparisons -------------------------------------------------------------------------------------------------------- */

static uint64_t hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t distance = 0;
    size_t i = 0;
    for (; i + 16 <= size; i += 16)
        distance += vaddlvq_u8(vcntq_u8(veorq_u8(vld1q_u8(a + i), vld1q_u8(b + i))));
    for (; i + 8 <= size; i += 8)
        distance += vaddlv_u8(vcnt_u8(veor_u8(vld1_u8(a + i), vld1_u8(b + i))));
    return distance + nd_kernels_scalar.hamming(a + i, b + i, size - i);
}

static size_t keep_near(const uint8_t *codes, size_t count, size_t size, const uint8_t *code, uint64_t max_distance,
    uint32_t *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        out[kept] = (uint32_t)i;
        kept += hamming(codes + i * size, code, size) <= max_distance;
    }
    return kept;
}

/* The counters of a lane go up to 8,192 before they are added. */
static size_t equal_slots16(const uint8_t *a, const uint8_t *b, size_t count)
{
    const size_t most = 65536;
    size_t i = 0, equal = 0;
    while (i + 8 <= count) {
        size_t end = count - i < most ? count : i + most;
        uint16x8_t counted = vdupq_n_u16(0);
        for (; i + 8 <= end; i += 8)
            counted = vsubq_u16(counted,
                vceqq_u16(vreinterpretq_u16_u8(vld1q_u8(a + 2 * i)), vreinterpretq_u16_u8(vld1q_u8(b + 2 * i))));
        equal += vaddlvq_u16(counted);
    }
    return equal + nd_kernels_scalar.equal_slots16(a + 2 * i, b + 2 * i, count - i);
}

static size_t equal_slots32(const uint8_t *a, const uint8_t *b, size_t count)
{
    const size_t most = 65536;
    size_t i = 0, equal = 0;
    while (i + 4 <= count) {
        size_t end = count - i < most ? count : i + most;
        uint32x4_t counted = vdupq_n_u32(0);
        for (; i + 4 <= end; i += 4)
            counted = vsubq_u32(counted,
                vceqq_u32(vreinterpretq_u32_u8(vld1q_u8(a + 4 * i)), vreinterpretq_u32_u8(vld1q_u8(b + 4 * i))));
        equal += vaddlvq_u32(counted);
    }
    return equal + nd_kernels_scalar.equal_slots32(a + 4 * i, b + 4 * i, count - i);
}

const nd_kernels nd_kernels_neon = {
    .name = "neon",
    .minhash_update = minhash_update,
    .count_bits = count_bits,
    .count_bits64 = count_bits64,
    .add_weights = add_weights,
    .hamming = hamming,
    .keep_near = keep_near,
    .equal_slots16 = equal_slots16,
    .equal_slots32 = equal_slots32,
};

#endif
