/* joins.h: the list of pairs that the two all-pairs joins fill, and how the join of codes goes about it. */
#ifndef NEARDUP_JOIN_H
#define NEARDUP_JOIN_H

#include "schemes/schemes.h"

/* The split where there are not two collections. */
#define ND_NO_SPLIT SIZE_MAX

/* More pairs than this (16 GB of them) are of no use as an answer. */
#define ND_PAIRS_MAX ((size_t)1 << 30)

/* A join adds either keys or records, in any order and each pair once. */
void nd_pairs_reset(nd_pairs *pairs);
int nd_pairs_add_keys(nd_pairs *pairs, const uint64_t *keys, size_t count);
int nd_pairs_add(nd_pairs *pairs, uint64_t key, double similarity);
/* Sorts what was added and makes ids (and similarities) of it. */
int nd_pairs_finish_keys(nd_pairs *pairs);
int nd_pairs_finish(nd_pairs *pairs);

/* ---- the plan of a join of codes ------------------------------------------------------------------------------------------ */

#define ND_PARTS_MAX 256

typedef struct nd_join_plan {
    size_t count; /* of codes that it is made for: more or fewer cost time only */
    size_t bits, distance;
    size_t chunks; /* a table for each, in which the codes differ in a few bits at most; 0: one table, one bucket */
    double cost;   /* expected for random codes, in ns */
} nd_join_plan;

/* `width` bits of the code from its bit `at` on; two codes meet there if they differ in `radius` bits at most. */
typedef struct nd_span {
    size_t at, width, radius;
} nd_span;

/* What two codes must be to be a pair of this table, and of no earlier one: met in the first span, whose bits make the key of a bucket,
 * not met in the others. count 0: there are no pairs. */
typedef struct nd_join_table {
    size_t count;
    nd_span spans[ND_PARTS_MAX];
} nd_join_table;

/* The cheapest plan for `count` codes. */
nd_join_plan nd_plan_join(size_t count, size_t bits, size_t distance);
void nd_plan_table(const nd_join_plan *plan, size_t index, nd_join_table *table);
/* How many of `width` bits that may differ by `radius` make the best buckets for `count` codes; *cost as in the plan. */
size_t nd_plan_key_bits(size_t count, size_t width, size_t radius, double *cost);
/* nd_find_all by a plan: count >= 2, at most UINT32_MAX. */
int nd_join_codes(const uint8_t *codes, size_t count, size_t split, const nd_join_plan *plan, nd_pairs *pairs);

#endif
