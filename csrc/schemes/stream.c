/* stream.c: the value of a large text part by part: hashes go into the sketch as soon as there are some, so that memory does not
 * grow with the text and everything stays in the second-level cache. Same values as text_values.c. */
#include "kernels/kernels.h"
#include "schemes/schemes.h"
#include "text/workspace.h"

typedef struct stream {
    const nd_scheme *scheme;
    nd_scratch *scratch;
    size_t count;     /* hashes so far */
    int64_t ones[64]; /* SimHash */
    size_t kept;      /* bottom-k: the smallest so far, ascending, are the first of scratch->hashes */
} stream;

int nd_scheme_streams(const nd_scheme *scheme, const nd_rules *rules)
{
    if (scheme->kind == ND_SCHEME_SIMHASH)
        return nd_hash_size(rules->spec.hash) <= 8;
    return scheme->kind == ND_SCHEME_BITSAMPLING || scheme->kind == ND_SCHEME_BOTTOMK || scheme->kind == ND_SCHEME_PASSAGES ||
           (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_NONE);
}

/* Behind the kept ones what is below the largest of them, then the k smallest of all. */
static int add_smallest(stream *to, const uint64_t *hashes, size_t count)
{
    const size_t k = (size_t)to->scheme->k;
    uint64_t *held;
    ND_TRY(nd_scratch_hashes(to->scratch, to->kept + count + k, &held));
    const uint64_t limit = to->kept == k ? held[k - 1] : UINT64_MAX;
    size_t fresh = count;
    if (to->kept == k)
        fresh = nd_keep_below(hashes, count, limit, held + to->kept);
    else
        memcpy(held + to->kept, hashes, count * sizeof *held);
    if (fresh == 0)
        return ND_OK;
    const size_t all = to->kept + fresh;
    int status = nd_bottom_k(held, all, k, held + all, &to->kept);
    memmove(held, held + all, to->kept * sizeof *held);
    return status;
}

/* The low 4 bytes of each behind the others. */
static int add_tokens(stream *to, const uint64_t *hashes, size_t count)
{
    uint64_t *room;
    const int status = nd_scratch_hashes(to->scratch, (to->count + 1) / 2, &room);
    uint8_t *const out = (uint8_t *)room + 4 * (to->count - count);
    for (size_t i = 0; i < count && status == ND_OK; i++)
        memcpy(out + 4 * i, &hashes[i], 4);
    return status;
}

static int take(void *context, const uint64_t *hashes, size_t count)
{
    stream *const to = context;
    const nd_scheme *const scheme = to->scheme;
    to->count += count;
    if (scheme->kind == ND_SCHEME_SIMHASH)
        nd_kernels_active()->count_bits64(hashes, count, to->ones);
    else if (scheme->kind == ND_SCHEME_BOTTOMK)
        return add_smallest(to, hashes, count);
    else if (scheme->kind == ND_SCHEME_PASSAGES)
        return add_tokens(to, hashes, count);
    else
        return nd_scheme_add_minima(scheme, to->scratch, hashes, count);
    return ND_OK;
}

static int finish(stream *from, size_t hash_bits, size_t token_count, nd_values *values)
{
    const nd_scheme *const scheme = from->scheme;
    const size_t least = scheme->kind == ND_SCHEME_PASSAGES ? (size_t)scheme->shortest : 1;
    const size_t size = from->count < least                  ? 0
                        : scheme->kind == ND_SCHEME_PASSAGES ? 4 * from->count
                        : scheme->kind == ND_SCHEME_BOTTOMK  ? 8 * from->kept
                        : scheme->kind == ND_SCHEME_MINHASH  ? nd_signature_size(scheme)
                                                             : (size_t)scheme->bits / 8;
    uint8_t *out;
    const int status = nd_values_append(values, size, token_count, &out);
    if (status != ND_OK || size == 0)
        return status;
    if (scheme->kind == ND_SCHEME_SIMHASH) {
        nd_simhash_finish(from->ones + 64 - hash_bits, (size_t)scheme->bits, from->count, out);
        return ND_OK;
    }
    if (scheme->kind == ND_SCHEME_BOTTOMK || scheme->kind == ND_SCHEME_PASSAGES) {
        memcpy(out, from->scratch->hashes, size);
        return ND_OK;
    }
    nd_minhash_finish(scheme->family, from->scratch->num_perm, from->scratch->slots);
    if (scheme->kind == ND_SCHEME_MINHASH)
        nd_scheme_pack_slots(scheme, from->scratch->slots, out);
    else
        nd_bit_sample(from->scratch->slots, (size_t)scheme->bits, out);
    return ND_OK;
}

int nd_scheme_append_large(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *text, size_t size,
    nd_values *values)
{
    const size_t hash_bits = 8 * nd_hash_size(rules->spec.hash);
    if (scheme->kind == ND_SCHEME_SIMHASH && (size_t)scheme->bits > hash_bits)
        return ND_ERROR_PARAMETER;
    stream to = {.scheme = scheme, .scratch = &values->scratch};
    const nd_drain drain = {take, &to};
    size_t token_count = 0;
    const int sampled = scheme->kind == ND_SCHEME_MINHASH || scheme->kind == ND_SCHEME_BITSAMPLING;
    int status = sampled ? nd_scheme_begin_slots(scheme, &values->scratch) : ND_OK;
    if (status == ND_OK)
        status = nd_text_drain(work, rules, text, size, &drain, &token_count);
    if (token_count < (size_t)rules->spec.min_tokens)
        to.count = 0;
    return status == ND_OK ? finish(&to, hash_bits, token_count, values) : status;
}
