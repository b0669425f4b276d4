/* text_scalar.c: the loops over text for any CPU; complete, and the definition of each. */
#include "kernels/text.h"

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

/* Without branches between the classes of length it is no faster: the multiplications take the time. */
static void hash_shingles(const nd_shingles *shingles, uint64_t *hashes)
{
    for (size_t i = 0; i < shingles->count; i++)
        hashes[i] = nd_shingle_hash(shingles, i);
}

const nd_kernels nd_kernels_text_scalar = {
    .name = "scalar",
    .ascii_words = ascii_words,
    .hash_shingles = hash_shingles,
};
