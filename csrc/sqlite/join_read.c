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

static const char page_sql[] =
    "SELECT id, group_id, value, value_hash FROM {index}_fingerprint WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
static const char value_sql[] = "SELECT value, value_hash FROM {index}_fingerprint WHERE id = ?1";
/* Without and with several codes a document. */
static const char *const visible_sql[] = {
    "SELECT 1 FROM {index}_document WHERE fingerprint_id = ?1 AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1",
    "SELECT 1 FROM {index}_document WHERE (fingerprint_id = ?1 OR id IN (SELECT document_id FROM {index}_part WHERE "
    "fingerprint_id = ?1)) "
    "AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1",
};

/* The candidate table of each plan. JOIN_ROWS has no WHERE: so it takes half the steps of SQLite that JOIN_WALK takes. */
#define CODES                                                                                                                    \
    {                                                                                                                            \
        [JOIN_RANGE] = "SELECT entries FROM {index}_code_bucket WHERE id BETWEEN ?2 AND ?3 AND group_id = ?1",                   \
        [JOIN_WALK] = "SELECT group_id, id, entries FROM {index}_code_bucket WHERE id >= ?1 ORDER BY id",                        \
    }
#define UNDER(table, key) "FROM {index}_" table " WHERE group_id = ?1 AND " key " = ?2 AND crowd "
#define IN_ORDER(key) "ORDER BY " key ", group_id, crowd, fingerprint_id"
#define KEYS(table, key)                                                                                                         \
    {                                                                                                                            \
        [JOIN_RANGE] = "SELECT fingerprint_id " UNDER(table, key) "= 0",                                                         \
        [JOIN_ROWS] = "SELECT group_id, " key ", fingerprint_id, crowd FROM {index}_" table " " IN_ORDER(key),                   \
        [JOIN_WALK] = "SELECT group_id, " key ", fingerprint_id, crowd FROM {index}_" table " WHERE (" key                       \
                      ", group_id) >= (?1, ?2) " IN_ORDER(key),                                                                  \
        [JOIN_LABEL] = "SELECT min(crowd) " UNDER(table, key) "> ?3",                                                            \
        [JOIN_CROWD] = "SELECT fingerprint_id " UNDER(table, key) "= ?3 ORDER BY fingerprint_id DESC",                           \
        [JOIN_SOUGHT] = "SELECT b.group_id, b." key ", b.fingerprint_id FROM nd_sought(?1) AS p CROSS JOIN {index}_" table       \
                        " AS b WHERE b." key " = p.low AND b.group_id = p.group_id",                                             \
    }
static const char *const plan_sql[][JOIN_STATEMENTS] = {
    [ND_PLAN_SCAN] = CODES,
    [ND_PLAN_BLOCKS] = CODES,
    [ND_PLAN_CHUNKS] = CODES,
    [ND_PLAN_BANDS] = KEYS("minhash_band", "bucket"),
    [ND_PLAN_PREFIX] = KEYS("bottomk_prefix", "hash"),
    [ND_PLAN_WINNOW] = KEYS("passage_hash", "hash"),
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
    const int code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    const int status = nd_join_end(reader, statement, code, ND_OK);
    sqlite3_finalize(statement);
    reader->statements[JOIN_LABEL] = NULL;
    return status;
}

static int prepare_all(join_reader *reader)
{
    const int plan = reader->settings->scheme.plan, keyed = !nd_scheme_has_buckets(&reader->settings->scheme);
    const char *const *sql = plan_sql[plan];
    int64_t expiring, labels;
    ND_TRY(ask_number(reader, "SELECT 1 FROM {index}_document WHERE expires_at IS NOT NULL LIMIT 1", &expiring));
    ND_TRY(ask_number(reader, "SELECT value FROM {index}_setting WHERE name = 'crowds'", &labels));
    ND_TRY(ask_number(reader, "SELECT max(id) FROM {index}_fingerprint", &reader->last_id));
    reader->expiring = expiring != 0;
    reader->seeking = keyed && reader->mode == ND_BUCKETS_FOREIGN;
    reader->crowds = labels != 0 && keyed && reader->mode == ND_BUCKETS_CONNECT && !reader->crowds_joined;
    ND_TRY(prepare(reader, JOIN_PAGE, page_sql));
    ND_TRY(prepare(reader, JOIN_VALUE, value_sql));
    ND_TRY(prepare(reader, JOIN_VISIBLE, visible_sql[reader->settings->has_parts != 0]));
    ND_TRY(prepare(reader, JOIN_RANGE, sql[JOIN_RANGE]));
    if (reader->seeking)
        return prepare(reader, JOIN_WALK, sql[JOIN_SOUGHT]);
    if (plan == ND_PLAN_BANDS || plan == ND_PLAN_WINNOW)
        ND_TRY(prepare(reader, JOIN_ROWS, sql[JOIN_ROWS]));
    for (int i = JOIN_WALK; i <= (reader->crowds ? JOIN_CROWD : JOIN_WALK); i++)
        ND_TRY(prepare(reader, (enum join_statement)i, sql[i]));
    return ND_OK;
}

/* Binds group and low of a probe, and the third number where the statement takes one. */
static int bind_probe(sqlite3_stmt *statement, const nd_filed *probe, int64_t third)
{
    ND_TRY(nd_bind_two(statement, probe->group_id, probe->low));
    return sqlite3_bind_parameter_count(statement) >= 3 ? sqlite3_bind_int64(statement, 3, third) : SQLITE_OK;
}

/* ---- values -------------------------------------------------------------------------------------------------------------- */

int nd_join_compared(join_reader *reader, const uint8_t *value, const uint8_t **bytes, size_t *size)
{
    const nd_scheme *scheme = &reader->settings->scheme;
    const size_t count = scheme->evidence == ND_EVIDENCE_PACKED ? nd_set_count(*size) : 0;
    uint64_t *copy = nd_workspace_numbers(reader->workspace, 0, count > 0 ? count : *size / sizeof *copy + 1);
    if (copy == NULL)
        return ND_ERROR_MEMORY;
    ND_TRY(count > 0 ? nd_set_read(value, *size, copy) : nd_scheme_value_check(scheme, value, *size));
    if (count == 0)
        memcpy(copy, value, *size);
    *bytes = (const uint8_t *)copy;
    *size = count > 0 ? count * sizeof *copy : *size;
    return ND_OK;
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
int nd_join_taken(join_reader *reader, int status, int64_t id)
{
    if (status == ND_ERROR_DAMAGED)
        return nd_join_stop(reader, nd_table_fail(reader->table, "fingerprint id %lld is out of range", (sqlite3_int64)id));
    return status;
}

/* Hands over the id, or the entries, in a column of the row. */
static int take_row(join_reader *reader, sqlite3_stmt *statement, int column, nd_bucket_join *join)
{
    if (!nd_scheme_has_buckets(&reader->settings->scheme)) {
        const int64_t id = sqlite3_column_int64(statement, column);
        return nd_join_taken(reader, nd_bucket_join_take_id(join, id), id);
    }
    nd_entries entries;
    const size_t code_size = (size_t)reader->settings->scheme.bits / 8;
    const uint8_t *bytes = sqlite3_column_blob(statement, column);
    int status = ND_ERROR_DAMAGED;
    if (bytes != NULL)
        status = nd_entries_read(bytes, (size_t)sqlite3_column_bytes(statement, column), code_size, &entries);
    if (status == ND_OK)
        status = nd_bucket_join_take_entries(join, &entries);
    if (status != ND_ERROR_DAMAGED)
        return status;
    return nd_join_stop(reader, nd_table_fail(reader->table, "a row of %s_code_bucket is damaged", reader->settings->index));
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
    const int again = nd_scheme_has_buckets(&reader->settings->scheme) && probe->low == reader->probe_low;
    if (!reader->placed || again)
        ND_TRY(walk_from(reader, probe->low, probe->group_id));
    for (int passed = 0; !reader->walked && row_against(reader, probe) < 0; passed++)
        ND_TRY(passed == ND_PASSED_ROWS && !reader->seeking ? walk_from(reader, probe->low, probe->group_id) : walk_on(reader));
    reader->probe_low = probe->low;
    return ND_OK;
}

/* Whether the row is one that the join compares. */
static int is_wanted(join_reader *reader, const nd_filed *probe)
{
    sqlite3_stmt *statement = reader->statements[JOIN_WALK];
    if (nd_scheme_has_buckets(&reader->settings->scheme))
        return sqlite3_column_int64(statement, 0) == probe->group_id;
    if (!reader->crowds || sqlite3_column_int64(statement, 3) == 0)
        return 1;
    reader->crowded = 1;
    return 0;
}

static int walk_bucket(join_reader *reader, const nd_filed *probe, nd_bucket_join *join)
{
    ND_TRY(walk_to(reader, probe));
    reader->crowded = 0;
    while (!reader->walked && row_against(reader, probe) == 0) {
        if (is_wanted(reader, probe))
            ND_TRY(take_row(reader, reader->statements[JOIN_WALK], 2, join));
        ND_TRY(walk_on(reader));
    }
    return ND_OK;
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
    const int codes = nd_scheme_has_buckets(&reader->settings->scheme);
    reader->walking = reader->mode != ND_BUCKETS_CONNECT || (reader->crowds_joined && !codes);
    if (!reader->walking && !codes) /* of codes buckets are read twice */
        ND_TRY(nd_join_prefers_walk(reader, (int64_t)nd_bucket_join_count(reader->join), &reader->walking));
    reader->walked = reader->placed = 0;
    const int status = nd_bucket_join_run(reader->join);
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
    int status = ND_OK, code = bind_probe(statement, probe, probe->high);
    while (code == SQLITE_OK && status == ND_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = SQLITE_OK;
        status = take_row(reader, statement, 0, join);
    }
    return nd_join_end(reader, statement, code, status);
}

static int next_crowd(void *context, const nd_filed *probe, int64_t *crowd)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_LABEL];
    if (reader->walking && !reader->crowded)
        return ND_DONE;
    int status = ND_DONE, code = bind_probe(statement, probe, *crowd);
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
    int status = ND_OK, code = bind_probe(statement, probe, crowd);
    while (code == SQLITE_OK && status == ND_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
        status = nd_join_taken(reader, nd_bucket_join_take_member(join, id), id);
    }
    return nd_join_end(reader, statement, code, status);
}

/* ---- open and close ---------------------------------------------------------------------------------------------------------- */

int nd_join_open(join_reader *reader, nd_table *table, const join_question *question)
{
    memset(reader, 0, sizeof *reader);
    reader->table = table;
    reader->settings = &table->cache.settings;
    reader->mode = (nd_bucket_mode)question->mode;
    reader->crowds_joined = question->crowds_joined;
    reader->now = question->now;
    reader->workspace = nd_workspace_new(table->cache.db);
    if (reader->workspace == NULL)
        return ND_ERROR_MEMORY;
    ND_TRY(prepare_all(reader));
    const nd_bucket_reader rows = {.context = reader,
        .read_bucket = read_bucket,
        .next_crowd = reader->crowds ? next_crowd : NULL,
        .read_crowd = read_crowd,
        .read_value = read_value,
        .is_visible = reader->expiring ? is_visible : NULL,
        .is_stopped = is_stopped};
    int bounded = reader->mode != ND_BUCKETS_CONNECT && question->first_id != question->last_id;
    reader->join = nd_bucket_join_new(&reader->settings->scheme, reader->mode, bounded ? ND_RESULTS_MAX : SIZE_MAX, &rows);
    return reader->join == NULL ? ND_ERROR_MEMORY : ND_OK;
}

void nd_join_close(join_reader *reader)
{
    for (int i = 0; i < JOIN_STATEMENTS; i++)
        sqlite3_finalize(reader->statements[i]);
    nd_workspace_release(reader->workspace);
    nd_bucket_join_free(reader->join);
}
