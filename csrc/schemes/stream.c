/* stream.c: the hashes of shingles, part by part, to a stored value. A large text has its hashes go into the sketch as soon as there are
 * some, so that memory does not grow with the text and everything stays in the second-level cache. */
#include "kernels/kernels.h"
#include "schemes/schemes.h"
#include "text/workspace.h"

int nd_scheme_streams(const nd_scheme *scheme, size_t digest_size)
{
    if (scheme->kind == ND_SCHEME_SIMHASH)
        return digest_size <= 8;
    return scheme->kind == ND_SCHEME_BITSAMPLING || scheme->kind == ND_SCHEME_BOTTOMK || scheme->kind == ND_SCHEME_PASSAGES ||
           (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_NONE);
}

int nd_stream_begin(nd_stream *stream, const nd_scheme *scheme, size_t digest_size, nd_scratch *scratch)
{
    *stream = (nd_stream){.scheme = scheme, .scratch = scratch, .hash_bits = 8 * digest_size};
    if (scheme->kind == ND_SCHEME_SIMHASH && (size_t)scheme->bits > stream->hash_bits)
        return ND_ERROR_PARAMETER;
    const int sampled = scheme->kind == ND_SCHEME_MINHASH || scheme->kind == ND_SCHEME_BITSAMPLING;
    return sampled ? nd_scheme_begin_slots(scheme, scratch) : ND_OK;
}

static int add_smallest(nd_stream *to, const uint64_t *hashes, size_t count)
{
    const size_t k = (size_t)to->scheme->k;
    uint64_t *held;
    ND_TRY(nd_scratch_hashes(to->scratch, to->kept + count < k ? to->kept + count : k, &held));
    to->kept = nd_add_smallest(held, to->kept, hashes, count, k);
    return ND_OK;
}

/* The low 4 bytes of each behind the others. */
static int add_tokens(nd_stream *to, const uint64_t *hashes, size_t count)
{
    uint64_t *room;
    ND_TRY(nd_scratch_hashes(to->scratch, (to->count + 1) / 2, &room));
    uint8_t *const out = (uint8_t *)room + 4 * (to->count - count);
    for (size_t i = 0; i < count; i++)
        memcpy(out + 4 * i, &hashes[i], 4);
    return ND_OK;
}

int nd_stream_take(void *stream, const uint64_t *hashes, size_t count)
{
    nd_stream *const to = stream;
    const nd_scheme *const scheme = to->scheme;
    to->count += count;
    if (scheme->kind == ND_SCHEME_BOTTOMK)
        return add_smallest(to, hashes, count);
    if (scheme->kind == ND_SCHEME_PASSAGES)
        return add_tokens(to, hashes, count);
    if (scheme->kind != ND_SCHEME_SIMHASH)
        return nd_scheme_add_minima(scheme, to->scratch, hashes, count);
    nd_kernels_active()->count_bits64(hashes, count, to->ones);
    return ND_OK;
}

int nd_stream_finish(nd_stream *from, size_t token_count, nd_values *values)
{
    const nd_scheme *const scheme = from->scheme;
    const size_t least = scheme->kind == ND_SCHEME_PASSAGES ? (size_t)scheme->shortest : 1;
    const size_t size = from->count < least                  ? 0
                        : scheme->kind == ND_SCHEME_PASSAGES ? 4 * from->count
                        : scheme->kind == ND_SCHEME_BOTTOMK  ? 8 * from->kept
                        : scheme->kind == ND_SCHEME_MINHASH  ? nd_signature_size(scheme)
                                                             : (size_t)scheme->bits / 8;
    uint8_t *out;
    ND_TRY(nd_values_append(values, size, token_count, &out));
    if (size == 0)
        return ND_OK;
    if (scheme->kind == ND_SCHEME_SIMHASH) {
        nd_simhash_finish(from->ones + 64 - from->hash_bits, (size_t)scheme->bits, from->count, out);
        return ND_OK;
    }
    if (scheme->kind == ND_SCHEME_BOTTOMK || scheme->kind == ND_SCHEME_PASSAGES) {
        memcpy(out, from->scratch->hashes.at, size);
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
    nd_stream to;
    const nd_drain drain = {nd_stream_take, &to};
    size_t token_count = 0;
    ND_TRY(nd_stream_begin(&to, scheme, nd_hash_size(rules->spec.hash), values->scratch));
    ND_TRY(nd_text_drain(work, rules, text, size, &drain, &token_count));
    if (token_count < (size_t)rules->spec.min_tokens)
        to.count = 0;
    return nd_stream_finish(&to, token_count, values);
}
