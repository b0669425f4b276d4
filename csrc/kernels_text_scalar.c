/* kernels_text_scalar.c: the loops over text for any CPU; complete, and the definition of each. */
#include "kernels_text.h"

static inline int is_word(uint8_t byte)
{
    return (uint8_t)((byte | 0x20) - 'a') < 26 || (uint8_t)(byte - '0') < 10;
}

static void ascii_words(nd_ascii_words *words, const uint8_t *text, size_t size)
{
    uint8_t *out = words->out;
    uint32_t *starts = words->starts;
    const uint8_t case_bit = words->case_bit, joiner = words->joiner;
    int in_word = words->in_word;
    for (size_t i = 0; i < size; i++) {
        const int word = is_word(text[i]);
        *out = word ? (uint8_t)(text[i] | case_bit) : joiner; /* a digit has the case bit already */
        out += word | in_word;
        *starts = (uint32_t)(out - words->bytes);
        starts += in_word & !word;
        in_word = word;
    }
    words->out = out;
    words->starts = starts;
    words->in_word = in_word;
}

/* Two classes of length are hashed without a branch between them, for a text has both by turns: 9 to 16 bytes are one product of
 * two 64-bit numbers, 17 to 32 two, the first of which is of the same shape. */
static void hash_shingles(const nd_shingles *shingles, uint64_t *hashes)
{
    const uint8_t *const secret = nd_xxh3_secret;
    const uint64_t seed = shingles->seed;
    const uint64_t first_keys[2] = {(nd_read64(secret + 24) ^ nd_read64(secret + 32)) + seed, nd_read64(secret) + seed};
    const uint64_t second_keys[2] = {(nd_read64(secret + 40) ^ nd_read64(secret + 48)) - seed, nd_read64(secret + 8) - seed};
    const uint64_t third_key = nd_read64(secret + 16) + seed, last_key = nd_read64(secret + 24) - seed;
    const uint32_t *const starts = shingles->starts;
    for (size_t i = 0; i < shingles->count; i++) {
        const uint8_t *const data = shingles->bytes + starts[i];
        const size_t size = starts[i + shingles->tokens] - starts[i] - shingles->joiner_size;
        if (size - 9 > 32 - 9) {
            hashes[i] = nd_xxh3_inline(data, size, seed);
            continue;
        }
        const int is_long = size > 16;
        const uint8_t *const last = data + size - 8;
        const uint64_t first = nd_read64(data) ^ first_keys[is_long];
        const uint64_t second = nd_read64(is_long ? data + 8 : last) ^ second_keys[is_long];
        const uint64_t short_sum = size + __builtin_bswap64(first) + second;
        uint64_t hash = is_long ? size * ND_PRIME64_1 : short_sum;
        hash += nd_multiply_fold(first, second);
        const uint64_t product = nd_multiply_fold(nd_read64(last - 8) ^ third_key, nd_read64(last) ^ last_key);
        hash += is_long ? product : 0;
        hashes[i] = nd_xxh3_avalanche(hash);
    }
}

const nd_kernels nd_kernels_text_scalar = {
    .name = "scalar",
    .ascii_words = ascii_words,
    .hash_shingles = hash_shingles,
};
