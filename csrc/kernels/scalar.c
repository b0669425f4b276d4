/* scalar.c: every kernel in portable C. This file says what the kernels of the other tiers must return, to the bit. */
#include "kernels/kernels.h"

static void minhash_update(const uint32_t *a, const uint32_t *b, uint32_t offset, size_t num_perm, const uint32_t *x,
    size_t count, uint32_t *minima)
{
    for (size_t j = 0; j < count; j++) {
        uint32_t value = x[j];
        for (size_t i = 0; i < num_perm; i++) {
            uint32_t hash = a[i] * value + b[i] + offset;
            minima[i] = hash < minima[i] ? hash : minima[i];
        }
    }
}

static void count_bits(const uint8_t *digests, size_t count, size_t stride, size_t width, int64_t *ones)
{
    for (size_t j = 0; j < count; j++)
        for (size_t i = 0; i < width; i++) {
            unsigned byte = digests[j * stride + i];
            for (size_t bit = 0; bit < 8; bit++)
                ones[8 * i + bit] += byte >> (7 - bit) & 1;
        }
}

/* Bit i of every byte goes to byte counters of its own, which are full after 255 hashes. */
static void count_bits64(const uint64_t *hashes, size_t count, int64_t *ones)
{
    for (size_t start = 0; start < count; start += 255) {
        size_t end = count - start < 255 ? count : start + 255;
        uint64_t counters[8] = {0};
        for (size_t j = start; j < end; j++)
            for (size_t i = 0; i < 8; i++)
                counters[i] += hashes[j] >> i & 0x0101010101010101;
        for (size_t bit = 0; bit < 64; bit++)
            ones[63 - bit] += (int64_t)(counters[bit % 8] >> (bit - bit % 8) & 255);
    }
}

static void add_weights(const uint8_t *digests, size_t count, size_t stride, size_t width, const int64_t *weights, uint64_t *sums)
{
    for (size_t j = 0; j < count; j++)
        for (size_t i = 0; i < width; i++) {
            unsigned byte = digests[j * stride + i];
            for (size_t bit = 0; bit < 8; bit++)
                sums[8 * i + bit] += (uint64_t)weights[j] & (0 - (uint64_t)(byte >> (7 - bit) & 1));
        }
}

static uint64_t hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t distance = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8)
        distance += nd_population(nd_load64(a + i) ^ nd_load64(b + i));
    for (; i < size; i++)
        distance += nd_population((uint64_t)(a[i] ^ b[i]));
    return distance;
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

static size_t equal_slots16(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t equal = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t left, right;
        memcpy(&left, a + 2 * i, 2);
        memcpy(&right, b + 2 * i, 2);
        equal += left == right;
    }
    return equal;
}

static size_t equal_slots32(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t equal = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t left, right;
        memcpy(&left, a + 4 * i, 4);
        memcpy(&right, b + 4 * i, 4);
        equal += left == right;
    }
    return equal;
}

/* A merge without branches on the values: each step advances the smaller side, or both. A step advances neither side by more
 * than one, so that many steps as the shorter rest has values need no test of the ends; skips are looked at between them. */
static size_t count_common(const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, size_t max_skips)
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

const nd_kernels nd_kernels_scalar = {
    .name = "scalar",
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
