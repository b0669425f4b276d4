/* shingles.c: the tokens of a workspace, and the hashes of the shingles that they make. */
#include "hashes/xxh3.h"
#include "kernels/kernels.h"
#include "text/workspace.h"

size_t nd_text_token_count(const nd_text *work)
{
    return work->token_count;
}

/* Bytes of the tokens first .. last - 1 with the joiners between them. */
static inline const uint8_t *slice(const nd_text *work, size_t first, size_t last, size_t *size)
{
    *size = work->starts[last] - work->starts[first] - work->joiner_size;
    return work->bytes.at + work->starts[first];
}

void nd_text_token(const nd_text *work, size_t index, const uint8_t **bytes, size_t *size)
{
    *bytes = slice(work, index, index + 1, size);
}

/* ---- tokens to shingles to hashes ------------------------------------------------------------------------------------------- */

/* Shingles of the tokens in the workspace, however few the text has. */
static size_t shingles_held(const nd_text *work, const nd_rules *rules)
{
    const size_t k = (size_t)rules->spec.shingle;
    if (work->token_count >= k)
        return work->token_count - k + 1;
    return work->token_count > 0 && rules->spec.short_text == ND_SHORT_WHOLE;
}

size_t nd_text_shingle_count(const nd_text *work, const nd_rules *rules)
{
    const size_t tokens = work->drained + work->token_count;
    return tokens < (size_t)rules->spec.min_tokens ? 0 : shingles_held(work, rules);
}

/* Tokens in each shingle: k, or all of a short text. */
static size_t shingle_tokens(const nd_text *work, const nd_rules *rules)
{
    const size_t k = (size_t)rules->spec.shingle;
    return work->token_count < k ? work->token_count : k;
}

void nd_text_shingle(const nd_text *work, const nd_rules *rules, size_t index, const uint8_t **bytes, size_t *size)
{
    *bytes = slice(work, index, index + shingle_tokens(work, rules), size);
}

static int hash_digests(nd_text *work, const nd_rules *rules, size_t count, size_t tokens)
{
    const size_t digest_size = nd_hash_size(rules->spec.hash);
    const int wide = digest_size > sizeof work->hashes[0];
    ND_TRY(wide ? ND_ROOM(work->digests, count * digest_size) : ND_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t small[ND_DIGEST_MAX];
        uint8_t *const digest = wide ? work->digests.at + i * digest_size : small;
        size_t size;
        const uint8_t *const bytes = slice(work, i, i + tokens, &size);
        nd_hash_bytes(rules->spec.hash, rules->spec.hash_seed, bytes, size, digest);
        work->hashes[i] = nd_load_big(digest, digest_size < 8 ? digest_size : 8);
    }
    work->digest_size = wide ? digest_size : 0;
    return ND_OK;
}

int nd_text_hash(nd_text *work, const nd_rules *rules)
{
    work->digest_size = 0;
    const size_t count = shingles_held(work, rules);
    const size_t tokens = shingle_tokens(work, rules);
    ND_TRY(nd_reserve(&work->hashes, &work->hashes_capacity, count + 1, sizeof work->hashes[0]));
    if (rules->spec.hash != ND_HASH_XXH3_64)
        return hash_digests(work, rules, count, tokens);
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + ND_TEXT_PADDING));
    const nd_shingles shingles = {
        .bytes = work->bytes.at,
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
    ND_TRY(nd_text_hash(work, rules));
    ND_TRY(work->drain->take(work->drain->context, work->hashes, tokens - kept));
    const uint32_t first = work->starts[tokens - kept], shift = first - ND_TEXT_PADDING;
    memmove(work->bytes.at + ND_TEXT_PADDING, work->bytes.at + first, work->bytes.count - first);
    work->bytes.count -= shift;
    for (size_t i = 0; i <= kept; i++)
        work->starts[i] = work->starts[tokens - kept + i] - shift;
    work->token_count = kept;
    work->drained += tokens - kept;
    return ND_OK;
}

const uint64_t *nd_text_hashes(const nd_text *work)
{
    return work->hashes;
}

const uint8_t *nd_text_digests(const nd_text *work)
{
    return work->digest_size > 0 ? work->digests.at : NULL;
}
