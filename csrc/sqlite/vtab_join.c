/* vtab_join.c: neardup_join(index, first_id, last_id, complete, now [, asked]) -> fingerprint_id, other_id, similarity, distance: pairs of
 * fingerprints that meet the rule of the index, found for many at once by walking the candidate table from one end to the other.
 *
 * complete = 1: all pairs of a fingerprint from first_id to last_id and one of a higher id.
 * complete = 2: all pairs of a fingerprint of another index, given in `asked`, and any of this one. asked: one behind the other, by
 * ids that ascend from first_id to last_id, the id, its group's in this index and the size of the value, little-endian numbers of 64
 * bits, then the value.
 * complete = 0: pairs with a lower id, as many as it takes to connect. Of a bucket that many share, a fingerprint is compared with
 * one after another of each part that is connected already, until one of that part matches; so the cost of a bucket in which all
 * are alike grows with its size and not with its square. Fingerprints without a document that is visible at `now` (milliseconds
 * since 1970) are left out. A crowd is taken for one cluster.
 * complete = 3: the same, where a crowd is not taken for one cluster: its rows are joined like all others.
 *
 * DIRECTONLY: it reads the index. All rows are collected before the first is given out. */
#include "sqlite/join.h"

#include <stdlib.h>

#define CROWDS_JOINED 3 /* complete */

typedef struct join_cursor {
    nd_cursor head;
    nd_bucket_pair *pairs;
} join_cursor;

static int join_fill(nd_cursor *base)
{
    join_cursor *cursor = (join_cursor *)base;
    const int64_t most = ((int64_t)1 << (63 - ND_ITEM_BITS)) - 1;
    nd_join_question question = {0};
    ND_TRY(nd_input_integer(base, 1, "first_id", 0, INT64_MAX, 0, &question.first_id));
    ND_TRY(nd_input_integer(base, 2, "last_id", 0, INT64_MAX, 0, &question.last_id));
    ND_TRY(nd_input_integer(base, 3, "complete", 0, 3, 0, &question.mode));
    ND_TRY(nd_input_integer(base, 4, "now", INT64_MIN, INT64_MAX, 0, &question.now));
    if (question.mode == ND_BUCKETS_FOREIGN) {
        if (nd_input_is_null(base, 5) || sqlite3_value_type(base->inputs[5]) != SQLITE_BLOB)
            return nd_table_fail(nd_table_of(base), "asked must be a blob of fingerprints where complete is 2");
        (void)nd_value_bytes(base->inputs[5], &question.asked, &question.asked_size);
    }
    question.crowds_joined = question.mode == CROWDS_JOINED;
    if (question.crowds_joined)
        question.mode = ND_BUCKETS_CONNECT;
    if (question.last_id > most)
        question.last_id = most;
    free(cursor->pairs);
    cursor->pairs = NULL;
    return nd_join_find(nd_table_of(base), &question, &cursor->pairs, &base->count);
}

static void join_close(nd_cursor *base)
{
    free(((join_cursor *)base)->pairs);
}

static void join_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_bucket_pair *pair = &((const join_cursor *)base)->pairs[base->row];
    if (column < 2)
        sqlite3_result_int64(context, column == 0 ? pair->id : pair->other);
    else if (column == 2)
        sqlite3_result_double(context, pair->similarity);
    else if (pair->distance >= 0)
        sqlite3_result_int64(context, pair->distance);
}

const nd_table_spec nd_join_function = {
    .name = "neardup_join",
    .declaration = "CREATE TABLE x(fingerprint_id INTEGER, other_id INTEGER, similarity REAL, distance INTEGER, "
                   "index_name HIDDEN, first_id HIDDEN, last_id HIDDEN, complete HIDDEN, now HIDDEN, asked HIDDEN)",
    .columns = {4, 5, 6, 1000},
    .reads = ND_READS_INDEX,
    .cursor = {sizeof(join_cursor), join_close, join_fill, NULL, join_column},
};

/* ---- nd_sought(page) -> low, group_id ---------------------------------------------------------------------------------------
 *
 * The keys that the page of a join looks for, in the order of the table. Joined with the table they are looked up by one statement,
 * whose cursor stays where it is: a key that stands on the same page as the one before costs no way down from the root. `page` is a
 * pointer, which SQL cannot make: for anything else there is no row. */

typedef struct sought_cursor {
    nd_cursor head;
    size_t place;
    int64_t low, group_id;
} sought_cursor;

static int sought_next(nd_cursor *base)
{
    sought_cursor *cursor = (sought_cursor *)base;
    int status = nd_bucket_join_next_key(base->pointer, &cursor->place, &cursor->low, &cursor->group_id);
    base->count = status == ND_OK ? SIZE_MAX : 0;
    return SQLITE_OK;
}

static int sought_fill(nd_cursor *base)
{
    ((sought_cursor *)base)->place = 0;
    return base->pointer == NULL ? SQLITE_OK : sought_next(base);
}

static void sought_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const sought_cursor *cursor = (const sought_cursor *)base;
    sqlite3_result_int64(context, column == 0 ? cursor->low : cursor->group_id);
}

const nd_table_spec nd_sought_function = {
    .name = "nd_sought",
    .declaration = "CREATE TABLE x(low INTEGER, group_id INTEGER, page HIDDEN)",
    .columns = {2, 1, 1, 1000},
    .pointer = ND_JOIN_POINTER,
    .cursor = {sizeof(sought_cursor), NULL, sought_fill, sought_next, sought_column},
};
