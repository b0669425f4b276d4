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

/* SQLite's code for a status, with a message. */
static int code_of(const join_reader *reader, int status)
{
    if (status == ND_OK || reader->code != SQLITE_OK)
        return reader->code;
    if (status != ND_ERROR_CAPACITY)
        return nd_table_fail_status(reader->table, status);
    nd_table_fail(reader->table, "more than %lld pairs: ask for fewer fingerprints at once", (sqlite3_int64)ND_RESULTS_MAX);
    return SQLITE_TOOBIG;
}

static int read_question(nd_cursor *cursor, join_question *question)
{
    const int64_t most = ((int64_t)1 << (63 - ND_ITEM_BITS)) - 1;
    ND_TRY(nd_input_integer(cursor, 1, "first_id", 0, INT64_MAX, 0, &question->first_id));
    ND_TRY(nd_input_integer(cursor, 2, "last_id", 0, INT64_MAX, 0, &question->last_id));
    ND_TRY(nd_input_integer(cursor, 3, "complete", 0, 3, 0, &question->mode));
    ND_TRY(nd_input_integer(cursor, 4, "now", INT64_MIN, INT64_MAX, 0, &question->now));
    if (question->mode == ND_BUCKETS_FOREIGN &&
        (nd_input_is_null(cursor, 5) || sqlite3_value_type(cursor->inputs[5]) != SQLITE_BLOB))
        return nd_table_fail(nd_table_of(cursor), "asked must be a blob of fingerprints where complete is 2");
    question->crowds_joined = question->mode == CROWDS_JOINED;
    if (question->crowds_joined)
        question->mode = ND_BUCKETS_CONNECT;
    if (question->last_id > most)
        question->last_id = most;
    return SQLITE_OK;
}

static int join_fill(nd_cursor *base)
{
    join_cursor *cursor = (join_cursor *)base;
    join_reader reader;
    join_question question = {0};
    ND_TRY(read_question(base, &question));
    int status = nd_join_open(&reader, nd_table_of(base), &question);
    if (question.mode == ND_BUCKETS_FOREIGN)
        (void)nd_value_bytes(base->inputs[5], &reader.asked, &reader.asked_size);
    for (int64_t id = question.first_id; status == ND_OK && id <= question.last_id;) {
        status = nd_join_read_page(&reader, id, question.last_id, &id);
        if (status == ND_OK)
            status = nd_join_run_page(&reader);
    }
    const int code = code_of(&reader, status);
    if (code == SQLITE_OK) {
        free(cursor->pairs);
        cursor->pairs = nd_bucket_join_pairs(reader.join, &base->count);
    }
    nd_join_close(&reader);
    return code;
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
