/* join_pages.c: the fingerprints of neardup_join, page by page: from their table, from the candidate table, or from `asked`. */
#include "sqlite/join.h"

#include <string.h>

static int add(join_reader *reader, int64_t id, int64_t group_id, const uint8_t *value, size_t value_size)
{
    const uint8_t *bytes = value;
    size_t size = value_size;
    int status = ND_OK;
    if (reader->settings->scheme.evidence == ND_EVIDENCE_PACKED)
        status = nd_join_compared(reader, value, &bytes, &size);
    if (status == ND_OK)
        status = nd_bucket_join_add(reader->join, id, group_id, value, value_size, bytes, size);
    return status == ND_ERROR_DAMAGED ? nd_join_damaged(reader, id) : status;
}

/* Appends the fingerprint of the statement's row to the page. */
static int take_value(join_reader *reader, sqlite3_stmt *statement, int64_t id)
{
    const uint8_t *value = sqlite3_column_blob(statement, 2);
    const size_t size = (size_t)sqlite3_column_bytes(statement, 2);
    return nd_column_is_intact(statement, 2) ? add(reader, id, sqlite3_column_int64(statement, 1), value, size)
                                             : nd_join_damaged(reader, id);
}

static int read_values(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_PAGE];
    int status = ND_OK, code = nd_bind_two(statement, first_id, last_id);
    *next_id = last_id + 1;
    nd_bucket_join_begin(reader->join);
    while (code == SQLITE_OK && status == ND_OK && *next_id > last_id && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
        status = take_value(reader, statement, id);
        if (nd_bucket_join_is_full(reader->join))
            *next_id = id + 1;
    }
    return nd_join_end(reader, statement, code, status);
}

/* The next fingerprint of another index, which must be one from first_id to last_id. */
static int take_asked(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *id)
{
    int64_t head[3]; /* id, group_id, size of the value */
    const uint8_t *bytes = reader->asked + reader->asked_at;
    size_t rest = reader->asked_size - reader->asked_at;
    memcpy(head, bytes, rest < sizeof head ? 0 : sizeof head);
    rest = rest < sizeof head ? 0 : rest - sizeof head;
    if (rest == 0 || head[0] < first_id || head[0] > last_id || head[2] < 1 || (uint64_t)head[2] > rest)
        return nd_join_stop(reader, nd_table_fail(reader->table,
                                        "asked must hold fingerprints with ids that ascend from %lld to %lld: "
                                        "id, group, size of the value, value",
                                        first_id, last_id));
    *id = head[0];
    reader->asked_at += sizeof head + (size_t)head[2];
    return add(reader, head[0], head[1], bytes + sizeof head, (size_t)head[2]);
}

static int read_asked(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    *next_id = first_id;
    nd_bucket_join_begin(reader->join);
    while (reader->asked_at < reader->asked_size && !nd_bucket_join_is_full(reader->join)) {
        int64_t id = 0;
        ND_TRY(take_asked(reader, *next_id, last_id, &id));
        *next_id = id + 1;
    }
    if (reader->asked_at == reader->asked_size)
        *next_id = last_id + 1;
    return ND_OK;
}

/* The table is read from end to end, and joined as it is read. */
static int read_rows(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_ROWS];
    int code = SQLITE_OK, status = nd_bucket_join_begin_rows(reader->join, first_id, last_id);
    while (code == SQLITE_OK && status == ND_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(statement, 2);
        code = SQLITE_OK;
        status = nd_join_taken(reader,
            nd_bucket_join_add_row(reader->join, sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1), id,
                reader->crowds && sqlite3_column_int64(statement, 3) != 0),
            id);
    }
    status = nd_join_end(reader, statement, code, status);
    return status == ND_OK ? nd_bucket_join_end_rows(reader->join, next_id) : status;
}

int nd_join_read_page(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    int by_rows = 0;
    if (reader->mode == ND_BUCKETS_FOREIGN)
        return read_asked(reader, first_id, last_id, next_id);
    const int64_t end = last_id < reader->last_id ? last_id : reader->last_id;
    if (reader->statements[JOIN_ROWS] != NULL)
        ND_TRY(nd_join_prefers_walk(reader, end - first_id + 1, &by_rows));
    return by_rows ? read_rows(reader, first_id, end, next_id) : read_values(reader, first_id, last_id, next_id);
}
