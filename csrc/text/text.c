/* text.c: the workspace, and what runs a text through spans and tokens to hashes. */
#include <stdlib.h>

#include "kernels/kernels.h"
#include "text/workspace.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define KEPT_FACTOR 16 /* a larger buffer stays where it is up to this many bytes for each byte of the next text */

/* The items, or NULL where a huge text left a buffer behind that the next one does not need. */
static void *shrink(void *items, size_t *capacity, size_t element_size, size_t text_size)
{
    const size_t size = *capacity * element_size;
    if (size <= ND_KEPT_SIZE || size / KEPT_FACTOR <= text_size)
        return items;
    free(items);
    *capacity = 0;
    return NULL;
}

nd_text *nd_text_new(void)
{
    return calloc(1, sizeof(nd_text));
}

void nd_text_watch(nd_text *work, int (*stopped)(void *context), void *context)
{
    work->watch = (nd_watch){stopped, context};
}

void nd_text_free(nd_text *work)
{
    if (work == NULL)
        return;
    free(work->bytes.at);
    free(work->starts);
    free(work->points.at);
    free(work->spare.at);
    free(work->hashes);
    free(work->digests.at);
    free(work);
}

static void clear(nd_text *work)
{
    work->bytes.count = 0;
    work->token_count = 0;
    work->digest_size = 0;
    work->drain = NULL;
    work->drained = 0;
}

int nd_text_begin(nd_text *work, const nd_rules *rules, size_t size)
{
    clear(work);
    work->points.count = work->spare.count = 0;
    work->joiner_size = rules->spec.joiner_size;
    memset(&work->state, 0, sizeof work->state);
    work->bytes.at = shrink(work->bytes.at, &work->bytes.capacity, 1, size);
    work->starts = shrink(work->starts, &work->starts_capacity, sizeof work->starts[0], size);
    work->points.at = shrink(work->points.at, &work->points.capacity, sizeof work->points.at[0], size);
    work->spare.at = shrink(work->spare.at, &work->spare.capacity, sizeof work->spare.at[0], size);
    work->hashes = shrink(work->hashes, &work->hashes_capacity, sizeof work->hashes[0], size);
    work->digests.at = shrink(work->digests.at, &work->digests.capacity, 1, size);
    ND_TRY(nd_tokens_reserve(work, 1));
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + ND_TEXT_PADDING));
    memset(work->bytes.at, 0, ND_TEXT_PADDING);
    work->bytes.count = work->starts[0] = ND_TEXT_PADDING;
    return ND_OK;
}

static int bytes_ascii(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + size));
    uint8_t *const out = work->bytes.at + work->bytes.count;
    for (size_t i = 0; i < size; i++)
        out[i] = rules->ascii_case[text[i]];
    work->bytes.count += size;
    return ND_OK;
}

static int bytes_code_points(nd_text *work, const nd_rules *rules, const uint32_t *points, size_t count)
{
    (void)rules;
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + 4 * count));
    for (size_t i = 0; i < count; i++) {
        const uint32_t code_point = points[i] & ND_POINT_VALUE;
        if (!(nd_record_flags(nd_unicode_record(code_point)) & ND_CP_IGNORABLE))
            work->bytes.count += nd_utf8_put(code_point, work->bytes.at + work->bytes.count);
    }
    return ND_OK;
}

int nd_text_normalize(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const uint8_t **out,
    size_t *out_size)
{
    static const nd_sink sink = {bytes_ascii, bytes_code_points, NULL};
    *out = NULL;
    *out_size = 0;
    ND_TRY(nd_text_begin(work, rules, size));
    ND_TRY(nd_text_each_span(work, rules, text, size, &sink));
    *out = work->bytes.at + ND_TEXT_PADDING;
    *out_size = work->bytes.count - ND_TEXT_PADDING;
    return ND_OK;
}

static int read_tokens(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    const nd_sink *const sink = rules->spec.tokens == ND_TOKENS_WORDS ? &nd_words_sink : &nd_chars_sink;
    ND_TRY(nd_text_each_span(work, rules, text, size, sink));
    return nd_token_close(work, rules, 0);
}

int nd_text_tokenize(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    int status = nd_text_begin(work, rules, size);
    if (status == ND_OK)
        status = read_tokens(work, rules, text, size);
    if (status != ND_OK)
        clear(work);
    return status;
}

int nd_text_to_hashes(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    ND_TRY(nd_text_tokenize(work, rules, text, size));
    return nd_text_hash(work, rules);
}

static int put_tokens(nd_text *work, const nd_rules *rules, const uint8_t *bytes, const size_t *sizes, size_t count)
{
    const size_t joiner_size = rules->spec.joiner_size;
    ND_TRY(nd_text_begin(work, rules, count));
    ND_TRY(nd_tokens_reserve(work, count));
    for (size_t i = 0; i < count; bytes += sizes[i++]) {
        if (sizes[i] > UINT32_MAX || joiner_size > UINT32_MAX)
            return ND_ERROR_CAPACITY;
        ND_TRY(ND_ROOM(work->bytes, work->bytes.count + sizes[i] + joiner_size + 1));
        uint8_t *const out = work->bytes.at + work->bytes.count;
        if (sizes[i] > 0)
            memcpy(out, bytes, sizes[i]);
        if (joiner_size > 0)
            memcpy(out + sizes[i], rules->joiner, joiner_size);
        work->bytes.count += sizes[i] + joiner_size;
        if (work->bytes.count > UINT32_MAX)
            return ND_ERROR_CAPACITY;
        work->starts[++work->token_count] = (uint32_t)work->bytes.count;
    }
    return ND_OK;
}

int nd_text_set_tokens(nd_text *work, const nd_rules *rules, const uint8_t *bytes, const size_t *sizes, size_t count)
{
    const int status = put_tokens(work, rules, bytes, sizes, count);
    if (status != ND_OK)
        clear(work);
    return status;
}

int nd_text_drain(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_drain *drain,
    size_t *token_count)
{
    int status = nd_text_begin(work, rules, ND_DRAIN_SIZE);
    work->drain = drain;
    if (status == ND_OK)
        status = read_tokens(work, rules, text, size);
    *token_count = work->drained + work->token_count;
    if (status == ND_OK && (work->drained == 0 || work->token_count >= (size_t)rules->spec.shingle)) {
        status = nd_text_hash(work, rules);
        if (status == ND_OK)
            status = drain->take(drain->context, work->hashes, nd_text_shingle_count(work, rules));
    }
    clear(work);
    return status;
}
