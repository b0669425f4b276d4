/* neardup_join.h: the join of fingerprints that share buckets of a candidate table, for the SQLite extension alone. The caller
 * reads the table: the join asks for a bucket, and the caller supplies its rows.
 *
 * Fingerprints come in pages. The caller begins a page, adds fingerprints to it, and runs it against the whole table; then comes
 * the next page. */
#ifndef NEARDUP_BUCKET_JOIN_H
#define NEARDUP_BUCKET_JOIN_H

#include <stddef.h>
#include <stdint.h>

#ifndef ND_OK
#include "neardup_abi.h"
#endif

typedef enum nd_bucket_mode {
    ND_BUCKETS_CONNECT, /* pairs with a lower id, enough to connect all matches */
    ND_BUCKETS_ALL,     /* all pairs with a higher id */
    ND_BUCKETS_FOREIGN, /* all pairs: the page's fingerprints belong to another table and have other ids */
} nd_bucket_mode;

typedef struct nd_bucket_join nd_bucket_join;

/* The caller's callbacks. Any status other than ND_OK ends the join, which returns it: the caller's own are negative. Only ND_BUCKETS_CONNECT uses crowds and
 * visibility. */
typedef struct nd_bucket_reader {
    void *context;
    /* Hands over the rows under a probe, each with nd_bucket_join_take_id or, of codes, nd_bucket_join_take_entries, until one of
     * these does not return ND_OK; returns that status. ND_BUCKETS_CONNECT: without the rows of crowds. */
    int (*read_bucket)(void *context, const nd_filed *probe, nd_bucket_join *join);
    /* The lowest label above *crowd in the bucket; ND_DONE if there is none. NULL: no row has a label. */
    int (*next_crowd)(void *context, const nd_filed *probe, int64_t *crowd);
    /* Hands over the ids of one crowd, the newest first, with nd_bucket_join_take_member, as read_bucket does. */
    int (*read_crowd)(void *context, const nd_filed *probe, int64_t crowd, nd_bucket_join *join);
    /* The stored value of a fingerprint, valid until the next call. A size of 0: the fingerprint was deleted. */
    int (*read_value)(void *context, int64_t id, const uint8_t **bytes, size_t *size);
    int (*is_visible)(void *context, int64_t id, int *visible); /* NULL: all are */
    int (*is_stopped)(void *context);                           /* 1: the join ends with ND_ERROR_STOPPED; NULL: it never does */
} nd_bucket_reader;

typedef struct nd_bucket_pair {
    int64_t id;
    int64_t other;
    double similarity;
    int64_t distance; /* -1 if the scheme has none */
} nd_bucket_pair;

/* NULL if memory is out. More than `most` pairs are ND_ERROR_CAPACITY. */
nd_bucket_join *nd_bucket_join_new(const nd_scheme *scheme, nd_bucket_mode mode, size_t most, const nd_bucket_reader *reader);
void nd_bucket_join_free(nd_bucket_join *join);
/* After ND_ERROR_DAMAGED: the id that is out of range, or of the value that the scheme cannot have made. */
int64_t nd_bucket_join_damaged(const nd_bucket_join *join);

/* ---- a page ------------------------------------------------------------------------------------------------------------- */

void nd_bucket_join_begin(nd_bucket_join *join);
/* Adds a fingerprint by its stored value. Ids ascend. */
int nd_bucket_join_add(nd_bucket_join *join, int64_t id, int64_t group_id, const uint8_t *value, size_t size);
int nd_bucket_join_is_full(const nd_bucket_join *join);

/* A table of bands or of selected hashes, whose fingerprints look up the keys that they are filed under, may be read once instead:
 * all rows in the order of key and group are joined as they come. The page holds the fingerprints from first_id to last_id, as
 * many as fit; *next_id is the next fingerprint with a row. Values are read when they are compared. in_crowd: the row is left to
 * next_crowd. */
int nd_bucket_join_begin_rows(nd_bucket_join *join, int64_t first_id, int64_t last_id);
int nd_bucket_join_add_row(nd_bucket_join *join, int64_t group_id, int64_t key, int64_t id, int in_crowd);
int nd_bucket_join_end_rows(nd_bucket_join *join, int64_t *next_id);
size_t nd_bucket_join_count(const nd_bucket_join *join); /* fingerprints of the page */

/* Compares the fingerprints of the page with the fingerprints in their buckets. */
int nd_bucket_join_run(nd_bucket_join *join);

/* In a table of keys, inside nd_bucket_join_run: the next key and group of the page's probes, in their order, each once;
 * ND_DONE after the last. *place is 0 at first and belongs to this function. */
int nd_bucket_join_next_key(const nd_bucket_join *join, size_t *place, int64_t *key, int64_t *group_id);

/* ---- rows that the caller hands over ---------------------------------------------------------------------------------------- */

int nd_bucket_join_take_id(nd_bucket_join *join, int64_t id);
int nd_bucket_join_take_entries(nd_bucket_join *join, const nd_entries *entries);
int nd_bucket_join_take_member(nd_bucket_join *join, int64_t id);

/* ---- results --------------------------------------------------------------------------------------------------------- */

/* After the last page, once: the pairs, ascending, each once. The caller frees them with free(). */
nd_bucket_pair *nd_bucket_join_pairs(nd_bucket_join *join, size_t *count);

/* Whether reading a whole table of keys is quicker than looking up each probe of `count` fingerprints, estimated from the
 * stored value of the last of the `filed` fingerprints in the table. */
int nd_bucket_prefers_walk(const nd_scheme *scheme, const uint8_t *value, size_t size, int64_t filed, int64_t count, int *walk);

#endif
