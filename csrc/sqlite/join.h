/* join.h: what the files of neardup_join share: join_read.c, which answers what the join of the core (neardup_join.h) asks,
 * join_pages.c, which gives it the fingerprints, and vtab_join.c, the function.
 *
 * Functions here return a status of the core. Where SQLite fails, that is ND_ERROR_STOPPED, the reader has SQLite's code, and the
 * table a message. */
#ifndef ND_SQLITE_JOIN_H
#define ND_SQLITE_JOIN_H

#include "sqlite/neardup.h"

#include "neardup_join.h"

#define ND_JOIN_POINTER "nd_bucket_join"

enum join_statement {
    JOIN_PAGE,    /* first, last -> id, group_id, value, value_hash */
    JOIN_VALUE,   /* id -> value, value_hash */
    JOIN_VISIBLE, /* id, now -> 1 */
    JOIN_RANGE,   /* group, low -> ids of the candidate table, without crowds; of codes group, low, high -> entries */
    JOIN_ROWS,    /* of bands and selected hashes: group_id, key, id and crowd of all rows, in the order of the table */
    JOIN_WALK,    /* low, group -> group_id, key, id and crowd from there on; of codes low -> group_id, id, entries */
    JOIN_LABEL,   /* group, low, crowd -> the next crowd of the bucket */
    JOIN_CROWD,   /* group, low, crowd -> ids, newest first */
    JOIN_SOUGHT,  /* in place of JOIN_WALK in ND_BUCKETS_FOREIGN: the join -> the rows under the keys of its page */
    JOIN_STATEMENTS
};

typedef struct join_reader {
    nd_table *table;
    const nd_settings *settings;
    nd_workspace *workspace;
    nd_bucket_join *join;
    nd_bucket_mode mode;
    int crowds_joined; /* rows of crowds are joined like all others */
    sqlite3_stmt *statements[JOIN_STATEMENTS];
    int64_t now;
    int crowds;           /* rows of crowds are left to next_crowd */
    int expiring;         /* some documents may have expired */
    int64_t last_id;      /* the highest id of a fingerprint */
    const uint8_t *asked; /* ND_BUCKETS_FOREIGN: fingerprints: id, group_id and size of the value, 64 bits each, and the value */
    size_t asked_size, asked_at;
    int walking; /* the table is read in its order, beside the probes: row_key is where that stands */
    int walked;  /* to the end */
    int placed;  /* at a row, or at the end */
    int crowded; /* the bucket that was walked has rows of crowds */
    int seeking; /* only the rows under the keys of the page are read */
    int64_t row_key;
    int64_t probe_low; /* of the last probe */
    int code;          /* of SQLite, where it has failed */
} join_reader;

/* The arguments of neardup_join. */
typedef struct join_question {
    int64_t first_id, last_id, mode, now;
    int crowds_joined;
} join_question;

int nd_join_open(join_reader *reader, nd_table *table, const join_question *question);
void nd_join_close(join_reader *reader);
/* Notes an error of SQLite; ND_ERROR_STOPPED. */
int nd_join_stop(join_reader *reader, int code);
/* The fingerprint is damaged: notes it. */
int nd_join_damaged(join_reader *reader, int64_t id);
/* Resets a statement whose last step gave `code`: `status`, unless that is an error. */
int nd_join_end(join_reader *reader, sqlite3_stmt *statement, int code, int status);
/* What is compared of a stored value of *size bytes, aligned: a copy, or the hashes of a packed one. */
int nd_join_compared(join_reader *reader, const uint8_t *value, const uint8_t **bytes, size_t *size);
/* The status for a row with this id that was handed over. */
int nd_join_taken(join_reader *reader, int status, int64_t id);
/* Whether reading the candidate table from end to end is quicker than looking up each probe of `count` fingerprints. */
int nd_join_prefers_walk(join_reader *reader, int64_t count, int *walk);
/* Runs the page that the join has. */
int nd_join_run_page(join_reader *reader);
/* Fills the next page with the fingerprints from first_id to last_id, as many as fit; *next_id is where to go on. (join_pages.c) */
int nd_join_read_page(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id);

#endif
