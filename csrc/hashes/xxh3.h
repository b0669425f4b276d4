/* xxh3.h: XXH3-64 of inputs up to 240 bytes, inline, because shingles are that short and the call would cost as much as
 * the hash. Everything follows the published specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md, "XXH3 Algorithm").
 *
 * All reads are unaligned and little-endian; nothing is read outside data[0 .. size). */
#ifndef ND_XXH3_INLINE_H
#define ND_XXH3_INLINE_H

#include "arrays/arrays.h"

#define ND_XXH3_SECRET_SIZE 192
#define ND_XXH3_SHORT_MAX 240

#define ND_PRIME32_1 0x9E3779B1U
#define ND_PRIME32_2 0x85EBCA77U
#define ND_PRIME32_3 0xC2B2AE3DU
#define ND_PRIME64_1 0x9E3779B185EBCA87U
#define ND_PRIME64_2 0xC2B2AE3D27D4EB4FU
#define ND_PRIME64_3 0x165667B19E3779F9U
#define ND_PRIME64_4 0x85EBCA77C2B2AE63U
#define ND_PRIME64_5 0x27D4EB2F165667C5U
#define ND_PRIME_MIX1 0x165667919E3779F9U
#define ND_PRIME_MIX2 0x9FB21C651E98DF25U

extern const uint8_t nd_xxh3_secret[ND_XXH3_SECRET_SIZE];

/* Any size; the one for more than ND_XXH3_SHORT_MAX bytes. */
uint64_t nd_xxh3_long(const uint8_t *data, size_t size, uint64_t seed);

static inline uint32_t nd_read32(const uint8_t *data)
{
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static inline uint64_t nd_rotate64(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

/* Low half XOR high half of the 128-bit product. */
static inline uint64_t nd_multiply_fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 uint128;
    const uint128 product = (uint128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    const uint64_t low_low = (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU);
    const uint64_t high_low = (a >> 32) * (b & 0xFFFFFFFFU);
    const uint64_t low_high = (a & 0xFFFFFFFFU) * (b >> 32);
    const uint64_t middle = (low_low >> 32) + (high_low & 0xFFFFFFFFU) + low_high;
    const uint64_t high = (a >> 32) * (b >> 32) + (high_low >> 32) + (middle >> 32);
    return ((middle << 32) | (low_low & 0xFFFFFFFFU)) ^ high;
#endif
}

static inline uint64_t nd_xxh3_avalanche(uint64_t hash)
{
    hash ^= hash >> 37;
    hash *= ND_PRIME_MIX1;
    return hash ^ (hash >> 32);
}

/* The avalanche of the older XXH64, which the shortest inputs use. */
static inline uint64_t nd_xxh64_avalanche(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= ND_PRIME64_2;
    hash ^= hash >> 29;
    hash *= ND_PRIME64_3;
    return hash ^ (hash >> 32);
}

static inline uint64_t nd_xxh3_mix16(const uint8_t *data, const uint8_t *secret, uint64_t seed)
{
    return nd_multiply_fold(nd_load64(data) ^ (nd_load64(secret) + seed), nd_load64(data + 8) ^ (nd_load64(secret + 8) - seed));
}

static inline uint64_t nd_xxh3_0_to_16(const uint8_t *data, size_t size, uint64_t seed)
{
    const uint8_t *const secret = nd_xxh3_secret;
    if (size > 8) {
        const uint64_t low = nd_load64(data) ^ ((nd_load64(secret + 24) ^ nd_load64(secret + 32)) + seed);
        const uint64_t high = nd_load64(data + size - 8) ^ ((nd_load64(secret + 40) ^ nd_load64(secret + 48)) - seed);
        return nd_xxh3_avalanche(size + __builtin_bswap64(low) + high + nd_multiply_fold(low, high));
    }
    if (size >= 4) {
        seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
        const uint64_t flip = (nd_load64(secret + 8) ^ nd_load64(secret + 16)) - seed;
        uint64_t hash = (nd_read32(data + size - 4) + ((uint64_t)nd_read32(data) << 32)) ^ flip;
        hash ^= nd_rotate64(hash, 49) ^ nd_rotate64(hash, 24);
        hash *= ND_PRIME_MIX2;
        hash ^= (hash >> 35) + size;
        hash *= ND_PRIME_MIX2;
        return hash ^ (hash >> 28);
    }
    if (size > 0) {
        const uint32_t packed = ((uint32_t)data[0] << 16) | ((uint32_t)data[size >> 1] << 24) | data[size - 1] |
                                ((uint32_t)size << 8);
        return nd_xxh64_avalanche(packed ^ ((nd_read32(secret) ^ nd_read32(secret + 4)) + seed));
    }
    return nd_xxh64_avalanche(seed ^ nd_load64(secret + 56) ^ nd_load64(secret + 64));
}

/* Pairs of 16-byte pieces from both ends towards the middle; they overlap there. */
static inline uint64_t nd_xxh3_17_to_128(const uint8_t *data, size_t size, uint64_t seed)
{
    const uint8_t *const secret = nd_xxh3_secret;
    uint64_t hash = size * ND_PRIME64_1;
    if (size > 32) {
        if (size > 64) {
            if (size > 96) {
                hash += nd_xxh3_mix16(data + 48, secret + 96, seed);
                hash += nd_xxh3_mix16(data + size - 64, secret + 112, seed);
            }
            hash += nd_xxh3_mix16(data + 32, secret + 64, seed);
            hash += nd_xxh3_mix16(data + size - 48, secret + 80, seed);
        }
        hash += nd_xxh3_mix16(data + 16, secret + 32, seed);
        hash += nd_xxh3_mix16(data + size - 32, secret + 48, seed);
    }
    hash += nd_xxh3_mix16(data, secret, seed);
    hash += nd_xxh3_mix16(data + size - 16, secret + 16, seed);
    return nd_xxh3_avalanche(hash);
}

static inline uint64_t nd_xxh3_129_to_240(const uint8_t *data, size_t size, uint64_t seed)
{
    const uint8_t *const secret = nd_xxh3_secret;
    uint64_t hash = size * ND_PRIME64_1;
    for (size_t i = 0; i < 8; i++)
        hash += nd_xxh3_mix16(data + 16 * i, secret + 16 * i, seed);
    hash = nd_xxh3_avalanche(hash);
    for (size_t i = 8; i < size / 16; i++)
        hash += nd_xxh3_mix16(data + 16 * i, secret + 16 * (i - 8) + 3, seed);
    hash += nd_xxh3_mix16(data + size - 16, secret + 136 - 17, seed);
    return nd_xxh3_avalanche(hash);
}

static inline uint64_t nd_xxh3_inline(const uint8_t *data, size_t size, uint64_t seed)
{
    if (size <= 16)
        return nd_xxh3_0_to_16(data, size, seed);
    if (size <= 128)
        return nd_xxh3_17_to_128(data, size, seed);
    return size <= ND_XXH3_SHORT_MAX ? nd_xxh3_129_to_240(data, size, seed) : nd_xxh3_long(data, size, seed);
}

#endif
