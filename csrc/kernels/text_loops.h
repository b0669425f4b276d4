/* text_loops.h: the hashes of shingles, XXH3-64, in registers of 32 or 64 bytes. A file of each includes it, after it has defined
 *     ND_TIER                     the attribute of functions for its CPUs
 *     ND_WIDTH                    bytes of a register
 *     ND_HALF_PRODUCT(a, b)       the products of the lower halves of each two numbers
 *     ND_WIDENED(numbers)         numbers of 32 bits with 64: GCC 12 halves what it converts to 64 bytes
 *     ND_SWAPPED(words, order)    the bytes of each 16 in another order
 *     ND_MASK                     a choice of lanes
 *     ND_ABOVE(words, number)     the lanes with a number, below 2^63, above this one
 *     ND_CHOOSE(mask, a, b)       those of a in these lanes, those of b in the others
 *     ND_LANES(mask)              a bit for each lane, the first in bit 0
 * and registers.h and, in a function that is always inline,
 *     load_16(...)                the 16 bytes at an address for each lane: their first halves and their second halves */
#ifndef NEARDUP_KERNELS_TEXT_LOOPS_H
#define NEARDUP_KERNELS_TEXT_LOOPS_H

#include "kernels/registers.h"
#include "kernels/text.h"

enum { LANES = ND_WIDTH / 8 };

typedef uint32_t half32 __attribute__((vector_size(ND_WIDTH / 2)));
typedef half32 any_half32 __attribute__((aligned(1), may_alias));

/* Low half XOR high half of the 128-bit products, from the four products of their 32-bit halves. */
ND_INLINE words64 multiply_fold(words64 a, words64 b)
{
    const words64 low_low = ND_HALF_PRODUCT(a, b), high_low = ND_HALF_PRODUCT(a >> 32, b);
    const words64 low_high = ND_HALF_PRODUCT(a, b >> 32), high_high = ND_HALF_PRODUCT(a >> 32, b >> 32);
    const words64 middle = (low_low >> 32) + (high_low & 0xFFFFFFFF) + low_high;
    return (low_low & 0xFFFFFFFF) ^ (middle << 32) ^ (high_high + (high_low >> 32) + (middle >> 32));
}

/* The secret's words that the lengths from 9 to 64 use, with the seed in them. */
typedef struct keys {
    words64 short_first, short_last;
    words64 mix[8]; /* secret[8 i] with the seed added or subtracted */
} keys;

ND_INLINE keys make_keys(uint64_t seed)
{
    const uint8_t *const secret = nd_xxh3_secret;
    const words64 zero = {0};
    keys made;
    made.short_first = zero + ((nd_load64(secret + 24) ^ nd_load64(secret + 32)) + seed);
    made.short_last = zero + ((nd_load64(secret + 40) ^ nd_load64(secret + 48)) - seed);
    for (size_t i = 0; i < 8; i++)
        made.mix[i] = zero + (nd_load64(secret + 8 * i) + (i % 2 == 0 ? seed : 0 - seed));
    return made;
}

ND_INLINE words64 mix(const keys *with, size_t place, words64 first, words64 second)
{
    return multiply_fold(first ^ with->mix[2 * place], second ^ with->mix[2 * place + 1]);
}

/* A hash in each lane where the shingle has 9 to 64 bytes: the class of 9 to 16 bytes is one product, that of 17 to 32 two, that of
 * 33 to 64 four, so that the first product is shared, and the others are added under a mask. behind: from an end to the last byte. */
ND_INLINE words64 hash_lanes(const keys *with, const uint8_t *bytes, const uint32_t *starts, const uint32_t *ends,
    ptrdiff_t behind, words64 sizes)
{
    const __m128i swap = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
    const ND_MASK above_16 = ND_ABOVE(sizes, 16), above_32 = ND_ABOVE(sizes, 32);
    const words64 zero = {0};
    words64 first, second, third, last;
    load_16(bytes, starts, 0, &first, &second);
    load_16(bytes, ends, behind - 16, &third, &last);
    const words64 a = first ^ ND_CHOOSE(above_16, with->mix[0], with->short_first);
    const words64 b = ND_CHOOSE(above_16, second ^ with->mix[1], last ^ with->short_last);
    words64 hash = ND_CHOOSE(above_16, sizes * ND_PRIME64_1, sizes + ND_SWAPPED(a, swap) + b) + multiply_fold(a, b);
    hash += ND_CHOOSE(above_16, mix(with, 1, third, last), zero);
    if (ND_LANES(above_32)) {
        load_16(bytes, starts, 16, &first, &second);
        load_16(bytes, ends, behind - 32, &third, &last);
        hash += ND_CHOOSE(above_32, mix(with, 2, first, second) + mix(with, 3, third, last), zero);
    }
    hash = (hash ^ hash >> 37) * ND_PRIME_MIX1;
    return hash ^ hash >> 32;
}

/* What is shorter or longer is done again one by one. */
ND_TIER static void hash_shingles(const nd_shingles *shingles, uint64_t *hashes)
{
    const keys with = make_keys(shingles->seed);
    const uint32_t joiner_size = (uint32_t)shingles->joiner_size;
    size_t i = 0;
    for (; i + LANES <= shingles->count; i += LANES) {
        const uint32_t *const starts = shingles->starts + i, *const ends = starts + shingles->tokens;
        const half32 sizes32 = *(const any_half32 *)ends - *(const any_half32 *)starts - joiner_size;
        const words64 sizes = ND_WIDENED(sizes32);
        uint32_t others = ND_LANES(ND_ABOVE(sizes, 64)) | (ND_LANES(ND_ABOVE(sizes, 8)) ^ ((1u << LANES) - 1));
        *(any64 *)(hashes + i) = hash_lanes(&with, shingles->bytes, starts, ends, -(ptrdiff_t)joiner_size, sizes);
        for (; others != 0; others &= others - 1) {
            const size_t lane = (size_t)__builtin_ctz(others);
            hashes[i + lane] = nd_shingle_hash(shingles, i + lane);
        }
    }
    for (; i < shingles->count; i++)
        hashes[i] = nd_shingle_hash(shingles, i);
}

#endif
