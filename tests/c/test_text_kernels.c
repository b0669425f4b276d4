/* test_text_kernels.c: the kernels over text of each tier against plain loops, at lengths around the width of the registers, at
 * every alignment, in buffers that end where the padding ends, so that a sanitizer sees any step beyond. */
#include <ctype.h>

#include "check.h"
#include "kernels/kernels.h"
#include "text/workspace.h"

static void *block(size_t size)
{
    void *const memory = malloc(size + 1);
    CHECK(memory != NULL);
    return memory;
}

/* ---- words ---------------------------------------------------------------------------------------------------------------- */

/* By the definition: a letter or digit goes out, the first byte behind a word becomes the joiner. */
static void check_words_once(const nd_kernels *kernels, const uint8_t *source, size_t size, size_t skew, int in_word, int fold)
{
    uint8_t *const text = block(size + skew), *const out = block(3 + size + ND_TEXT_PADDING), *const expected = block(size);
    uint32_t *const starts = block(4 * (size / 2 + 1 + ND_STARTS_PADDING)), *const expected_starts = block(4 * (size / 2 + 1));
    size_t written = 0, tokens = 0;
    int before = in_word;
    memcpy(text + skew, source, size);
    for (size_t i = 0; i < size; i++) {
        const int word = isalnum(source[i]) != 0;
        if (word)
            expected[written++] = (uint8_t)(fold ? tolower(source[i]) : source[i]);
        else if (before) {
            expected[written++] = '-';
            expected_starts[tokens++] = (uint32_t)(3 + written);
        }
        before = word;
    }
    nd_ascii_words words =
        {.bytes = out, .out = out + 3, .starts = starts, .in_word = in_word, .joiner = '-', .case_bit = fold ? 0x20 : 0};
    kernels->ascii_words(&words, text + skew, size);
    CHECK(words.out == out + 3 + written && words.starts == starts + tokens && (words.in_word != 0) == before);
    CHECK(memcmp(out + 3, expected, written) == 0);
    CHECK(memcmp(starts, expected_starts, 4 * tokens) == 0);
    free(text);
    free(out);
    free(expected);
    free(starts);
    free(expected_starts);
}

static void check_words(const nd_kernels *kernels)
{
    static const size_t lengths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191,
        192, 193, 500};
    uint8_t text[500];
    for (int shape = 0; shape < 6; shape++)
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
            for (size_t round = 0; round < 32; round++) {
                for (size_t i = 0; i < lengths[n]; i++) {
                    const uint64_t drawn = draw() >> 8;
                    text[i] = shape == 0   ? (uint8_t)(drawn % 128)                         /* any ASCII */
                              : shape == 1 ? (uint8_t) "etaOIN sr-HL.42"[drawn % 15]        /* like text */
                              : shape == 2 ? (uint8_t)(i % 2 == 0 ? 'a' + drawn % 26 : ' ') /* as many words as can be */
                              : shape == 3 ? 'Q'                                            /* one word */
                              : shape == 4 ? '\0'                                           /* none */
                                           : (uint8_t) "@A`aZz[{/09:"[drawn % 12];          /* the edges of the ranges */
                }
                check_words_once(kernels, text, lengths[n], round % 8, round / 8 % 2 == 1, round / 16 == 1);
            }
    for (int byte = 0; byte < 128; byte++) { /* each byte alone and in a word */
        const uint8_t around[3] = {'x', (uint8_t)byte, 'Y'};
        check_words_once(kernels, around + 1, 1, 0, 0, 1);
        check_words_once(kernels, around, 3, 0, 0, 1);
        check_words_once(kernels, around, 3, 1, 1, 0);
    }
}

/* ---- words beyond ASCII --------------------------------------------------------------------------------------------------- */

/* Letters, marks, separators and ideographs of all lengths, what no table has, and what is no UTF-8. */
static const char *const pieces[] = {"a", "Z", "7", " ", ",", "word ", "\xC3\xA9", "\xC3\x89", "\xC3\x9F", "\xC5\xBF", "\xC2\xA0",
    "\xC2\xAB", "\xCE\xA9", "\xCF\x82", "\xD0\xAF", "\xD1\x8F", "\xD0\xBC\xD0\xB8\xD1\x80 ", "\xCC\x81", "\xD7\x90", "\xD6\x91",
    "\xD9\x8B", "\xE0\xA4\x95", "\xE0\xA4\xBE", "\xE0\xA4\x82", "\xE0\xA5\x8D", "\xE0\xA4\xBC", "\xE0\xA4\xA8", "\xE0\xB8\x81",
    "\xE0\xB8\xB4", "\xE1\xBA\xA0", "\xE2\x80\x99", "\xE2\x80\xA6", "\xE2\x82\xAC", "\xE3\x80\x82", "\xE3\x81\x8B",
    "\xE3\x82\x99", "\xE3\x83\xBC", "\xE3\x90\x80", "\xE4\xB6\xBF", "\xE4\xB7\x80", "\xE4\xB8\xAD", "\xE9\xBF\xBF",
    "\xE6\x96\x87\xE5\xAD\x97\xE4\xB8\xAD", "\xEA\xB0\x80", "\xEB\xAF\xBC", "\xED\x9E\xA3", "\xEF\xBC\x8C", "\xEF\xBC\xA1",
    "\xF0\x9F\x98\x80", "\xC3", "\xE2\x80", "\x80", "\xC1\x81", "\xE0\x81\x81", "\xED\xA0\x80", "\xF8", "\xEA"};
#define PIECES (sizeof pieces / sizeof pieces[0])

typedef struct taken {
    nd_ascii_words words;
    uint8_t *out;
    uint32_t *starts;
    size_t size;
} taken;

static taken take(const nd_kernels *first, const nd_kernels *then, const nd_rules *rules, const uint8_t *text, size_t size,
    int in_word)
{
    taken made = {.out = block(1 + size + size / 2 + 1 + ND_TEXT_PADDING),
        .starts = block(4 * (size / 2 + 1 + ND_STARTS_PADDING))};
    made.words = (nd_ascii_words){.bytes = made.out,
        .out = made.out,
        .starts = made.starts,
        .in_word = in_word,
        .joiner = '-',
        .case_bit = rules->spec.fold != ND_CASE_NONE ? 0x20 : 0};
    made.size = first->words(&made.words, &rules->letters, text, size);
    CHECK(made.size <= size && (size_t)(made.words.out - made.out) <= made.size + made.size / 2 + 1);
    if (then != NULL)
        made.size += then->words(&made.words, &rules->letters, text + made.size, size - made.size);
    return made;
}

/* A tier may stop before the scalar one; what that adds makes it the same. */
static void check_letters_once(const nd_kernels *kernels, const nd_kernels *scalar, const nd_rules *rules, const uint8_t *source,
    size_t size)
{
    uint8_t *const text = malloc(size + (size == 0)); /* to the byte: nothing is read behind it */
    CHECK(text != NULL);
    memcpy(text, source, size);
    for (int in_word = 0; in_word <= 1; in_word++) {
        const taken one = take(scalar, NULL, rules, text, size, in_word),
                    other = take(kernels, scalar, rules, text, size, in_word);
        const size_t written = (size_t)(one.words.out - one.out), tokens = (size_t)(one.words.starts - one.starts);
        CHECK(one.size == other.size && !one.words.in_word == !other.words.in_word);
        CHECK(written == (size_t)(other.words.out - other.out) && tokens == (size_t)(other.words.starts - other.starts));
        CHECK(memcmp(one.out, other.out, written) == 0 && memcmp(one.starts, other.starts, 4 * tokens) == 0);
        free(one.out);
        free(one.starts);
        free(other.out);
        free(other.starts);
    }
    free(text);
}

static void check_letters(const nd_kernels *kernels, const nd_kernels *scalar, const nd_rules *rules)
{
    uint8_t text[600];
    for (size_t round = 0; round < 20000; round++) {
        size_t size = 0, most = (size_t)(draw() >> 8) % 500;
        const size_t kinds = 1 + (size_t)(draw() >> 8) % 6; /* few of them make long runs */
        size_t chosen[6];
        for (size_t i = 0; i < kinds; i++)
            chosen[i] = (size_t)(draw() >> 8) % PIECES;
        while (size < most) {
            const size_t any = (draw() >> 8) % 40 == 0 ? (size_t)(draw() >> 8) % PIECES : chosen[(size_t)(draw() >> 8) % kinds];
            memcpy(text + size, pieces[any], strlen(pieces[any]));
            size += strlen(pieces[any]);
        }
        check_letters_once(kernels, scalar, rules, text, size);
    }
}

/* ---- hashes --------------------------------------------------------------------------------------------------------------- */

static void check_hashes_once(const nd_kernels *kernels, size_t tokens_in_all, size_t longest, size_t tokens, size_t joiner_size,
    uint64_t seed)
{
    uint32_t *const starts = block(4 * (tokens_in_all + 1));
    starts[0] = ND_TEXT_PADDING;
    for (size_t i = 0; i < tokens_in_all; i++)
        starts[i + 1] = starts[i] + (uint32_t)(draw() >> 9) % (uint32_t)(longest + 1) + (uint32_t)joiner_size;
    const size_t size = starts[tokens_in_all] + ND_TEXT_PADDING;
    uint8_t *const bytes = malloc(size);
    CHECK(bytes != NULL);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(draw() >> 13);
    const size_t count = tokens_in_all < tokens ? 0 : tokens_in_all - tokens + 1;
    uint64_t *const hashes = block(8 * count);
    const nd_shingles shingles = {bytes, starts, count, tokens, joiner_size, seed};
    kernels->hash_shingles(&shingles, hashes);
    for (size_t i = 0; i < count; i++)
        CHECK(hashes[i] == nd_xxh3_64(bytes + starts[i], starts[i + tokens] - starts[i] - joiner_size, seed));
    free(starts);
    free(bytes);
    free(hashes);
}

static void check_hashes(const nd_kernels *kernels)
{
    static const size_t longest[] = {0, 1, 2, 5, 10, 20, 30, 80, 300};
    static const uint64_t seeds[] = {0, 1, 0xFEDCBA9876543210u};
    for (size_t n = 0; n < sizeof longest / sizeof longest[0]; n++)
        for (size_t tokens = 1; tokens <= 5; tokens++)
            for (size_t count = 0; count <= 70; count += 1 + count / 9)
                for (size_t s = 0; s < 3; s++) {
                    check_hashes_once(kernels, count, longest[n], tokens, 1, seeds[s]);
                    check_hashes_once(kernels, count, longest[n], tokens, 0, seeds[s]);
                }
}

/* The tables of some rules. */
static nd_rules *rules_of(int32_t normalize, int32_t fold)
{
    nd_rules *rules;
    const nd_rules_spec spec = {.normalize = normalize,
        .fold = fold,
        .tokens = ND_TOKENS_WORDS,
        .shingle = 3,
        .hash = ND_HASH_XXH3_64};
    CHECK(nd_rules_new(&spec, &rules) == ND_OK);
    return rules;
}

int main(void)
{
    nd_rules *const rules[] = {rules_of(ND_NORMALIZE_NFKC, ND_CASE_FOLD), rules_of(ND_NORMALIZE_NFC, ND_CASE_LOWER),
        rules_of(ND_NORMALIZE_NONE, ND_CASE_NONE)};
    CHECK(nd_isa_force(nd_isa_at(0)) == ND_OK);
    const nd_kernels *const scalar = nd_kernels_active();
    for (int i = 0; i < nd_isa_count(); i++) {
        const char *const tier = nd_isa_at(i);
        CHECK(nd_isa_force(tier) == ND_OK);
        check_words(nd_kernels_active());
        check_hashes(nd_kernels_active());
        for (size_t r = 0; r < 3; r++)
            check_letters(nd_kernels_active(), scalar, rules[r]);
        printf("%s: ok\n", tier);
    }
    for (size_t r = 0; r < 3; r++)
        nd_rules_free(rules[r]);
    return 0;
}
