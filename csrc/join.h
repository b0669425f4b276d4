/* join.h: the list of pairs that the two all-pairs joins fill. */
#ifndef NEARDUP_JOIN_H
#define NEARDUP_JOIN_H

#include "internal.h"

/* Beyond so many pairs (16 GB of them) an answer serves nobody. */
#define ND_PAIRS_MAX ((size_t)1 << 30)

struct nd_pairs {
    size_t count;
    void *found; /* nd_record: key = i << 32 | j, item = the similarity's bits; in no order until nd_pairs_finish */
    size_t found_capacity;
    int64_t *ids;
    double *similarities;
};

void nd_pairs_reset(nd_pairs *pairs);
int nd_pairs_add(nd_pairs *pairs, uint64_t key, double similarity);
/* Sorts what was added and makes ids and similarities of it; distinct keys only. */
int nd_pairs_finish(nd_pairs *pairs);

#endif
