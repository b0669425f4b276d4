/* loops.h: the kernels of fingerprints and comparisons. A file of each tier includes it, after it has defined
 *     ND_TIER          the attribute of functions for its CPUs, or nothing
 *     ND_WIDTH         bytes of a register
 *     ND_LEAST(a, b)   the smaller of each two numbers of 32 bits, in registers
 *     ND_ONES(word)    the set bits of 64
 * and gets the same functions. */
#ifndef NEARDUP_KERNELS_LOOPS_H
#define NEARDUP_KERNELS_LOOPS_H

#include "kernels/kernels.h"
#include "kernels/registers.h"

enum { LANES32 = ND_WIDTH / 4, LANES64 = ND_WIDTH / 8, REGISTERS = 4 };

/* ---- MinHash ------------------------------------------------------------------------------------------------------------ */

/* A multiplication takes about ten cycles, so several independent ones are under way while the minima stay in registers over
 * all of x. */
ND_INLINE void update_registers(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t registers, const uint32_t *x,
    size_t count, uint32_t *minima)
{
    words32 factors[REGISTERS], shifts[REGISTERS], least[REGISTERS];
    ND_UNROLL
    for (size_t n = 0; n < registers; n++) {
        factors[n] = ((const any32 *)a)[n];
        shifts[n] = ((const any32 *)b)[n] + offset;
        least[n] = ((const any32 *)minima)[n];
    }
    for (size_t j = 0; j < count; j++) {
        ND_UNROLL
        for (size_t n = 0; n < registers; n++)
            least[n] = ND_LEAST(least[n], factors[n] * x[j] + shifts[n]);
    }
    ND_UNROLL
    for (size_t n = 0; n < registers; n++)
        ((any32 *)minima)[n] = least[n];
}

ND_TIER static void minhash_update(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm, const uint32_t *x,
    size_t count, uint32_t *minima)
{
    enum { MOST = REGISTERS * LANES32, HALF = MOST / 2 };
    size_t i = 0;
    for (; i + MOST <= num_perm; i += MOST)
        update_registers(a + i, b + i, offset, REGISTERS, x, count, minima + i);
    for (size_t size; i < num_perm; i += size) {
        uint32_t rest[3][HALF] = {{0}};
        size = num_perm - i < HALF ? num_perm - i : HALF;
        memcpy(rest[0], a + i, 4 * size);
        memcpy(rest[1], b + i, 4 * size);
        memcpy(rest[2], minima + i, 4 * size);
        update_registers(rest[0], rest[1], offset, REGISTERS / 2, x, count, rest[2]);
        memcpy(minima + i, rest[2], 4 * size);
    }
}

/* ---- SimHash ------------------------------------------------------------------------------------------------------------ */

/* A full adder of columns of bits: leaves the sum in *a, returns the carry. */
ND_INLINE words64 add_columns(words64 *a, words64 b, words64 c)
{
    const words64 half = *a ^ b, carry = (*a & b) | (half & c);
    *a = half ^ c;
    return carry;
}

/* Bit i of each byte goes to counters of its own, a byte each. */
ND_INLINE void count_bytes(words64 counters[8], words64 words)
{
    ND_UNROLL
    for (size_t i = 0; i < 8; i++)
        counters[i] += words >> i & 0x0101010101010101;
}

/* Four registers of hashes on top of ones and twos; returns the carry. */
ND_INLINE words64 add_four(words64 *ones, words64 *twos, const uint64_t *hashes)
{
    const any64 *const next = (const any64 *)hashes;
    const words64 twos_a = add_columns(ones, next[0], next[1]), twos_b = add_columns(ones, next[2], next[3]);
    return add_columns(twos, twos_a, twos_b);
}

ND_INLINE void add_counters(const words64 counters[8], int64_t factor, int64_t *ones)
{
    for (size_t i = 0; i < 8; i++) {
        uint64_t sum = 0;
        for (size_t lane = 0; lane < LANES64; lane++)
            sum += counters[i][lane];
        for (size_t byte = 0; byte < 8; byte++)
            ones[63 - i - 8 * byte] += factor * (int64_t)(sum >> 8 * byte & 255);
    }
}

/* Vertical counters: `ones`, `twos` and `fours` hold three binary digits of a count for each bit of each lane; eight registers of
 * hashes go in through seven full adders, and only their carry into the eights, an eighth of the words, is counted in bytes (after
 * Harley and Seal's population count). 248 words fill a byte with 248 at most. */
ND_TIER static void count_bits64_part(const uint64_t *hashes, size_t count, int64_t *ones_of_bits)
{
    words64 ones = {0}, twos = ones, fours = ones, few[8] = {{0}}, eights[8] = {{0}};
    size_t j = 0;
    for (; j + 8 * LANES64 <= count; j += 8 * LANES64) {
        const words64 first = add_four(&ones, &twos, hashes + j), second = add_four(&ones, &twos, hashes + j + 4 * LANES64);
        count_bytes(eights, add_columns(&fours, first, second));
    }
    if (j > 0) {
        count_bytes(few, fours);
        for (size_t i = 0; i < 8; i++)
            few[i] += few[i];
        count_bytes(few, twos);
        for (size_t i = 0; i < 8; i++)
            few[i] += few[i];
        count_bytes(few, ones);
        add_counters(eights, 8, ones_of_bits);
    }
    for (; j + LANES64 <= count; j += LANES64)
        count_bytes(few, *(const any64 *)(hashes + j));
    words64 rest = {0};
    for (size_t lane = 0; j < count; j++, lane++)
        rest[lane] = hashes[j];
    count_bytes(few, rest);
    add_counters(few, 1, ones_of_bits);
}

ND_TIER static void count_bits64(const uint64_t *hashes, size_t count, int64_t *ones)
{
    const size_t most = 248 * 8;
    for (size_t start = 0; start < count; start += most)
        count_bits64_part(hashes + start, count - start < most ? count - start : most, ones);
}

/* Eight sums in registers; the weight is masked by the bits of a byte of the digest. */
ND_TIER static void add_weights(const uint8_t *digests, size_t count, size_t stride, size_t width, const int64_t *weights,
    uint64_t *sums)
{
    enum { PARTS = 8 / LANES64 };
    static const uint64_t bits_of_lanes[8] = {128, 64, 32, 16, 8, 4, 2, 1};
    words64 bits[PARTS], sum[PARTS];
    memcpy(bits, bits_of_lanes, sizeof bits);
    for (size_t i = 0; i < width; i++) {
        memcpy(sum, sums + 8 * i, sizeof sum);
        for (size_t j = 0; j < count; j++) {
            ND_UNROLL
            for (size_t n = 0; n < PARTS; n++)
                sum[n] += (words64)((bits[n] & digests[j * stride + i]) == bits[n]) & (uint64_t)weights[j];
        }
        memcpy(sums + 8 * i, sum, sizeof sum);
    }
}

/* ---- comparisons -------------------------------------------------------------------------------------------------------- */

ND_INLINE uint64_t distance_of(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t distance = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8)
        distance += ND_ONES(nd_load64(a + i) ^ nd_load64(b + i));
    for (; i < size; i++)
        distance += ND_ONES((uint64_t)(a[i] ^ b[i]));
    return distance;
}

ND_TIER static uint64_t hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    return distance_of(a, b, size);
}

ND_TIER static size_t keep_near(const uint8_t *codes, size_t count, size_t size, const uint8_t *code, uint64_t max_distance,
    uint32_t *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t distance = size == 8 ? distance_of(codes + 8 * i, code, 8) : distance_of(codes + size * i, code, size);
        out[kept] = (uint32_t)i;
        kept += distance <= max_distance;
    }
    return kept;
}

/* Counted in lanes as wide as a slot, which hold so many. */
#define EQUAL_SLOTS(bits)                                                                                                        \
    ND_TIER static size_t equal_slots##bits(const uint8_t *a, const uint8_t *b, size_t count)                                    \
    {                                                                                                                            \
        const size_t most = 32768;                                                                                               \
        size_t equal = 0;                                                                                                        \
        for (size_t start = 0; start < count; start += most) {                                                                   \
            const size_t end = count - start < most ? count : start + most;                                                      \
            uint##bits##_t counted = 0;                                                                                          \
            for (size_t i = start; i < end; i++) {                                                                               \
                uint##bits##_t left, right;                                                                                      \
                memcpy(&left, a + i * sizeof left, sizeof left);                                                                 \
                memcpy(&right, b + i * sizeof right, sizeof right);                                                              \
                counted = (uint##bits##_t)(counted + (left == right));                                                           \
            }                                                                                                                    \
            equal += counted;                                                                                                    \
        }                                                                                                                        \
        return equal;                                                                                                            \
    }
EQUAL_SLOTS(16)
EQUAL_SLOTS(32)

/* A merge without branches on the values: each step advances the smaller side, or both. A step advances neither side by more
 * than one, so that many steps as the shorter rest has values need no test of the ends; skips are looked at between them. */
ND_TIER static size_t merge_common(const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, size_t max_skips)
{
    const size_t steps_between_tests = 16;
    size_t i = 0, j = 0, common = 0;
    while (i < a_count && j < b_count) {
        size_t steps = a_count - i < b_count - j ? a_count - i : b_count - j;
        if (steps > steps_between_tests)
            steps = steps_between_tests;
        for (; steps > 0; steps--) {
            uint64_t left = nd_load64(a + 8 * i), right = nd_load64(b + 8 * j);
            common += left == right;
            i += left <= right;
            j += right <= left;
        }
        if (i + j - 2 * common > max_skips)
            return SIZE_MAX;
    }
    return common;
}

#define ND_LOOPS                                                                                                                 \
    .fold_hashes = fold_hashes, .minhash_update = minhash_update, .count_bits64 = count_bits64, .add_weights = add_weights,      \
    .hamming = hamming, .keep_near = keep_near, .equal_slots16 = equal_slots16, .equal_slots32 = equal_slots32

#endif
