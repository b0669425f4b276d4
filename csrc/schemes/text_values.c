/* text_values.c: texts, or shingles hashed by the caller, to stored values. */
#include "schemes/schemes.h"
#include "text/workspace.h"

/* Shingles as their hashes, and as whole digests too where those are wider than 8 bytes. */
typedef struct shingles {
    const uint64_t *hashes;
    const uint8_t *digests; /* NULL where the hash says it all */
    size_t digest_size;     /* 4 or 8 where digests is NULL */
    size_t count;
} shingles;

static int append_wide_simhash(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    const size_t bits = (size_t)scheme->bits;
    uint8_t *out;
    if (bits > 8 * from->digest_size)
        return ND_ERROR_PARAMETER;
    ND_TRY(ND_ROOM(values->scratch->counters, bits));
    ND_TRY(nd_values_append(values, bits / 8, token_count, &out));
    return nd_simhash(from->digests, from->count, from->digest_size, bits, NULL, values->scratch->counters.at, out);
}

static int append_packed(const shingles *from, size_t token_count, nd_values *values)
{
    const size_t count = from->count;
    uint64_t *numbers; /* behind them the same in their order */
    uint8_t *out;
    ND_TRY(nd_scratch_hashes(values->scratch, 2 * count, &numbers));
    nd_set_numbers(from->hashes, count, numbers);
    const size_t distinct_count = nd_sorted_distinct(numbers, count, numbers + count);
    ND_TRY(nd_values_append(values, nd_set_size(distinct_count), token_count, &out));
    nd_set_write(numbers + count, distinct_count, out);
    return ND_OK;
}

static int append_shingles(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    nd_stream to;
    uint8_t *nothing;
    if (scheme->kind == ND_SCHEME_BINARYCODE) /* codes are brought, not made from text */
        return ND_ERROR_PARAMETER;
    if (from->count == 0)
        return nd_values_append(values, 0, token_count, &nothing);
    if (scheme->kind == ND_SCHEME_SIMHASH && from->digests != NULL)
        return append_wide_simhash(scheme, from, token_count, values);
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_PACKED)
        return append_packed(from, token_count, values);
    ND_TRY(nd_stream_begin(&to, scheme, from->digest_size, values->scratch));
    ND_TRY(nd_stream_take(&to, from->hashes, from->count));
    return nd_stream_finish(&to, token_count, values);
}

int nd_scheme_append_work(const nd_scheme *scheme, const nd_rules *rules, const nd_text *work, nd_values *values)
{
    shingles from = {
        .hashes = nd_text_hashes(work),
        .digests = nd_text_digests(work),
        .digest_size = nd_hash_size(rules->spec.hash),
        .count = nd_text_shingle_count(work, rules),
    };
    return append_shingles(scheme, &from, nd_text_token_count(work), values);
}

int nd_scheme_append_texts(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, nd_values *values)
{
    size_t before = values->count;
    int status = ND_OK;
    for (size_t i = 0; i < count && status == ND_OK; i++) {
        if (sizes[i] >= ND_LARGE_TEXT && nd_scheme_streams(scheme, nd_hash_size(rules->spec.hash))) {
            status = nd_scheme_append_large(scheme, rules, work, texts[i], sizes[i], values);
            continue;
        }
        status = nd_text_to_hashes(work, rules, texts[i], sizes[i]);
        if (status == ND_OK)
            status = nd_scheme_append_work(scheme, rules, work, values);
    }
    if (status != ND_OK)
        nd_values_truncate(values, before);
    return status;
}

/* The values as rows. 0 where one of them has another size. */
static int spread(const nd_values *values, size_t width, uint8_t *rows, uint8_t *empty)
{
    size_t i = 0;
    while (i < values->count && values->ends[i] == (i + 1) * width)
        i++;
    if (i > 0)
        memcpy(rows, values->bytes, i * width);
    memset(empty, 0, i);
    for (size_t start = i * width; i < values->count; start = (size_t)values->ends[i++]) {
        const size_t size = (size_t)values->ends[i] - start;
        empty[i] = size == 0;
        if (size == 0)
            memset(rows + i * width, 0, width);
        else if (size == width)
            memcpy(rows + i * width, values->bytes + start, width);
        else
            return 0;
    }
    return 1;
}

int nd_scheme_text_rows(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, nd_values *values, size_t width, uint8_t *rows, uint8_t *empty)
{
    for (size_t i = 0, some; i < count; i += some) {
        some = count - i < ND_ROWS_AT_ONCE ? count - i : ND_ROWS_AT_ONCE;
        nd_values_clear(values);
        ND_TRY(nd_scheme_append_texts(scheme, rules, work, texts + i, sizes + i, some, values));
        if (!spread(values, width, rows + i * width, empty + i))
            return ND_ERROR_PARAMETER;
    }
    return ND_OK;
}

int nd_scheme_append_digests(const nd_scheme *scheme, const uint8_t *digests, size_t digest_size, size_t count,
    size_t token_count, nd_values *values)
{
    if (digest_size == 0)
        return ND_ERROR_PARAMETER;
    /* In the counters: the scratch for hashes is the sketch's. */
    ND_TRY(ND_ROOM(values->scratch->counters, count));
    uint64_t *const hashes = (uint64_t *)values->scratch->counters.at;
    for (size_t i = 0; i < count; i++)
        hashes[i] = nd_load_big(digests + i * digest_size, digest_size < 8 ? digest_size : 8);
    shingles from = {.hashes = hashes, .digests = digests, .digest_size = digest_size, .count = count};
    return append_shingles(scheme, &from, token_count, values);
}
