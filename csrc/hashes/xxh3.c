/* xxh3.c: XXH3-64, own implementation of the published specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
 * Short inputs are in xxh3.h; here are the constants, the inputs above 240 bytes and the public name. */
#include "hashes/xxh3.h"

#define STRIPE_SIZE 64                                                        /* 8 lanes of 64 bits */
#define SECRET_STEP 8                                                         /* a stripe moves on by this much of the secret */
#define STRIPES_PER_BLOCK ((ND_XXH3_SECRET_SIZE - STRIPE_SIZE) / SECRET_STEP) /* 16 */
#define BLOCK_SIZE (STRIPE_SIZE * STRIPES_PER_BLOCK)                          /* 1024 */

/* The specification's default secret: arbitrary bytes, part of the definition of the hash. */
/* clang-format off */
const uint8_t nd_xxh3_secret[ND_XXH3_SECRET_SIZE] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};
/* clang-format on */

/* One stripe: each lane adds its neighbour's word and the product of the halves of its own keyed word. */
static inline void accumulate(uint64_t lanes[8], const uint8_t *data, const uint8_t *secret)
{
    for (size_t i = 0; i < 8; i++) {
        const uint64_t value = nd_load64(data + 8 * i);
        const uint64_t keyed = value ^ nd_load64(secret + 8 * i);
        lanes[i ^ 1] += value;
        lanes[i] += (keyed & 0xFFFFFFFFU) * (keyed >> 32);
    }
}

/* After every whole block. */
static inline void scramble(uint64_t lanes[8], const uint8_t *secret)
{
    for (size_t i = 0; i < 8; i++) {
        lanes[i] ^= lanes[i] >> 47;
        lanes[i] ^= nd_load64(secret + 8 * i);
        lanes[i] *= ND_PRIME32_1;
    }
}

static void seed_secret(uint64_t seed, uint8_t secret[ND_XXH3_SECRET_SIZE])
{
    for (size_t i = 0; i < ND_XXH3_SECRET_SIZE; i += 16) {
        const uint64_t low = nd_load64(nd_xxh3_secret + i) + seed;
        const uint64_t high = nd_load64(nd_xxh3_secret + i + 8) - seed;
        memcpy(secret + i, &low, sizeof low);
        memcpy(secret + i + 8, &high, sizeof high);
    }
}

uint64_t nd_xxh3_long(const uint8_t *data, size_t size, uint64_t seed)
{
    uint64_t lanes[8] = {ND_PRIME32_3, ND_PRIME64_1, ND_PRIME64_2, ND_PRIME64_3, ND_PRIME64_4, ND_PRIME32_2, ND_PRIME64_5,
        ND_PRIME32_1};
    uint8_t seeded[ND_XXH3_SECRET_SIZE];
    const uint8_t *secret = nd_xxh3_secret;
    if (seed != 0) {
        seed_secret(seed, seeded);
        secret = seeded;
    }
    const uint8_t *const last_stripe = data + size - STRIPE_SIZE;
    const uint8_t *const block_end_secret = secret + ND_XXH3_SECRET_SIZE - STRIPE_SIZE;
    const size_t blocks = (size - 1) / BLOCK_SIZE;
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < STRIPES_PER_BLOCK; i++)
            accumulate(lanes, data + i * STRIPE_SIZE, secret + i * SECRET_STEP);
        scramble(lanes, block_end_secret);
        data += BLOCK_SIZE;
    }
    const size_t stripes = (size - 1 - blocks * BLOCK_SIZE) / STRIPE_SIZE;
    for (size_t i = 0; i < stripes; i++)
        accumulate(lanes, data + i * STRIPE_SIZE, secret + i * SECRET_STEP);
    accumulate(lanes, last_stripe, block_end_secret - 7);

    uint64_t hash = size * ND_PRIME64_1;
    for (size_t i = 0; i < 4; i++)
        hash += nd_multiply_fold(lanes[2 * i] ^ nd_load64(secret + 11 + 16 * i),
            lanes[2 * i + 1] ^ nd_load64(secret + 19 + 16 * i));
    return nd_xxh3_avalanche(hash);
}

uint64_t nd_xxh3_64(const uint8_t *data, size_t size, uint64_t seed)
{
    return nd_xxh3_inline(data, size, seed);
}
