/* rules.c: text rules checked and made ready: what happens to each ASCII byte, and the set of stop words. */
#include <stdlib.h>

#include "text/workspace.h"

#define SHINGLE_MAX 1000
#define MIN_TOKENS_MAX 1000000

static int is_within(int32_t value, int32_t low, int32_t high)
{
    return value >= low && value <= high;
}

static int is_valid(const nd_rules_spec *spec)
{
    return is_within(spec->normalize, ND_NORMALIZE_NONE, ND_NORMALIZE_NFKC) &&
           is_within(spec->fold, ND_CASE_NONE, ND_CASE_FOLD) && is_within(spec->tokens, ND_TOKENS_WORDS, ND_TOKENS_CHARS) &&
           is_within(spec->nonword, ND_NONWORD_SPACE, ND_NONWORD_DROP) &&
           is_within(spec->short_text, ND_SHORT_WHOLE, ND_SHORT_DROP) && is_within(spec->strip_accents, 0, 1) &&
           nd_hash_size(spec->hash) > 0 && is_within(spec->shingle, 1, SHINGLE_MAX) &&
           is_within(spec->min_tokens, 0, MIN_TOKENS_MAX) && (spec->hash_seed == 0 || spec->hash == ND_HASH_XXH3_64) &&
           (spec->joiner_size == 0 || spec->joiner != NULL) &&
           (spec->stopword_count == 0 || (spec->stopwords != NULL && spec->stopword_sizes != NULL));
}

static void fill_ascii(nd_rules *rules)
{
    for (int byte = 0; byte < 128; byte++) {
        const int upper = byte >= 'A' && byte <= 'Z';
        const int word = upper || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
        rules->ascii_case[byte] = (uint8_t)(upper && rules->spec.fold != ND_CASE_NONE ? byte | 0x20 : byte);
        rules->ascii_word[byte] = word ? rules->ascii_case[byte] : 0;
    }
}

/* Stop words as the text will have them. A word of which nothing is left, or that is there already, takes no place. */
static int add_stopwords(nd_rules *rules, const nd_rules_spec *spec, nd_text *work)
{
    if (spec->stopword_count >= UINT32_MAX / 4)
        return ND_ERROR_CAPACITY;
    size_t places = 16;
    while (places / 2 < spec->stopword_count)
        places *= 2;
    rules->stopword_mask = places - 1;
    rules->stopword_table = calloc(places, sizeof rules->stopword_table[0]);
    rules->stopword_ends = calloc(spec->stopword_count, sizeof rules->stopword_ends[0]);
    if (rules->stopword_table == NULL || rules->stopword_ends == NULL)
        return ND_ERROR_MEMORY;
    ND_LIST(uint8_t) bytes = {NULL, 0, 0};
    size_t count = 0, at = 0;
    for (size_t i = 0; i < spec->stopword_count; i++) {
        const uint8_t *word;
        size_t size;
        int status = nd_text_normalize(work, rules, spec->stopwords + at, spec->stopword_sizes[i], &word, &size);
        if (status == ND_OK)
            status = ND_ROOM(bytes, bytes.count + size + 1);
        rules->stopword_bytes = bytes.at;
        if (status != ND_OK)
            return status;
        at += spec->stopword_sizes[i];
        const size_t place = nd_stopwords_place(rules, word, size);
        if (size == 0 || rules->stopword_table[place] != 0)
            continue;
        memcpy(bytes.at + bytes.count, word, size);
        bytes.count += size;
        rules->stopword_ends[count++] = bytes.count;
        rules->stopword_table[place] = (uint32_t)count;
    }
    rules->stopword_count = count;
    return ND_OK;
}

static int fill(nd_rules *rules, const nd_rules_spec *spec)
{
    rules->spec = *spec;
    rules->spec.stopwords = NULL;
    rules->spec.stopword_sizes = NULL;
    rules->spec.stopword_count = 0;
    rules->form = spec->normalize == ND_NORMALIZE_NONE && spec->strip_accents ? ND_NORMALIZE_NFC : spec->normalize;
    fill_ascii(rules);
    if (!spec->strip_accents)
        nd_rules_fill_points(rules);
    rules->joiner = malloc(spec->joiner_size + 1);
    if (rules->joiner == NULL)
        return ND_ERROR_MEMORY;
    if (spec->joiner_size > 0)
        memcpy(rules->joiner, spec->joiner, spec->joiner_size);
    rules->spec.joiner = rules->joiner;
    if (spec->stopword_count == 0)
        return ND_OK;
    nd_text *const work = nd_text_new();
    const int status = work == NULL ? ND_ERROR_MEMORY : add_stopwords(rules, spec, work);
    nd_text_free(work);
    return status;
}

int nd_rules_new(const nd_rules_spec *spec, nd_rules **out)
{
    *out = NULL;
    if (!is_valid(spec))
        return ND_ERROR_PARAMETER;
    nd_rules *const rules = calloc(1, sizeof *rules);
    if (rules == NULL)
        return ND_ERROR_MEMORY;
    const int status = fill(rules, spec);
    if (status != ND_OK) {
        nd_rules_free(rules);
        return status;
    }
    *out = rules;
    return ND_OK;
}

void nd_rules_free(nd_rules *rules)
{
    if (rules == NULL)
        return;
    free(rules->joiner);
    free(rules->stopword_bytes);
    free(rules->stopword_ends);
    free(rules->stopword_table);
    free(rules);
}
