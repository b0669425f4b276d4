/* verifier.c: the comparison of two values. */
#include "joins/verifier.h"

void nd_verifier_begin(nd_verifier *verifier, const nd_scheme *scheme)
{
    *verifier = (nd_verifier){.rule = *scheme, .indexed_id = -1, .last = -1};
    if (scheme->evidence == ND_EVIDENCE_PACKED)
        verifier->rule.evidence = ND_EVIDENCE_HASHES;
}

void nd_verifier_release(nd_verifier *verifier)
{
    nd_passages_free(verifier->index);
}

int nd_compares_sets(const nd_scheme *rule)
{
    return rule->kind == ND_SCHEME_MINHASH ? rule->evidence == ND_EVIDENCE_HASHES
                                           : rule->kind == ND_SCHEME_BOTTOMK && rule->measure == ND_MEASURE_FINGERPRINT;
}

int nd_unpack(const nd_scheme *scheme, nd_numbers *numbers, const uint8_t **bytes, size_t *size)
{
    if (scheme->evidence != ND_EVIDENCE_PACKED)
        return ND_OK;
    const size_t count = nd_set_count(*size);
    ND_TRY(count == 0 ? ND_ERROR_DAMAGED : ND_ROOM(*numbers, count));
    ND_TRY(nd_set_read(*bytes, *size, numbers->at));
    *bytes = (const uint8_t *)numbers->at;
    *size = count * sizeof(uint64_t);
    return ND_OK;
}

int nd_read_value(const nd_scheme *scheme, nd_numbers *numbers, const uint8_t **bytes, size_t *size)
{
    return scheme->evidence == ND_EVIDENCE_PACKED ? nd_unpack(scheme, numbers, bytes, size)
                                                  : nd_scheme_value_check(scheme, *bytes, *size);
}

/* Indexes `own` if it was compared last, too, else the other text, which the next ones may be compared with. */
static int compare_texts(nd_verifier *verifier, nd_compared own, nd_compared other, double *similarity)
{
    const int by_own = verifier->last == own.id;
    const nd_compared indexed = by_own ? own : other, asked = by_own ? other : own;
    if (verifier->index == NULL && (verifier->index = nd_passages_new()) == NULL)
        return ND_ERROR_MEMORY;
    if (verifier->indexed != indexed.bytes || verifier->indexed_id != indexed.id)
        ND_TRY(nd_passages_begin(verifier->index, indexed.bytes, indexed.size, (size_t)verifier->rule.shortest));
    verifier->indexed = indexed.bytes;
    verifier->indexed_id = indexed.id;
    verifier->last = own.id;
    return nd_passages_share(verifier->index, asked.bytes, asked.size, similarity);
}

int nd_verify(nd_verifier *verifier, nd_compared own, nd_compared other, double bound, nd_verdict *out)
{
    const nd_scheme *rule = &verifier->rule;
    *out = (nd_verdict){.distance = -1};
    if (own.size == 0 || other.size == 0)
        return ND_OK;
    if (nd_compares_sets(rule)) {
        out->similarity = nd_jaccard(own.bytes, own.size / 8, other.bytes, other.size / 8, bound);
        out->matches = out->similarity >= bound;
        return ND_OK;
    }
    if (rule->kind == ND_SCHEME_PASSAGES)
        ND_TRY(compare_texts(verifier, own, other, &out->similarity));
    else
        ND_TRY(nd_scheme_similarity(rule, own.bytes, own.size, other.bytes, other.size, &out->similarity, &out->distance));
    out->matches = out->distance >= 0 ? out->distance <= rule->max_distance : out->similarity >= nd_scheme_threshold(rule);
    return ND_OK;
}
