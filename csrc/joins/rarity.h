/* rarity.h: the elements of a set or signature, the rarest first (rarity.c). Two that match have one of their rarest elements in
 * common: where c of n elements must be common, the n - c + 1 rarest hold one of these, by any order that is the same for all
 * (prefix filter: Chaudhuri et al. 2006, Bayardo et al. 2007). The places of the first common element bound how many can be common
 * (positional filter: Xiao et al. 2008). Elements of a signature are its slots with their numbers. */
#ifndef NEARDUP_RARITY_H
#define NEARDUP_RARITY_H

#include "schemes/schemes.h"

typedef struct nd_rarity {
    uint32_t counts[ND_RARE_COUNTERS]; /* sets that have an element, or one that is counted with it */
    ND_LIST(nd_record) elements;
    ND_LIST(nd_record) sorted; /* elements of the present set, the rarest first */
    ND_LIST(uint64_t) plain;   /* the same as they come */
    size_t size;               /* of it */
} nd_rarity;

static inline int nd_rarity_is_signature(const nd_scheme *rule)
{
    return rule->kind == ND_SCHEME_MINHASH && rule->evidence == ND_EVIDENCE_NONE;
}

static inline size_t nd_rarity_mixed(uint64_t element)
{
    return (size_t)((element ^ element >> 32) * 0x9E3779B97F4A7C15u >> 24);
}

static inline uint32_t *nd_rarity_counter(nd_rarity *rarity, uint64_t element)
{
    return &rarity->counts[nd_rarity_mixed(element) & (ND_RARE_COUNTERS - 1)];
}

/* Takes the elements of a set, not in order. */
int nd_rarity_take(nd_rarity *rarity, const nd_scheme *rule, const uint8_t *bytes, size_t size);
/* Puts the elements that were taken in order. */
void nd_rarity_sort(nd_rarity *rarity);
void nd_rarity_release(nd_rarity *rarity);

#endif
