/* utf8.h: one code point in, one code point out. */
#ifndef ND_UTF8_H
#define ND_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ND_REPLACEMENT 0xFFFDu

static inline int nd_utf8_is_continuation(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Decodes the code point at text[*at] and moves *at behind it; *at < size. Whatever is not well-formed gives U+FFFD: one for each
 * maximal subpart of a well-formed sequence (The Unicode Standard, section 3.9, as Python's "replace" has it), but a surrogate
 * encoded in three bytes is one U+FFFD as a whole. */
static inline uint32_t nd_utf8_next(const uint8_t *text, size_t size, size_t *at)
{
    const uint8_t lead = text[(*at)++];
    if (lead < 0x80)
        return lead;
    if (lead < 0xC2 || lead > 0xF4)
        return ND_REPLACEMENT;
    const size_t left = size - *at;
    const uint8_t *const rest = text + *at;
    if (lead < 0xE0) {
        if (left < 1 || !nd_utf8_is_continuation(rest[0]))
            return ND_REPLACEMENT;
        *at += 1;
        return (uint32_t)(lead & 0x1F) << 6 | (rest[0] & 0x3Fu);
    }
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF; /* surrogates, ED A0 to ED BF, are looked at below */
    if (left < 1 || rest[0] < low || rest[0] > high)
        return ND_REPLACEMENT;
    if (lead < 0xF0) {
        const int surrogate = lead == 0xED && rest[0] >= 0xA0;
        if (left < 2 || !nd_utf8_is_continuation(rest[1])) {
            *at += surrogate ? 0 : 1;
            return ND_REPLACEMENT;
        }
        *at += 2;
        return surrogate ? ND_REPLACEMENT : (uint32_t)(lead & 0x0F) << 12 | (uint32_t)(rest[0] & 0x3F) << 6 | (rest[1] & 0x3Fu);
    }
    if (left < 2 || !nd_utf8_is_continuation(rest[1])) {
        *at += 1;
        return ND_REPLACEMENT;
    }
    if (left < 3 || !nd_utf8_is_continuation(rest[2])) {
        *at += 2;
        return ND_REPLACEMENT;
    }
    *at += 3;
    return (uint32_t)(lead & 0x07) << 18 | (uint32_t)(rest[0] & 0x3F) << 12 | (uint32_t)(rest[1] & 0x3F) << 6 | (rest[2] & 0x3Fu);
}

/* Writes 1 to 4 bytes, returns their number. */
static inline size_t nd_utf8_put(uint32_t code_point, uint8_t *out)
{
    if (code_point < 0x80) {
        out[0] = (uint8_t)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (uint8_t)(0xC0 | code_point >> 6);
        out[1] = (uint8_t)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (uint8_t)(0xE0 | code_point >> 12);
        out[1] = (uint8_t)(0x80 | (code_point >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | code_point >> 18);
    out[1] = (uint8_t)(0x80 | (code_point >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (code_point >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (code_point & 0x3F));
    return 4;
}

/* Writes the three bytes of a code point from U+0800 to U+FFFF, and a fourth that is 0. */
static inline void nd_utf8_put_three(uint32_t code_point, uint8_t *out)
{
    const uint32_t bytes = 0x8080E0u | code_point >> 12 | (code_point >> 6 & 0x3F) << 8 | (code_point & 0x3F) << 16;
    memcpy(out, &bytes, sizeof bytes);
}

/* First byte at or after `at` that is not ASCII, or size. */
static inline size_t nd_ascii_end(const uint8_t *text, size_t size, size_t at)
{
    const uint64_t high = 0x8080808080808080U;
    uint64_t words[4];
    for (; size - at >= sizeof words; at += sizeof words) {
        memcpy(words, text + at, sizeof words);
        if (((words[0] | words[1]) | (words[2] | words[3])) & high)
            break;
    }
    for (; size - at >= sizeof words[0]; at += sizeof words[0]) {
        memcpy(words, text + at, sizeof words[0]);
        if (words[0] & high)
            return at + (size_t)__builtin_ctzll(words[0] & high) / 8;
    }
    while (at < size && text[at] < 0x80)
        at++;
    return at;
}

#define ND_WINDOW 32 /* bytes of text that are looked at together */

static inline int nd_window_is_ascii(const uint8_t *text)
{
    uint64_t words[ND_WINDOW / 8], high = 0;
    memcpy(words, text, sizeof words);
    for (size_t i = 0; i < ND_WINDOW / 8; i++)
        high |= words[i];
    return (high & 0x8080808080808080U) == 0;
}

#endif
