/* passage_filter.c: which of very many texts may share a passage with one of a few.
 *
 * A passage of `shortest` tokens is `step` runs of k tokens, each one token behind the last. Of the few texts all runs are in a
 * Bloom filter. Of the others every `step`-th run is looked up, and where it is found, those around it: a passage is `step` runs
 * in a row that are all there. Runs are hashed as bytes, because few of them need a hash. */
#include <stdlib.h>

#include "hashes/xxh3.h"
#include "schemes/schemes.h"
#include "text/workspace.h"

#define AT_ONCE 32 /* look-ups, so that the memory that they read is on its way */

struct nd_run_filter {
    size_t run, step;
    ND_LIST(uint64_t) hashes; /* until nd_run_filter_fill */
    uint64_t *words;          /* a hash has up to four bits of one word */
    unsigned shift;
};

nd_run_filter *nd_run_filter_new(const nd_scheme *scheme)
{
    nd_run_filter *filter = calloc(1, sizeof *filter);
    if (filter != NULL) {
        filter->run = (size_t)scheme->k;
        filter->step = (size_t)scheme->shortest - filter->run + 1;
    }
    return filter;
}

void nd_run_filter_free(nd_run_filter *filter)
{
    if (filter == NULL)
        return;
    free(filter->hashes.at);
    free(filter->words);
    free(filter);
}

/* Runs of a text that has a passage, 0 of a shorter one. */
static size_t count_runs(const nd_run_filter *filter, const nd_text *work)
{
    const size_t runs = work->token_count + 1;
    return runs < filter->run + filter->step ? 0 : runs - filter->run;
}

static inline uint64_t hash_run(const nd_run_filter *filter, const nd_text *work, size_t at)
{
    const size_t size = work->starts[at + filter->run] - work->starts[at] - work->joiner_size;
    return nd_xxh3_64(work->bytes.at + work->starts[at], size, 0);
}

int nd_run_filter_add(nd_run_filter *filter, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ND_TRY(nd_text_tokenize(work, rules, texts[i], sizes[i]));
        const size_t runs = count_runs(filter, work);
        ND_TRY(ND_ROOM(filter->hashes, filter->hashes.count + runs));
        for (size_t at = 0; at < runs; at++)
            filter->hashes.at[filter->hashes.count++] = hash_run(filter, work, at);
    }
    return ND_OK;
}

static inline uint64_t bits_of(uint64_t hash)
{
    const uint64_t one = 1;
    return one << (hash & 63) | one << (hash >> 6 & 63) | one << (hash >> 12 & 63) | one << (hash >> 18 & 63);
}

int nd_run_filter_fill(nd_run_filter *filter)
{
    unsigned width = 10;
    while ((size_t)1 << width < filter->hashes.count / 2) /* 32 bits for each hash, or more */
        width++;
    filter->shift = 64 - width;
    filter->words = calloc((size_t)1 << width, sizeof *filter->words);
    if (filter->words == NULL)
        return ND_ERROR_MEMORY;
    for (size_t i = 0; i < filter->hashes.count; i++)
        filter->words[filter->hashes.at[i] >> filter->shift] |= bits_of(filter->hashes.at[i]);
    free(filter->hashes.at);
    memset(&filter->hashes, 0, sizeof filter->hashes);
    return ND_OK;
}

static inline int has(const nd_run_filter *filter, uint64_t hash)
{
    const uint64_t bits = bits_of(hash);
    return (filter->words[hash >> filter->shift] & bits) == bits;
}

/* Whether the run at a place, which is in the filter, is one of `step` in a row that are. */
static int is_in_passage(const nd_run_filter *filter, const nd_text *work, size_t at, size_t runs)
{
    const size_t step = filter->step;
    size_t first = at, end = at + 1;
    while (first > 0 && end - first < step && has(filter, hash_run(filter, work, first - 1)))
        first--;
    while (end < runs && end - first < step && has(filter, hash_run(filter, work, end)))
        end++;
    return end - first == step;
}

static uint8_t may_share(const nd_run_filter *filter, const nd_text *work)
{
    const size_t runs = count_runs(filter, work), step = filter->step;
    uint64_t hashes[AT_ONCE];
    size_t count;
    for (size_t start = step - 1; start < runs; start += count * step) {
        for (count = 0; count < AT_ONCE && start + count * step < runs; count++) {
            hashes[count] = hash_run(filter, work, start + count * step);
            __builtin_prefetch(&filter->words[hashes[count] >> filter->shift]);
        }
        for (size_t i = 0; i < count; i++)
            if (has(filter, hashes[i]) && is_in_passage(filter, work, start + i * step, runs))
                return 1;
    }
    return 0;
}

int nd_run_filter_meet(const nd_run_filter *filter, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, uint8_t *met)
{
    for (size_t i = 0; i < count; i++) {
        ND_TRY(nd_text_tokenize(work, rules, texts[i], sizes[i]));
        met[i] = may_share(filter, work);
    }
    return ND_OK;
}
