/* text.h: what the kernels that loop over text share. */
#ifndef ND_KERNELS_TEXT_H
#define ND_KERNELS_TEXT_H

#include "kernels/kernels.h"
#include "hashes/xxh3.h"

static inline uint64_t nd_shingle_hash(const nd_shingles *shingles, size_t index)
{
    const size_t start = shingles->starts[index];
    const size_t size = shingles->starts[index + shingles->tokens] - start - shingles->joiner_size;
    return nd_xxh3_inline(shingles->bytes + start, size, shingles->seed);
}

/* One code point for `words`, and what it becomes. The length does not wait for the look-up. */
typedef struct nd_letter {
    size_t length;
    uint32_t kind, bytes;
} nd_letter;

static inline nd_letter nd_letter_at(const nd_letters *letters, const uint8_t *text, size_t size)
{
    const uint32_t first = text[0], second = size >= 2 ? text[1] : 0;
    const int follows = (second & 0xC0) == 0x80;
    if (first < 0xE0) { /* without a branch between one byte and two */
        const uint32_t two = first >> 7, low = (two ? second : first) & 0x3F;
        const nd_letter_page *const page = &letters->pages[two ? first & 0x1F : first >> 6];
        const uint32_t valid = (two ^ 1) | ((first >= 0xC2) & follows);
        return (nd_letter){1 + two, valid ? page->kind[low] : ND_LETTER_OTHER, page->lead[low] | (uint32_t)page->trail[low] << 8};
    }
    const uint32_t block = (first & 0xF) << 6 | (second & 0x3F), third = size >= 3 ? text[2] : 0;
    const nd_letter_page *const page = &letters->pages[letters->page_of[block]];
    const int valid = first < 0xF0 && block >= 0x20 && follows && (third & 0xC0) == 0x80;
    return (nd_letter){3, valid ? page->kind[third & 0x3F] : ND_LETTER_OTHER,
        first | second << 8 | (uint32_t)page->trail[third & 0x3F] << 16};
}

/* A token of three bytes, and the joiners behind the word before it and behind it. */
static inline void nd_take_alone(nd_ascii_words *words, uint32_t bytes)
{
    *words->out = words->joiner;
    words->out += words->in_word != 0;
    *words->starts = (uint32_t)(words->out - words->bytes);
    words->starts += words->in_word != 0;
    words->in_word = 0;
    bytes |= (uint32_t)words->joiner << 24;
    memcpy(words->out, &bytes, sizeof bytes);
    words->out += 4;
    *words->starts++ = (uint32_t)(words->out - words->bytes);
}

#endif
