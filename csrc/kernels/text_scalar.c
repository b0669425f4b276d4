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

/* Letters of one and two bytes and what separates them, without a branch on what they are: each round writes a letter or the joiner,
 * and the places of the next byte and of the next start move or stay. Leaves the last one seen, and a byte behind it. */
static size_t short_words_of(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size)
{
    const uint32_t *const table = letters->short_ones;
    const uint32_t joiner = words->joiner;
    const uint8_t *const bytes = words->bytes;
    struct place {
        size_t at;
        uint8_t *out;
        uint32_t *start;
        uint32_t in_word;
    } now = {0, words->out, words->starts, words->in_word != 0}, before = now;
    while (size - now.at > 2) {
        const uint32_t lead = text[now.at], next = text[now.at + 1], two = lead >> 7;
        const uint32_t value = table[two ? (lead & 0x1F) << 6 | (next & 0x3F) : lead];
        if (value == ND_LETTER_NOT_SHORT || (two & ((lead < 0xC2) | (lead > 0xDF) | ((next & 0xC0) != 0x80))))
            break;
        before = now;
        const uint32_t letter = value != 0;
        const uint16_t pair = (uint16_t)(letter ? value : joiner);
        memcpy(now.out, &pair, sizeof pair);
        now.out += letter ? 1 + two : now.in_word;
        *now.start = (uint32_t)(now.out - bytes);
        now.start += now.in_word & ~letter;
        now.in_word = letter;
        now.at += 1 + two;
    }
    words->out = before.out;
    words->starts = before.start;
    words->in_word = (int)before.in_word;
    return before.at;
}

#define ALL_WORDS 64 /* bytes in which there is more than letters of two bytes, until that is tried again */

/* Any that the tables have. */
static size_t all_words_of(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size)
{
    nd_ascii_words now = *words, cut = now;
    uint32_t before = ND_LETTER_BOUND;
    size_t at = 0, taken = 0;
    while (at < size) {
        const nd_letter next = nd_letter_at(letters, text + at, size - at);
        const uint32_t in_word = (uint32_t)now.in_word;
        if (next.kind == ND_LETTER_OTHER || (next.kind & before & ND_LETTER_BOUND) ||
            ((next.kind & ND_LETTER_CONTINUES) && !in_word))
            break;
        if (!(next.kind & ND_LETTER_BOUND)) {
            cut.out = now.out, cut.starts = now.starts, cut.in_word = now.in_word;
            taken = at;
        }
        before = next.kind;
        at += next.length;
        if (next.kind == ND_LETTER_ALONE) {
            nd_take_alone(&now, next.bytes);
            continue;
        }
        const uint32_t word = (next.kind >> 1 & 1) | (next.kind >> 2 & 1), chosen = 0 - word; /* no branch depends on it */
        const uint32_t bytes = (next.bytes & chosen) | (now.joiner & ~chosen);
        memcpy(now.out, &bytes, sizeof bytes);
        now.out += ((uint32_t)next.length & chosen) | (in_word & ~chosen);
        *now.starts = (uint32_t)(now.out - now.bytes);
        now.starts += in_word & ~word;
        now.in_word = (int)word;
    }
    *words = cut;
    return taken;
}

static size_t words_of(nd_ascii_words *words, const nd_letters *letters, const uint8_t *text, size_t size)
{
    size_t at = 0;
    for (size_t before = SIZE_MAX; before != at;) {
        before = at;
        at += short_words_of(words, letters, text + at, size - at);
        at += all_words_of(words, letters, text + at, size - at < ALL_WORDS ? size - at : ALL_WORDS);
    }
    return at;
}

/* Without branches between the classes of length it is no faster: the multiplications take the time. */
static void hash_shingles(const nd_shingles *shingles, uint64_t *hashes)
{
    for (size_t i = 0; i < shingles->count; i++)
        hashes[i] = nd_shingle_hash(shingles, i);
}

const nd_kernels nd_kernels_text_scalar = {
    .name = ND_BASE_TIER,
    .ascii_words = ascii_words,
    .words = words_of,
    .hash_shingles = hash_shingles,
};
