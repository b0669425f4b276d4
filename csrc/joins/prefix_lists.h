/* prefix_lists.h: which sets share a rare value (prefix_lists.c). */
#ifndef NEARDUP_JOIN_LISTS_H
#define NEARDUP_JOIN_LISTS_H

#include "joins/joins.h"

#define ND_NO_LIST UINT32_MAX

/* Distinct sets that are not empty, by ascending length; set s is the array values[ends[leader[s] - 1]] .. of lengths[s] values.
 * Arrays before `split` and those from it on are two collections, and only pairs between them are wanted; or ND_NO_SPLIT. */
typedef struct nd_sets {
    const uint64_t *values;
    const uint64_t *ends;
    size_t split;
    size_t count;
    uint32_t *leader;
    uint32_t *lengths;
} nd_sets;

static inline const uint64_t *nd_sets_values(const nd_sets *sets, size_t set)
{
    return sets->values + (sets->ends[sets->leader[set]] - sets->lengths[set]);
}

/* Whether two sets may be a pair at all. */
static inline int nd_sets_wanted(const nd_sets *sets, size_t a, size_t b)
{
    return sets->split == ND_NO_SPLIT || (sets->leader[a] < sets->split) != (sets->leader[b] < sets->split);
}

/* A set that filed a value, and the value's place among the set's own, the rarest first. */
typedef struct nd_posting {
    uint32_t set, place;
} nd_posting;

/* A value by which a set is sought, and its place: postings[heads[list]] .. postings[end - 1] are of the sets before it. */
typedef struct nd_entry {
    uint32_t list, place, end;
} nd_entry;

typedef struct nd_lists {
    size_t *starts; /* of set s: entries[starts[s]] .. entries[starts[s + 1] - 1], by place; ND_NO_LIST: in no other set */
    nd_entry *entries;
    nd_posting *postings; /* of a list one after another, by set */
    uint32_t *heads;      /* the join moves a head past postings that it needs no more */
} nd_lists;

/* Fewer than UINT32_MAX values in all; ND_ERROR_CAPACITY where a set has 2^31. An error leaves what nd_lists_free frees. */
int nd_lists_new(nd_lists *lists, const nd_sets *sets, double threshold);
void nd_lists_free(nd_lists *lists);

#endif
