/* rare_sets.h: sets of a hot bucket, in which many meet and few match. To compare all pairs of such a bucket is a square, so a set meets
 * only those before it that it may match. Signatures are sets of slots with their numbers. (rare_sets.c) */
#ifndef NEARDUP_RARE_SETS_H
#define NEARDUP_RARE_SETS_H

#include "joins/newest.h"
#include "joins/verifier.h"

/* Whether what a rule compares has elements to go by. */
int nd_has_elements(const nd_scheme *rule);
/* Appends the elements of a set or signature, ascending. */
int nd_elements_append(const nd_scheme *rule, const uint8_t *bytes, size_t size, nd_numbers *out);
/* The Jaccard similarity that the elements of two have at least if these are so similar by the rule. */
double nd_elements_bound(const nd_scheme *rule, double similarity);

/* The sets that have an element (or another one with its 32 bits in the table) among their rarest. */
typedef struct nd_rare_list {
    uint32_t head;    /* its newest entry */
    uint32_t settled; /* the entries from this one on are in one component; ND_NO_NUMBER: that was not seen */
    uint32_t fresh;   /* entries that are newer */
} nd_rare_list;

typedef struct nd_rare_entry {
    uint32_t set, next;
    uint32_t rest; /* elements from this one on in the set's order */
} nd_rare_entry;

typedef struct nd_rare_set {
    int64_t id;
    uint32_t size;
    uint32_t asked; /* the last question that met it */
} nd_rare_set;

/* Sets of one size by their bitmaps. */
typedef struct nd_rare_class {
    size_t size, words;
    ND_LIST(uint64_t) blocks;  /* as the kernel may_overlap takes them */
    ND_LIST(uint32_t) numbers; /* of each bitmap's set */
} nd_rare_class;

typedef struct nd_rare_sets {
    const nd_scheme *rule;
    nd_numbers elements; /* of the present set */

    /* The order. */
    uint32_t counts[ND_RARE_COUNTERS]; /* counted sets that have an element, or one that is counted with it */
    size_t counted, total;             /* sets, and the elements that they have together */
    size_t least;        /* no set that asks or is asked is smaller: the smallest that was counted, if the caller sets no other */
    nd_numbers majority; /* ascending; most of the counted sets have each */
    size_t gain;         /* how much smaller than a set its difference from the majority is */

    /* The sets by their rarest elements. */
    ND_LIST(nd_record) unsorted;
    ND_LIST(nd_record) sorted; /* elements of the present set, the rarest first */
    nd_newest numbers;         /* by element: its list */
    ND_LIST(nd_rare_list) lists;
    ND_LIST(nd_rare_entry) entries;
    ND_LIST(nd_rare_set) sets;

    /* The sets by their bitmaps. */
    ND_LIST(nd_rare_class) classes;
    size_t words; /* of all bitmaps */
    nd_numbers difference;

    /* The present question. */
    uint32_t question;
    double listed, drawn; /* what all questions cost by lists and by bitmaps, in words */
    int by_bitmaps;       /* no set is looked up by its rarest elements any more */
    double bound;         /* Jaccard similarity that a match has at least */
    size_t sum, needed;   /* the last sum of two sizes, and how many of them must be common */
} nd_rare_sets;

/* Whoever asks. */
typedef struct nd_rare_asker {
    void *context;
    int (*meet)(void *context, int64_t id);
    /* Similarity that a better match has at least; it may grow as sets are met. */
    double (*bound)(void *context);
    /* NULL: sets are not connected. Else a list in one component, as near-copies are, is passed by if that is the asker's, too. */
    const nd_components *components;
    int (*is_connected)(void *context, int64_t id);
} nd_rare_asker;

nd_rare_sets *nd_rare_sets_new(const nd_scheme *rule);
void nd_rare_sets_free(nd_rare_sets *sets);

/* Forgets all. Then the elements of so many sets are counted, which nd_rare_sets_order makes the order of. */
void nd_rare_sets_begin(nd_rare_sets *sets, size_t count);
int nd_rare_sets_count(nd_rare_sets *sets, const uint8_t *bytes, size_t size);
void nd_rare_sets_order(nd_rare_sets *sets);
/* How many elements a set has. */
size_t nd_elements_count(const nd_scheme *rule, size_t size);

/* Forgets the sets, and keeps the order. */
void nd_rare_sets_forget(nd_rare_sets *sets);
int nd_rare_sets_add(nd_rare_sets *sets, int64_t id, const uint8_t *bytes, size_t size);
size_t nd_rare_sets_memory(const nd_rare_sets *sets);
/* A set meets the others that it may match, each once. */
int nd_rare_sets_ask(nd_rare_sets *sets, const uint8_t *bytes, size_t size, const nd_rare_asker *asker);

#endif
