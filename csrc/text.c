/* text.c: the workspace and the public functions: text to tokens, tokens to the hashes of their shingles. */
#include <stdlib.h>
#include <string.h>

#include "text_internal.h"
#include "unicode_internal.h"
#include "utf8.h"
#include "xxh3_inline.h"

#define KEPT_FACTOR 16 /* a larger buffer stays where it is up to this many bytes for each byte of the next text */

/* ---- memory --------------------------------------------------------------------------------------------------------- */

void *nd_grow(void *items, size_t *capacity, size_t count, size_t more, size_t element_size)
{
    if (more > SIZE_MAX / 4 / element_size || count > SIZE_MAX / 4 / element_size)
        return NULL;
    size_t wanted = count + more;
    if (wanted < *capacity + *capacity / 2)
        wanted = *capacity + *capacity / 2;
    if (wanted < 256)
        wanted = 256;
    void *const grown = realloc(items, wanted * element_size);
    if (grown != NULL)
        *capacity = wanted;
    return grown;
}

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
    free(work->bytes.items);
    free(work->starts);
    free(work->points.items);
    free(work->spare.items);
    free(work->hashes);
    free(work->digests);
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

/* Makes the workspace ready for a text of `size` bytes. */
static int begin(nd_text *work, const nd_rules *rules, size_t size)
{
    clear(work);
    work->points.count = work->spare.count = 0;
    work->joiner_size = rules->spec.joiner_size;
    memset(&work->state, 0, sizeof work->state);
    work->bytes.items = shrink(work->bytes.items, &work->bytes.capacity, 1, size);
    work->starts = shrink(work->starts, &work->starts_capacity, sizeof work->starts[0], size);
    work->points.items = shrink(work->points.items, &work->points.capacity, sizeof work->points.items[0], size);
    work->spare.items = shrink(work->spare.items, &work->spare.capacity, sizeof work->spare.items[0], size);
    work->hashes = shrink(work->hashes, &work->hashes_capacity, sizeof work->hashes[0], size);
    work->digests = shrink(work->digests, &work->digests_capacity, 1, size);
    int status = nd_tokens_reserve(work, 1);
    if (status == ND_OK)
        status = nd_bytes_reserve(&work->bytes, ND_TEXT_PADDING);
    if (status != ND_OK)
        return status;
    memset(work->bytes.items, 0, ND_TEXT_PADDING);
    work->bytes.count = work->starts[0] = ND_TEXT_PADDING;
    return ND_OK;
}

/* ---- text to processed text ------------------------------------------------------------------------------------------- */

static int bytes_ascii(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    const int status = nd_bytes_reserve(&work->bytes, size);
    if (status != ND_OK)
        return status;
    uint8_t *const out = work->bytes.items + work->bytes.count;
    for (size_t i = 0; i < size; i++)
        out[i] = rules->ascii_case[text[i]];
    work->bytes.count += size;
    return ND_OK;
}

static int bytes_code_points(nd_text *work, const nd_rules *rules, const uint32_t *points, size_t count)
{
    (void)rules;
    const int status = nd_bytes_reserve(&work->bytes, 4 * count);
    if (status != ND_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        const uint32_t code_point = points[i] & ND_POINT_VALUE;
        if (!(nd_record_flags(nd_unicode_record(code_point)) & ND_CP_IGNORABLE))
            work->bytes.count += nd_utf8_put(code_point, work->bytes.items + work->bytes.count);
    }
    return ND_OK;
}

int nd_text_normalize(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const uint8_t **out, size_t *out_size)
{
    static const nd_sink sink = {bytes_ascii, bytes_code_points, NULL};
    *out = NULL;
    *out_size = 0;
    int status = begin(work, rules, size);
    if (status == ND_OK)
        status = nd_text_each_span(work, rules, text, size, &sink);
    if (status == ND_OK) {
        *out = work->bytes.items + ND_TEXT_PADDING;
        *out_size = work->bytes.count - ND_TEXT_PADDING;
    }
    return status;
}

/* ---- text to tokens ---------------------------------------------------------------------------------------------------- */

int nd_text_tokenize(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    const nd_sink *const sink = rules->spec.tokens == ND_TOKENS_WORDS ? &nd_words_sink : &nd_chars_sink;
    int status = begin(work, rules, size);
    if (status == ND_OK)
        status = nd_text_each_span(work, rules, text, size, sink);
    if (status == ND_OK)
        status = nd_token_close(work, rules, 0);
    if (status != ND_OK)
        clear(work);
    return status;
}

int nd_text_set_tokens(nd_text *work, const nd_rules *rules, const uint8_t *bytes, const size_t *sizes, size_t count)
{
    int status = begin(work, rules, count);
    if (status == ND_OK)
        status = nd_tokens_reserve(work, count);
    const size_t joiner_size = rules->spec.joiner_size;
    for (size_t i = 0; status == ND_OK && i < count; i++) {
        if (sizes[i] > UINT32_MAX || joiner_size > UINT32_MAX) {
            status = ND_ERROR_CAPACITY;
            break;
        }
        status = nd_bytes_reserve(&work->bytes, sizes[i] + joiner_size + 1);
        if (status != ND_OK)
            break;
        uint8_t *const out = work->bytes.items + work->bytes.count;
        if (sizes[i] > 0)
            memcpy(out, bytes, sizes[i]);
        if (joiner_size > 0)
            memcpy(out + sizes[i], rules->joiner, joiner_size);
        bytes += sizes[i];
        work->bytes.count += sizes[i] + joiner_size;
        if (work->bytes.count > UINT32_MAX)
            status = ND_ERROR_CAPACITY;
        else
            work->starts[++work->token_count] = (uint32_t)work->bytes.count;
    }
    if (status != ND_OK)
        clear(work);
    return status;
}

size_t nd_text_token_count(const nd_text *work)
{
    return work->token_count;
}

/* Bytes of the tokens first .. last - 1 with the joiners between them. */
static inline const uint8_t *slice(const nd_text *work, size_t first, size_t last, size_t *size)
{
    *size = work->starts[last] - work->starts[first] - work->joiner_size;
    return work->bytes.items + work->starts[first];
}

void nd_text_token(const nd_text *work, size_t index, const uint8_t **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    if (index < work->token_count)
        *bytes = slice(work, index, index + 1, size);
}

/* ---- tokens to shingles to hashes ------------------------------------------------------------------------------------------- */

size_t nd_text_shingle_count(const nd_text *work, const nd_rules *rules)
{
    const size_t k = (size_t)rules->spec.shingle;
    if (work->token_count >= k)
        return work->token_count - k + 1;
    return work->token_count > 0 && rules->spec.short_text == ND_SHORT_WHOLE;
}

/* Tokens in each shingle: k, or all of a short text. */
static size_t shingle_tokens(const nd_text *work, const nd_rules *rules)
{
    const size_t k = (size_t)rules->spec.shingle;
    return work->token_count < k ? work->token_count : k;
}

void nd_text_shingle(const nd_text *work, const nd_rules *rules, size_t index, const uint8_t **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    if (index < nd_text_shingle_count(work, rules))
        *bytes = slice(work, index, index + shingle_tokens(work, rules), size);
}

/* The digest as a number: its first 8 bytes, or all 4, big-endian. */
static uint64_t first_bytes(const uint8_t *digest, size_t digest_size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digest_size && i < 8; i++)
        value = value << 8 | digest[i];
    return value;
}

static int hash_digests(nd_text *work, const nd_rules *rules, size_t count, size_t tokens)
{
    const size_t digest_size = nd_hash_size(rules->spec.hash);
    const int wide = digest_size > sizeof work->hashes[0];
    if (wide && count > work->digests_capacity / digest_size) {
        uint8_t *const grown = nd_grow(work->digests, &work->digests_capacity, 0, count * digest_size, 1);
        if (grown == NULL)
            return ND_ERROR_MEMORY;
        work->digests = grown;
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t small[ND_DIGEST_MAX];
        uint8_t *const digest = wide ? work->digests + i * digest_size : small;
        size_t size;
        const uint8_t *const bytes = slice(work, i, i + tokens, &size);
        nd_hash_bytes(rules->spec.hash, rules->spec.hash_seed, bytes, size, digest);
        work->hashes[i] = first_bytes(digest, digest_size);
    }
    work->digest_size = wide ? digest_size : 0;
    return ND_OK;
}

int nd_text_hash(nd_text *work, const nd_rules *rules)
{
    work->digest_size = 0;
    const size_t count = nd_text_shingle_count(work, rules);
    const size_t tokens = shingle_tokens(work, rules);
    if (count > work->hashes_capacity || work->hashes_capacity == 0) {
        uint64_t *const grown = nd_grow(work->hashes, &work->hashes_capacity, 0, count, sizeof work->hashes[0]);
        if (grown == NULL)
            return ND_ERROR_MEMORY;
        work->hashes = grown;
    }
    if (rules->spec.hash != ND_HASH_XXH3_64)
        return hash_digests(work, rules, count, tokens);
    const int status = nd_bytes_reserve(&work->bytes, ND_TEXT_PADDING);
    if (status != ND_OK)
        return status;
    const nd_shingles shingles = {
        .bytes = work->bytes.items,
        .starts = work->starts,
        .count = count,
        .tokens = tokens,
        .joiner_size = work->joiner_size,
        .seed = rules->spec.hash_seed,
    };
    nd_kernels_active()->hash_shingles(&shingles, work->hashes);
    return ND_OK;
}

int nd_text_drain_part(nd_text *work, const nd_rules *rules)
{
    const size_t tokens = work->token_count, kept = (size_t)rules->spec.shingle - 1;
    if (tokens <= kept)
        return ND_OK;
    int status = nd_text_hash(work, rules);
    if (status == ND_OK)
        status = work->drain->take(work->drain->context, work->hashes, tokens - kept);
    if (status != ND_OK)
        return status;
    const uint32_t first = work->starts[tokens - kept], shift = first - ND_TEXT_PADDING;
    memmove(work->bytes.items + ND_TEXT_PADDING, work->bytes.items + first, work->bytes.count - first);
    work->bytes.count -= shift;
    for (size_t i = 0; i <= kept; i++)
        work->starts[i] = work->starts[tokens - kept + i] - shift;
    work->token_count = kept;
    work->drained += tokens - kept;
    return ND_OK;
}

int nd_text_drain(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_drain *drain, size_t *token_count)
{
    const nd_sink *const sink = rules->spec.tokens == ND_TOKENS_WORDS ? &nd_words_sink : &nd_chars_sink;
    int status = begin(work, rules, ND_DRAIN_SIZE);
    work->drain = drain;
    if (status == ND_OK)
        status = nd_text_each_span(work, rules, text, size, sink);
    if (status == ND_OK)
        status = nd_token_close(work, rules, 0);
    *token_count = work->drained + work->token_count;
    if (status == ND_OK && (work->drained == 0 || work->token_count >= (size_t)rules->spec.shingle)) {
        status = nd_text_hash(work, rules);
        if (status == ND_OK)
            status = drain->take(drain->context, work->hashes, nd_text_shingle_count(work, rules));
    }
    clear(work);
    return status;
}

const uint64_t *nd_text_hashes(const nd_text *work)
{
    return work->hashes;
}

const uint8_t *nd_text_digests(const nd_text *work)
{
    return work->digest_size > 0 ? work->digests : NULL;
}
