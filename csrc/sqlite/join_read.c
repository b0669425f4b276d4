/* join_read.c: the statements of neardup_join, and the rows that the join of the core asks for. */
#include "sqlite/join.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------------------------------------- */

int nd_join_stop(join_reader *reader, int code)
{
    reader->code = nd_table_fail_database(reader->table, code);
    return ND_ERROR_STOPPED;
}

int nd_join_damaged(join_reader *reader, int64_t id)
{
    return nd_join_stop(reader,
        nd_table_fail(reader->table, "fingerprint %lld of index \"%s\" is damaged: wrong hash, length or order",
            (sqlite3_int64)id, reader->settings->index));
}

int nd_join_end(join_reader *reader, sqlite3_stmt *statement, int code, int status)
{
    if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE)
        status = nd_join_stop(reader, code);
    sqlite3_reset(statement);
    return status;
}

/* ---- statements -------------------------------------------------------------------------------------------------------- */

static const char *const common_sql[] = {
    [JOIN_PAGE] = "SELECT id, group_id, value, value_hash FROM %s_fingerprint WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    [JOIN_VALUE] = "SELECT value, value_hash FROM %s_fingerprint WHERE id = ?1",
    [JOIN_VISIBLE] = "SELECT 1 FROM %s_document WHERE fingerprint_id = ?1 AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1",
};

/* JOIN_VISIBLE where documents may have several codes. */
static const char visible_sql[] =
    "SELECT 1 FROM %s_document WHERE (fingerprint_id = ?1 OR id IN (SELECT document_id FROM %s_part WHERE fingerprint_id = ?1)) "
    "AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1";

/* What stands under a probe, without the rows of crowds: ?1 group, ?2 low, ?3 high. */
#define ENTRIES_OF_BUCKET "SELECT entries FROM %s_code_bucket WHERE id BETWEEN ?2 AND ?3 AND group_id = ?1"
#define HASHES_OF_BUCKET(table) "SELECT fingerprint_id FROM %s_" table " WHERE group_id = ?1 AND hash = ?2 AND crowd = 0"
static const char *const range_sql[] = {
    [ND_PLAN_SCAN] = ENTRIES_OF_BUCKET,
    [ND_PLAN_BLOCKS] = ENTRIES_OF_BUCKET,
    [ND_PLAN_CHUNKS] = ENTRIES_OF_BUCKET,
    [ND_PLAN_BANDS] = "SELECT fingerprint_id FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2 AND crowd = 0",
    [ND_PLAN_PREFIX] = HASHES_OF_BUCKET("bottomk_prefix"),
    [ND_PLAN_WINNOW] = HASHES_OF_BUCKET("passage_hash"),
};

/* All rows of a table. Without a WHERE each takes half the steps of SQLite that one of ordered_sql takes. */
static const char *const rows_sql[] = {
    [ND_PLAN_BANDS] = "SELECT group_id, bucket, fingerprint_id FROM %s_minhash_band "
                      "ORDER BY bucket, group_id, crowd, fingerprint_id",
    [ND_PLAN_WINNOW] = "SELECT group_id, hash, fingerprint_id FROM %s_passage_hash "
                       "ORDER BY hash, group_id, crowd, fingerprint_id",
};

/* The table in its order, from a place on: ?1 key, ?2 group; of codes ?1 low. Of the plans with rows of keys also the next crowd of
 * a bucket, and the rows of a crowd. */
#define BUCKETS_IN_ORDER "SELECT group_id, id, entries FROM %s_code_bucket WHERE id >= ?1 ORDER BY id"
#define HASHES_IN_ORDER(table)                                                                                                   \
    {                                                                                                                            \
        "SELECT group_id, hash, fingerprint_id, crowd FROM %s_" table " WHERE (hash, group_id) >= (?1, ?2) "                     \
        "ORDER BY hash, group_id, crowd, fingerprint_id",                                                                        \
            "SELECT min(crowd) FROM %s_" table " WHERE group_id = ?1 AND hash = ?2 AND crowd > ?3",                              \
            "SELECT fingerprint_id FROM %s_" table " WHERE group_id = ?1 AND hash = ?2 AND crowd = ?3 "                          \
            "ORDER BY fingerprint_id DESC"                                                                                       \
    }
static const char *const ordered_sql[][3] = {
    [ND_PLAN_SCAN] = {BUCKETS_IN_ORDER},
    [ND_PLAN_BLOCKS] = {BUCKETS_IN_ORDER},
    [ND_PLAN_CHUNKS] = {BUCKETS_IN_ORDER},
    [ND_PLAN_BANDS] = {"SELECT group_id, bucket, fingerprint_id, crowd FROM %s_minhash_band "
                       "WHERE (bucket, group_id) >= (?1, ?2) ORDER BY bucket, group_id, crowd, fingerprint_id",
        "SELECT min(crowd) FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2 AND crowd > ?3",
        "SELECT fingerprint_id FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2 AND crowd = ?3 "
        "ORDER BY fingerprint_id DESC"},
    [ND_PLAN_PREFIX] = HASHES_IN_ORDER("bottomk_prefix"),
    [ND_PLAN_WINNOW] = HASHES_IN_ORDER("passage_hash"),
};

/* ND_BUCKETS_FOREIGN: only the rows under the keys of the page. ?1 the join. */
#define HASHES_SOUGHT(table)                                                                                                     \
    "SELECT b.group_id, b.hash, b.fingerprint_id FROM nd_sought(?1) AS p "                                                       \
    "CROSS JOIN %s_" table " AS b WHERE b.hash = p.low AND b.group_id = p.group_id"
static const char *const sought_sql[] = {
    [ND_PLAN_BANDS] = "SELECT b.group_id, b.bucket, b.fingerprint_id FROM nd_sought(?1) AS p "
                      "CROSS JOIN %s_minhash_band AS b WHERE b.bucket = p.low AND b.group_id = p.group_id",
    [ND_PLAN_PREFIX] = HASHES_SOUGHT("bottomk_prefix"),
    [ND_PLAN_WINNOW] = HASHES_SOUGHT("passage_hash"),
};

static int prepare(join_reader *reader, enum join_statement which, const char *format)
{
    int code = nd_prepare(reader->table->cache.db, format, reader->settings->index, &reader->statements[which]);
    return code == SQLITE_OK ? ND_OK : nd_join_stop(reader, code);
}

/* The first column of the first row as a number, 0 where there is none. */
static int ask_number(join_reader *reader, const char *format, int64_t *out)
{
    ND_TRY(prepare(reader, JOIN_LABEL, format));
    sqlite3_stmt *statement = reader->statements[JOIN_LABEL];
    int code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    int status = nd_join_end(reader, statement, code, ND_OK);
    sqlite3_finalize(statement);
    reader->statements[JOIN_LABEL] = NULL;
    return status;
}

static int prepare_all(join_reader *reader, int *crowds)
{
    int64_t expiring = 0, labels = 0;
    int plan = reader->settings->scheme.plan, keyed = !nd_scheme_has_buckets(&reader->settings->scheme);
    int status = ask_number(reader, "SELECT 1 FROM %s_document WHERE expires_at IS NOT NULL LIMIT 1", &expiring);
    if (status == ND_OK)
        status = ask_number(reader, "SELECT value FROM %s_setting WHERE name = 'crowds'", &labels);
    if (status == ND_OK)
        status = ask_number(reader, "SELECT max(id) FROM %s_fingerprint", &reader->last_id);
    reader->expiring = expiring != 0;
    *crowds = labels != 0 && keyed && reader->mode == ND_BUCKETS_CONNECT && !reader->crowds_joined;
    for (int i = JOIN_PAGE; i <= JOIN_VISIBLE && status == ND_OK; i++)
        status = prepare(reader, (enum join_statement)i,
            i == JOIN_VISIBLE && reader->settings->has_parts ? visible_sql : common_sql[i]);
    if (status == ND_OK)
        status = prepare(reader, JOIN_RANGE, range_sql[plan]);
    reader->seeking = keyed && reader->mode == ND_BUCKETS_FOREIGN;
    if (status == ND_OK && reader->seeking)
        return prepare(reader, JOIN_WALK, sought_sql[plan]);
    if (status == ND_OK && (plan == ND_PLAN_BANDS || plan == ND_PLAN_WINNOW))
        status = prepare(reader, JOIN_ROWS, rows_sql[plan]);
    for (int i = JOIN_WALK; i <= (*crowds ? JOIN_CROWD : JOIN_WALK) && status == ND_OK; i++)
        status = prepare(reader, (enum join_statement)i, ordered_sql[plan][i - JOIN_WALK]);
    return status;
}

/* Binds group, low and high of a probe, as many as the statement takes. */
static int bind_probe(sqlite3_stmt *statement, const nd_filed *probe)
{
    int code = nd_bind_two(statement, probe->group_id, probe->low);
    if (code == SQLITE_OK && sqlite3_bind_parameter_count(statement) >= 3)
        code = sqlite3_bind_int64(statement, 3, probe->high);
    return code;
}

/* ---- values -------------------------------------------------------------------------------------------------------------- */

int nd_join_compared(join_reader *reader, const uint8_t *value, const uint8_t **bytes, size_t *size)
{
    const nd_scheme *scheme = &reader->settings->scheme;
    const size_t count = scheme->evidence == ND_EVIDENCE_PACKED ? nd_set_count(*size) : 0;
    uint64_t *copy = nd_workspace_numbers(reader->workspace, 0, count > 0 ? count : *size / sizeof *copy + 1);
    if (copy == NULL)
        return ND_ERROR_MEMORY;
    int status = count > 0 ? nd_set_read(value, *size, copy) : nd_scheme_value_check(scheme, value, *size);
    if (status == ND_OK && count == 0)
        memcpy(copy, value, *size);
    *bytes = (const uint8_t *)copy;
    *size = count > 0 ? count * sizeof *copy : *size;
    return status;
}

static int read_value(void *context, int64_t id, const uint8_t **bytes, size_t *size)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_VALUE];
    *size = 0;
    int status = ND_OK, code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const void *value = sqlite3_column_blob(statement, 0);
        *size = (size_t)sqlite3_column_bytes(statement, 0);
        status = nd_column_is_intact(statement, 0) ? nd_join_compared(reader, value, bytes, size) : ND_ERROR_DAMAGED;
        if (status == ND_ERROR_DAMAGED)
            status = nd_join_damaged(reader, id);
    }
    return nd_join_end(reader, statement, code, status);
}

static int is_visible(void *context, int64_t id, int *visible)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_VISIBLE];
    *visible = 1;
    if (!reader->expiring)
        return ND_OK;
    int code = nd_bind_two(statement, id, reader->now);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *visible = code == SQLITE_ROW;
    return nd_join_end(reader, statement, code, ND_OK);
}

static int is_stopped(void *context)
{
    return nd_is_interrupted(((join_reader *)context)->table->cache.db);
}

/* ---- the table in its order, beside the probes in the same order ------------------------------------------------------------- */

/* A status for a row that was handed over. */
static int taken(join_reader *reader, int status, int64_t id)
{
    if (status == ND_ERROR_DAMAGED)
        return nd_join_stop(reader, nd_table_fail(reader->table, "fingerprint id %lld is out of range", (sqlite3_int64)id));
    return status;
}

static int take_entries(join_reader *reader, const uint8_t *bytes, size_t size, nd_bucket_join *join)
{
    nd_entries entries;
    size_t code_size = (size_t)reader->settings->scheme.bits / 8;
    int status = bytes == NULL ? ND_ERROR_DAMAGED : nd_entries_read(bytes, size, code_size, &entries);
    if (status == ND_OK)
        status = nd_bucket_join_take_entries(join, &entries);
    if (status != ND_ERROR_DAMAGED)
        return status;
    return nd_join_stop(reader, nd_table_fail(reader->table, "a row of %s_code_bucket is damaged", reader->settings->index));
}

/* Hands over the id, or the entries, in a column of the row. */
static int take_row(join_reader *reader, sqlite3_stmt *statement, int column, nd_bucket_join *join)
{
    if (nd_scheme_has_buckets(&reader->settings->scheme)) {
        const uint8_t *bytes = sqlite3_column_blob(statement, column);
        return take_entries(reader, bytes, (size_t)sqlite3_column_bytes(statement, column), join);
    }
    int64_t id = sqlite3_column_int64(statement, column);
    return taken(reader, nd_bucket_join_take_id(join, id), id);
}

static int walk_on(join_reader *reader)
{
    int code = sqlite3_step(reader->statements[JOIN_WALK]);
    if (code == SQLITE_ROW) { /* the rest of the row is read where its key is one that is asked for */
        reader->row_key = sqlite3_column_int64(reader->statements[JOIN_WALK], 1);
        return ND_OK;
    }
    reader->walked = 1;
    return code == SQLITE_DONE ? ND_OK : nd_join_stop(reader, code);
}

/* Goes on at the first row that is not before the probe. */
static int walk_from(join_reader *reader, int64_t low, int64_t group_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_WALK];
    sqlite3_reset(statement);
    int code = reader->seeking ? sqlite3_bind_pointer(statement, 1, reader->join, ND_JOIN_POINTER, NULL)
                               : sqlite3_bind_int64(statement, 1, low);
    if (code == SQLITE_OK && sqlite3_bind_parameter_count(statement) == 2)
        code = sqlite3_bind_int64(statement, 2, group_id);
    reader->walked = 0;
    reader->placed = 1;
    return code == SQLITE_OK ? walk_on(reader) : nd_join_stop(reader, code);
}

/* Where the row stands: before the place of the probe, which is key and group or, of codes, keys from low to high, at it, or
 * behind it. */
static int row_against(const join_reader *reader, const nd_filed *probe)
{
    if (reader->row_key < probe->low || reader->row_key > probe->high)
        return reader->row_key < probe->low ? -1 : 1;
    if (nd_scheme_has_buckets(&reader->settings->scheme))
        return 0;
    int64_t group_id = sqlite3_column_int64(reader->statements[JOIN_WALK], 0);
    return (group_id > probe->group_id) - (group_id < probe->group_id);
}

/* A few rows are passed over sooner than the place is looked up. Of codes two groups may have one place. */
static int walk_to(join_reader *reader, const nd_filed *probe)
{
    int status = ND_OK, again = nd_scheme_has_buckets(&reader->settings->scheme) && probe->low == reader->probe_low;
    if (!reader->placed || again)
        status = walk_from(reader, probe->low, probe->group_id);
    for (int passed = 0; status == ND_OK && !reader->walked && row_against(reader, probe) < 0; passed++)
        status = passed == ND_PASSED_ROWS && !reader->seeking ? walk_from(reader, probe->low, probe->group_id) : walk_on(reader);
    reader->probe_low = probe->low;
    return status;
}

/* Whether the row is one that the join compares. */
static int is_wanted(join_reader *reader, const nd_filed *probe)
{
    sqlite3_stmt *statement = reader->statements[JOIN_WALK];
    if (nd_scheme_has_buckets(&reader->settings->scheme))
        return sqlite3_column_int64(statement, 0) == probe->group_id;
    if (reader->mode != ND_BUCKETS_CONNECT || reader->crowds_joined || sqlite3_column_int64(statement, 3) == 0)
        return 1;
    reader->crowded = 1;
    return 0;
}

static int walk_bucket(join_reader *reader, const nd_filed *probe, nd_bucket_join *join)
{
    int status = walk_to(reader, probe);
    reader->crowded = 0;
    while (status == ND_OK && !reader->walked && row_against(reader, probe) == 0) {
        if (is_wanted(reader, probe))
            status = take_row(reader, reader->statements[JOIN_WALK], 2, join);
        if (status == ND_OK)
            status = walk_on(reader);
    }
    return status;
}

int nd_join_prefers_walk(join_reader *reader, int64_t count, int *walk)
{
    *walk = 0;
    if (reader->statements[JOIN_WALK] == NULL || count <= 0)
        return ND_OK;
    sqlite3_stmt *statement = reader->statements[JOIN_VALUE];
    int status = ND_OK, code = sqlite3_bind_int64(statement, 1, reader->last_id);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW && sqlite3_column_blob(statement, 0) != NULL)
        status = nd_bucket_prefers_walk(&reader->settings->scheme, sqlite3_column_blob(statement, 0),
            (size_t)sqlite3_column_bytes(statement, 0), reader->last_id, count, walk);
    return nd_join_end(reader, statement, code, status);
}

int nd_join_run_page(join_reader *reader)
{
    int status = ND_OK;
    reader->walking = reader->mode != ND_BUCKETS_CONNECT ||
                      (reader->crowds_joined && !nd_scheme_has_buckets(&reader->settings->scheme));
    if (!reader->walking && !nd_scheme_has_buckets(&reader->settings->scheme)) /* of codes buckets are read twice */
        status = nd_join_prefers_walk(reader, (int64_t)nd_bucket_join_count(reader->join), &reader->walking);
    reader->walked = reader->placed = 0;
    if (status == ND_OK)
        status = nd_bucket_join_run(reader->join);
    sqlite3_reset(reader->statements[JOIN_WALK]);
    reader->walking = 0;
    return status;
}

/* ---- buckets ------------------------------------------------------------------------------------------------------------------ */

static int read_bucket(void *context, const nd_filed *probe, nd_bucket_join *join)
{
    join_reader *reader = context;
    if (reader->walking)
        return walk_bucket(reader, probe, join);
    sqlite3_stmt *statement = reader->statements[JOIN_RANGE];
    int status = ND_OK, code = bind_probe(statement, probe);
    while (code == SQLITE_OK && status == ND_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = SQLITE_OK;
        status = take_row(reader, statement, 0, join);
    }
    return nd_join_end(reader, statement, code, status);
}

/* Binds a probe and a crowd. */
static int bind_crowd(sqlite3_stmt *statement, const nd_filed *probe, int64_t crowd)
{
    ND_TRY(bind_probe(statement, probe));
    return sqlite3_bind_int64(statement, 3, crowd);
}

static int next_crowd(void *context, const nd_filed *probe, int64_t *crowd)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_LABEL];
    if (reader->walking && !reader->crowded)
        return ND_DONE;
    int status = ND_DONE, code = bind_crowd(statement, probe, *crowd);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        *crowd = sqlite3_column_int64(statement, 0);
        status = ND_OK;
    }
    return nd_join_end(reader, statement, code, status);
}

static int read_crowd(void *context, const nd_filed *probe, int64_t crowd, nd_bucket_join *join)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_CROWD];
    int status = ND_OK, code = bind_crowd(statement, probe, crowd);
    while (code == SQLITE_OK && status == ND_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
        status = taken(reader, nd_bucket_join_take_member(join, id), id);
    }
    return nd_join_end(reader, statement, code, status);
}

/* ---- open and close ---------------------------------------------------------------------------------------------------------- */

int nd_join_open(join_reader *reader, nd_table *table, const join_question *question)
{
    int crowds = 0;
    memset(reader, 0, sizeof *reader);
    reader->table = table;
    reader->settings = &table->cache.settings;
    reader->mode = (nd_bucket_mode)question->mode;
    reader->crowds_joined = question->crowds_joined;
    reader->now = question->now;
    reader->workspace = nd_workspace_new(table->cache.db);
    if (reader->workspace == NULL)
        return ND_ERROR_MEMORY;
    ND_TRY(prepare_all(reader, &crowds));
    const nd_bucket_reader rows = {.context = reader,
        .read_bucket = read_bucket,
        .next_crowd = crowds ? next_crowd : NULL,
        .read_crowd = read_crowd,
        .read_value = read_value,
        .is_visible = is_visible,
        .is_stopped = is_stopped};
    int bounded = reader->mode != ND_BUCKETS_CONNECT && question->first_id != question->last_id;
    reader->join = nd_bucket_join_new(&reader->settings->scheme, reader->mode, bounded ? ND_RESULTS_MAX : SIZE_MAX, &rows);
    return reader->join == NULL ? ND_ERROR_MEMORY : ND_OK;
}

void nd_join_close(join_reader *reader)
{
    for (int i = 0; i < JOIN_STATEMENTS; i++)
        sqlite3_finalize(reader->statements[i]);
    if (reader->workspace != NULL)
        nd_workspace_release(reader->workspace);
    nd_bucket_join_free(reader->join);
}
