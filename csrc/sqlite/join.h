/* join.h: between the function neardup_join (vtab_join.c) and its statements (join_read.c). */
#ifndef ND_SQLITE_JOIN_H
#define ND_SQLITE_JOIN_H

#include "sqlite/neardup.h"

#include "neardup_join.h"

#define ND_JOIN_POINTER "nd_bucket_join"

/* The arguments of neardup_join. */
typedef struct nd_join_question {
    int64_t first_id, last_id, mode, now;
    int crowds_joined;    /* rows of crowds are joined like all others */
    const uint8_t *asked; /* ND_BUCKETS_FOREIGN: fingerprints: id, group_id and size of the value, 64 bits each, and the value */
    size_t asked_size;
} nd_join_question;

/* The pairs, which the caller frees with free(); SQLite's code, with a message. */
int nd_join_find(nd_table *table, const nd_join_question *question, nd_bucket_pair **pairs, size_t *count);

#endif
