/* fuzz_text.c: any bytes under any text rules: tokens, shingles, hashes; the same by every tier, in parts, and from tokens of the
 * caller's own. */
#include "fuzz.h"
#include "schemes/schemes.h"
#include "text/workspace.h"

#define JOINER_MAX 40
#define STOPWORDS_MAX 4
#define LARGE_SIZE 200000 /* more than one part of a text that is taken part by part */

typedef struct setting {
    nd_rules_spec spec;
    uint8_t joiner[JOINER_MAX];
    uint8_t stopwords[STOPWORDS_MAX * 16];
    size_t sizes[STOPWORDS_MAX];
    nd_scheme scheme;
    unsigned fail_after;
    int large;
} setting;

static void take_rules(input *from, setting *to)
{
    static const int32_t shingles[] = {3, 1, 2, 4, 5, 8, 31, 1000};
    nd_rules_spec *spec = &to->spec;
    spec->tokens = (int32_t)take_choice(from, 2);
    spec->normalize = 2 - (int32_t)take_choice(from, 3);
    spec->fold = 2 - (int32_t)take_choice(from, 3);
    spec->nonword = (int32_t)take_choice(from, 3);
    spec->shingle = shingles[take_choice(from, 8)];
    spec->short_text = (int32_t)take_choice(from, 2);
    spec->strip_accents = (int32_t)take_choice(from, 2);
    spec->min_tokens = (int32_t)take_choice(from, 4);
    spec->hash = (int32_t)take_choice(from, 7);
    if (spec->hash == ND_HASH_XXH3_64 && take_choice(from, 2) == 1)
        spec->hash_seed = take_number(from, 8);
    to->large = take_byte(from) == 99 && spec->shingle < 1000; /* those hash a large text a thousand times over */
    to->fail_after = take_choice(from, 8) == 1 ? 1 + take_byte(from) : 0;
    const size_t joiner = take_byte(from);
    spec->joiner_size = joiner < 128 ? spec->tokens == ND_TOKENS_WORDS : joiner % (JOINER_MAX + 1);
    for (size_t i = 0; i < spec->joiner_size; i++)
        to->joiner[i] = joiner < 128 ? ' ' : take_byte(from);
    spec->joiner = to->joiner;
}

static void take_stopwords(input *from, setting *to)
{
    nd_rules_spec *spec = &to->spec;
    size_t used = 0;
    spec->stopword_count = take_choice(from, STOPWORDS_MAX + 1);
    for (size_t i = 0; i < spec->stopword_count; i++) {
        to->sizes[i] = take_choice(from, 17);
        for (size_t j = 0; j < to->sizes[i]; j++)
            to->stopwords[used++] = take_byte(from);
    }
    spec->stopwords = to->stopwords;
    spec->stopword_sizes = to->sizes;
}

static void take_scheme(input *from, nd_scheme *to)
{
    to->threshold = 0.5;
    to->seed = 1;
    to->slot_bits = 16;
    to->rows = to->bands = 1;
    to->kind = (int32_t)take_choice(from, 4);
    to->bits = 8 * (1 + (int32_t)take_choice(from, to->kind == ND_SCHEME_SIMHASH ? 4 : 16));
    to->num_perm = 1 + (int32_t)take_choice(from, 40);
    to->k = 1 + (int32_t)take_choice(from, 200);
    to->plan = to->kind == ND_SCHEME_MINHASH ? ND_PLAN_BANDS : to->kind == ND_SCHEME_BOTTOMK ? ND_PLAN_PREFIX : ND_PLAN_SCAN;
}

/* ---- promises -------------------------------------------------------------------------------------------------------------- */

/* Well-formed UTF-8 by Table 3-7 of the Unicode Standard. */
static int is_utf8(const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        const uint8_t lead = text[i++];
        const size_t more = lead < 0x80                   ? 0
                            : lead >= 0xC2 && lead < 0xE0 ? 1
                            : (lead & 0xF0) == 0xE0       ? 2
                            : lead >= 0xF0 && lead < 0xF5 ? 3
                                                          : 4;
        if (more == 4 || size - i < more)
            return 0;
        for (size_t j = 0; j < more; j++)
            if ((text[i + j] & 0xC0) != 0x80)
                return 0;
        if ((lead == 0xE0 && text[i] < 0xA0) || (lead == 0xED && text[i] > 0x9F) || (lead == 0xF0 && text[i] < 0x90) ||
            (lead == 0xF4 && text[i] > 0x8F))
            return 0;
        i += more;
    }
    return 1;
}

/* Shingle i is its tokens with the joiner between them, and its hash that of these bytes. */
static void check_shingles(const nd_text *work, const nd_rules *rules)
{
    const nd_rules_spec *spec = &rules->spec;
    const size_t tokens = nd_text_token_count(work), k = (size_t)spec->shingle, digest_size = nd_hash_size(spec->hash);
    const size_t expected = tokens < (size_t)spec->min_tokens ? 0
                            : tokens >= k                     ? tokens - k + 1
                                                              : tokens > 0 && spec->short_text == ND_SHORT_WHOLE;
    const size_t width = tokens < k ? tokens : k;
    PROMISE(nd_text_shingle_count(work, rules) == expected);
    for (size_t i = 0; i < expected; i++) {
        const uint8_t *shingle, *token;
        uint8_t digest[ND_DIGEST_MAX];
        size_t size, token_size, at = 0;
        nd_text_shingle(work, rules, i, &shingle, &size);
        for (size_t j = i; j < i + width && (i < 50 || i + 50 > expected); j++) {
            nd_text_token(work, j, &token, &token_size);
            PROMISE(at + token_size <= size && memcmp(shingle + at, token, token_size) == 0);
            at += token_size;
            if (j + 1 < i + width) {
                PROMISE(at + spec->joiner_size <= size && memcmp(shingle + at, spec->joiner, spec->joiner_size) == 0);
                at += spec->joiner_size;
            } else {
                PROMISE(at == size);
            }
        }
        PROMISE(nd_hash_bytes(spec->hash, spec->hash_seed, shingle, size, digest) == ND_OK);
        PROMISE(nd_text_hashes(work)[i] == nd_load_big(digest, digest_size < 8 ? digest_size : 8));
        if (digest_size > 8)
            PROMISE(memcmp(nd_text_digests(work) + i * digest_size, digest, digest_size) == 0);
    }
}

/* ASCII words by a loop over single bytes, where the text is such and there are no stop words. */
static void check_ascii_words(const nd_text *work, const setting *with, const uint8_t *text, size_t size)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < size; i++)
        if (text[i] >= 128)
            return;
    if (with->spec.tokens != ND_TOKENS_WORDS || with->spec.stopword_count > 0)
        return;
    while (at < size) {
        const uint8_t *token;
        size_t length = 0, token_size;
        while (at + length < size && ((text[at + length] >= '0' && text[at + length] <= '9') ||
                                         ((text[at + length] | 0x20) >= 'a' && (text[at + length] | 0x20) <= 'z')))
            length++;
        if (length == 0) {
            at++;
            continue;
        }
        nd_text_token(work, count++, &token, &token_size);
        PROMISE(token_size == length);
        for (size_t i = 0; i < length; i++) {
            const uint8_t c = text[at + i];
            PROMISE(token[i] == (with->spec.fold != ND_CASE_NONE && c >= 'A' && c <= 'Z' ? c + 32 : c));
        }
        at += length;
    }
    PROMISE(count == nd_text_token_count(work));
}

/* Tokens are UTF-8, none is empty, none a stop word. */
static void check_tokens(const nd_text *work, nd_text *other, const nd_rules *rules, const setting *with)
{
    const uint8_t *stopword = with->stopwords;
    for (size_t i = 0; i < nd_text_token_count(work); i++) {
        const uint8_t *token;
        size_t size;
        nd_text_token(work, i, &token, &size);
        PROMISE(size > 0 && is_utf8(token, size));
    }
    for (size_t s = 0; s < with->spec.stopword_count; stopword += with->sizes[s++]) {
        const uint8_t *normal, *token;
        size_t normal_size, size;
        PROMISE(nd_text_normalize(other, rules, stopword, with->sizes[s], &normal, &normal_size) == ND_OK);
        for (size_t i = 0; i < nd_text_token_count(work); i++) {
            nd_text_token(work, i, &token, &size);
            PROMISE(size != normal_size || memcmp(token, normal, size) != 0);
        }
    }
}

static void check_equal(const nd_text *a, const nd_text *b, const nd_rules *rules)
{
    const size_t count = nd_text_token_count(a), shingles = nd_text_shingle_count(a, rules);
    PROMISE(count == nd_text_token_count(b) && shingles == nd_text_shingle_count(b, rules));
    for (size_t i = 0; i < count; i++) {
        const uint8_t *left, *right;
        size_t left_size, right_size;
        nd_text_token(a, i, &left, &left_size);
        nd_text_token(b, i, &right, &right_size);
        PROMISE(left_size == right_size && memcmp(left, right, left_size) == 0);
    }
    for (size_t i = 0; i < shingles; i++)
        PROMISE(nd_text_hashes(a)[i] == nd_text_hashes(b)[i]);
}

/* The tokens that a text gave, brought by the caller. */
static void check_set_tokens(const nd_text *work, nd_text *other, const nd_rules *rules)
{
    const size_t count = nd_text_token_count(work);
    size_t *sizes = malloc((count + 1) * sizeof *sizes), total = 0;
    const uint8_t *token;
    PROMISE(sizes != NULL);
    for (size_t i = 0; i < count; i++) {
        nd_text_token(work, i, &token, &sizes[i]);
        total += sizes[i];
    }
    uint8_t *bytes = guarded(total, 0), *at = bytes;
    for (size_t i = 0; i < count; at += sizes[i++]) {
        nd_text_token(work, i, &token, &sizes[i]);
        memcpy(at, token, sizes[i]);
    }
    PROMISE(nd_text_set_tokens(other, rules, bytes, sizes, count) == ND_OK);
    PROMISE(nd_text_hash(other, rules) == ND_OK);
    check_equal(work, other, rules);
    free_guarded(bytes, 0);
    free(sizes);
}

/* The stored value of a text taken part by part, whole, and as its hashes say. */
static void check_values(nd_text *work, const nd_rules *rules, const nd_scheme *scheme, const uint8_t *text, size_t size)
{
    nd_values *values = nd_values_new();
    PROMISE(values != NULL);
    int status = nd_scheme_append_texts(scheme, rules, work, &text, &size, 1, values);
    if (scheme->kind == ND_SCHEME_SIMHASH && (size_t)scheme->bits > 8 * nd_hash_size(rules->spec.hash)) {
        PROMISE(status == ND_ERROR_PARAMETER || (status == ND_OK && nd_text_shingle_count(work, rules) == 0));
    } else {
        PROMISE(status == ND_OK && nd_scheme_append_work(scheme, rules, work, values) == ND_OK);
        const size_t large = nd_scheme_streams(scheme, nd_hash_size(rules->spec.hash)) != 0;
        if (large)
            PROMISE(nd_scheme_append_large(scheme, rules, work, text, size, values) == ND_OK);
        const uint64_t *ends = values->ends;
        const size_t value_size = (size_t)ends[0];
        PROMISE(value_size == 0 || nd_scheme_value_check(scheme, values->bytes, value_size) == ND_OK);
        for (size_t i = 1; i < 2 + large; i++) {
            PROMISE(ends[i] - ends[i - 1] == value_size && values->tokens[i] == values->tokens[0]);
            PROMISE(value_size == 0 || memcmp(values->bytes, values->bytes + ends[i - 1], value_size) == 0);
        }
    }
    nd_values_free(values);
}

/* ---- runs -------------------------------------------------------------------------------------------------------------------- */

static void run(const setting *with, const uint8_t *text, size_t size)
{
    nd_rules *rules;
    nd_text *work = nd_text_new(), *other = nd_text_new();
    PROMISE(work != NULL && other != NULL && nd_rules_new(&with->spec, &rules) == ND_OK);
    const uint8_t *normal;
    size_t normal_size;
    PROMISE(nd_text_normalize(work, rules, text, size, &normal, &normal_size) == ND_OK && is_utf8(normal, normal_size));
    EACH_TIER(tier)
    {
        nd_text *into = tier == 0 ? work : other;
        PROMISE(nd_text_tokenize(into, rules, text, size) == ND_OK);
        PROMISE(nd_text_hash(into, rules) == ND_OK);
        if (tier > 0)
            check_equal(work, other, rules);
    }
    if (!with->large) {
        check_shingles(work, rules);
        check_ascii_words(work, with, text, size);
        check_tokens(work, other, rules, with);
        check_set_tokens(work, other, rules);
    }
    check_values(other, rules, &with->scheme, text, size);
    nd_text_free(work);
    nd_text_free(other);
    nd_rules_free(rules);
}

/* The same with memory that runs out on the way: an error, no more. */
static void run_short_of_memory(const setting *with, const uint8_t *text, size_t size)
{
    nd_rules *rules = NULL;
    fuzz_fail_allocations(with->fail_after - 1, with->fail_after % 2);
    nd_text *work = nd_text_new();
    nd_values *values = nd_values_new();
    if (work != NULL && values != NULL && nd_rules_new(&with->spec, &rules) == ND_OK) {
        (void)nd_scheme_append_texts(&with->scheme, rules, work, &text, &size, 1, values);
        if (nd_text_tokenize(work, rules, text, size) == ND_OK && nd_text_hash(work, rules) == ND_OK)
            (void)nd_scheme_append_work(&with->scheme, rules, work, values);
        if (nd_scheme_streams(&with->scheme, nd_hash_size(rules->spec.hash)))
            (void)nd_scheme_append_large(&with->scheme, rules, work, text, size, values);
        (void)nd_text_set_tokens(work, rules, text, &size, 1);
    }
    fuzz_allow_allocations();
    nd_rules_free(rules);
    nd_text_free(work);
    nd_values_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {data, size};
    setting with;
    memset(&with, 0, sizeof with);
    take_rules(&from, &with);
    take_stopwords(&from, &with);
    take_scheme(&from, &with.scheme);
    const size_t part = from.size, repeats = with.large && part > 0 ? LARGE_SIZE / part : 1, skew = part % 8;
    uint8_t *text = guarded(repeats * part, skew);
    for (size_t i = 0; i < repeats && part > 0; i++)
        memcpy(text + i * part, from.data, part);
    if (with.fail_after > 0)
        run_short_of_memory(&with, text, repeats * part);
    else
        run(&with, text, repeats * part);
    free_guarded(text, skew);
    return 0;
}
