/* join_read.c: the statements of neardup_join, the fingerprints that it gives to the join of the core (neardup_join.h), page by page,
 * and the rows that this asks for.
 *
 * Functions here return a status of the core or, where SQLite fails, its code with a minus; the table then has a message. */
#include "sqlite/join.h"

#include <stdlib.h>
#include <string.h>

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
    const nd_join_question *question;
    nd_bucket_join *join;
    nd_bucket_mode mode;
    sqlite3_stmt *statements[JOIN_STATEMENTS];
    int codes;       /* the rows hold entries */
    int crowds;      /* rows of crowds are left to next_crowd */
    int expiring;    /* some documents may have expired */
    int64_t last_id; /* the highest id of a fingerprint */
    size_t asked_at; /* how much of `asked` was taken */
    int walking;     /* the table is read in its order, beside the probes: row_key is where that stands */
    int walked;      /* to the end */
    int placed;      /* at a row, or at the end */
    int crowded;     /* the bucket that was walked has rows of crowds */
    int seeking;     /* only the rows under the keys of the page are read */
    int64_t row_key;
    int64_t probe_low; /* of the last probe */
} join_reader;

/* ---- errors ---------------------------------------------------------------------------------------------------------------- */

/* Notes an error of SQLite. */
static int stop(join_reader *reader, int code)
{
    return -nd_table_fail_database(reader->table, code);
}

/* Resets a statement whose last step gave `code`: `status`, unless that is an error. */
static int end(join_reader *reader, sqlite3_stmt *statement, int code, int status)
{
    code = nd_table_end(reader->table, statement, code);
    return code == SQLITE_OK ? status : -code;
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

static int prepare(join_reader *reader, enum join_statement which, const char *text)
{
    return -nd_table_prepare(reader->table, text, &reader->statements[which]);
}

/* What tells how to read: whether documents expire, whether there are crowds, the highest id. */
static const char index_sql[] =
    "SELECT EXISTS (SELECT 1 FROM {index}_document WHERE expires_at IS NOT NULL), "
    "(SELECT value FROM {index}_setting WHERE name = 'crowds'), (SELECT max(id) FROM {index}_fingerprint)";

static int prepare_all(join_reader *reader)
{
    const int plan = reader->settings->scheme.plan;
    const char *const *sql = plan_sql[plan];
    sqlite3_stmt *index;
    reader->codes = nd_scheme_has_buckets(&reader->settings->scheme);
    ND_TRY(-nd_table_prepare(reader->table, index_sql, &index));
    int code = SQLITE_OK;
    if (nd_has_row(index, &code)) {
        reader->expiring = sqlite3_column_int(index, 0);
        reader->crowds = sqlite3_column_int64(index, 1) != 0 && !reader->codes && reader->mode == ND_BUCKETS_CONNECT &&
                         !reader->question->crowds_joined;
        reader->last_id = sqlite3_column_int64(index, 2);
    }
    const int status = end(reader, index, code, ND_OK);
    sqlite3_finalize(index);
    ND_TRY(status);
    reader->seeking = !reader->codes && reader->mode == ND_BUCKETS_FOREIGN;
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

/* The row stays where it is, and the value with it, until the next call. */
static int read_value(void *context, int64_t id, const uint8_t **bytes, size_t *size)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_VALUE];
    sqlite3_reset(statement);
    *size = 0;
    int code = sqlite3_bind_int64(statement, 1, id);
    if (!nd_has_row(statement, &code))
        return end(reader, statement, code, ND_OK);
    *bytes = sqlite3_column_blob(statement, 0);
    *size = (size_t)sqlite3_column_bytes(statement, 0);
    return nd_column_is_intact(statement, 0) ? ND_OK : ND_ERROR_DAMAGED;
}

static int is_visible(void *context, int64_t id, int *visible)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_VISIBLE];
    int code = nd_bind_two(statement, id, reader->question->now);
    *visible = nd_has_row(statement, &code);
    return end(reader, statement, code, ND_OK);
}

static int is_stopped(void *context)
{
    return nd_is_interrupted(((join_reader *)context)->table->cache.db);
}

/* ---- the table in its order, beside the probes in the same order ------------------------------------------------------------- */

/* Hands over the id, or the entries, in a column of the row. */
static int take_row(join_reader *reader, sqlite3_stmt *statement, int column, nd_bucket_join *join)
{
    nd_entries entries;
    if (!reader->codes)
        return nd_bucket_join_take_id(join, sqlite3_column_int64(statement, column));
    ND_TRY(-nd_column_entries(reader->table, statement, column, (size_t)reader->settings->scheme.bits / 8, &entries));
    return nd_bucket_join_take_entries(join, &entries);
}

static int walk_on(join_reader *reader)
{
    int code = sqlite3_step(reader->statements[JOIN_WALK]);
    if (code == SQLITE_ROW) { /* the rest of the row is read where its key is one that is asked for */
        reader->row_key = sqlite3_column_int64(reader->statements[JOIN_WALK], 1);
        return ND_OK;
    }
    reader->walked = 1;
    return code == SQLITE_DONE ? ND_OK : stop(reader, code);
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
    return code == SQLITE_OK ? walk_on(reader) : stop(reader, code);
}

/* Where the row stands: before the place of the probe, which is key and group or, of codes, keys from low to high, at it, or
 * behind it. */
static int row_against(const join_reader *reader, const nd_filed *probe)
{
    if (reader->row_key < probe->low || reader->row_key > probe->high)
        return reader->row_key < probe->low ? -1 : 1;
    if (reader->codes)
        return 0;
    int64_t group_id = sqlite3_column_int64(reader->statements[JOIN_WALK], 0);
    return (group_id > probe->group_id) - (group_id < probe->group_id);
}

/* A few rows are passed over sooner than the place is looked up. Of codes two groups may have one place. */
static int walk_to(join_reader *reader, const nd_filed *probe)
{
    const int again = reader->codes && probe->low == reader->probe_low;
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
    if (reader->codes)
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

/* Whether reading the candidate table from end to end is quicker than looking up each probe of `count` fingerprints. */
static int prefers_walk(join_reader *reader, int64_t count, int *walk)
{
    *walk = 0;
    if (reader->statements[JOIN_WALK] == NULL || count <= 0)
        return ND_OK;
    const uint8_t *value;
    size_t size;
    const int status = read_value(reader, reader->last_id, &value, &size);
    if (status != ND_OK || size == 0) /* one that is damaged tells nothing */
        return status == ND_ERROR_DAMAGED ? ND_OK : status;
    return nd_bucket_prefers_walk(&reader->settings->scheme, value, size, reader->last_id, count, walk);
}

/* Runs the page that the join has. */
static int run_page(join_reader *reader)
{
    reader->walking = reader->mode != ND_BUCKETS_CONNECT || (reader->question->crowds_joined && !reader->codes);
    if (!reader->walking && !reader->codes) /* of codes buckets are read twice */
        ND_TRY(prefers_walk(reader, (int64_t)nd_bucket_join_count(reader->join), &reader->walking));
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
    while (status == ND_OK && nd_has_row(statement, &code))
        status = take_row(reader, statement, 0, join);
    return end(reader, statement, code, status);
}

static int next_crowd(void *context, const nd_filed *probe, int64_t *crowd)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_LABEL];
    if (reader->walking && !reader->crowded)
        return ND_DONE;
    int status = ND_DONE, code = bind_probe(statement, probe, *crowd);
    if (nd_has_row(statement, &code) && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        *crowd = sqlite3_column_int64(statement, 0);
        status = ND_OK;
    }
    return end(reader, statement, code, status);
}

static int read_crowd(void *context, const nd_filed *probe, int64_t crowd, nd_bucket_join *join)
{
    join_reader *reader = context;
    sqlite3_stmt *statement = reader->statements[JOIN_CROWD];
    int status = ND_OK, code = bind_probe(statement, probe, crowd);
    while (status == ND_OK && nd_has_row(statement, &code))
        status = nd_bucket_join_take_member(join, sqlite3_column_int64(statement, 0));
    return end(reader, statement, code, status);
}

/* ---- pages ------------------------------------------------------------------------------------------------------------------ */

/* Fills the page with the fingerprints from first_id to last_id, as many as fit; *next_id is where to go on. */
static int read_values(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_PAGE];
    int status = ND_OK, code = nd_bind_two(statement, first_id, last_id);
    *next_id = last_id + 1;
    nd_bucket_join_begin(reader->join);
    while (status == ND_OK && *next_id > last_id && nd_has_row(statement, &code)) {
        const int64_t id = sqlite3_column_int64(statement, 0);
        status = nd_column_is_intact(statement, 2)
                     ? nd_bucket_join_add(reader->join, id, sqlite3_column_int64(statement, 1), sqlite3_column_blob(statement, 2),
                           (size_t)sqlite3_column_bytes(statement, 2))
                     : -nd_fail_fingerprint(reader->table, id);
        if (nd_bucket_join_is_full(reader->join))
            *next_id = id + 1;
    }
    return end(reader, statement, code, status);
}

/* The next fingerprint of another index, which must be one from first_id to last_id. */
static int take_asked(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *id)
{
    int64_t head[3]; /* id, group_id, size of the value */
    const uint8_t *bytes = reader->question->asked + reader->asked_at;
    size_t rest = reader->question->asked_size - reader->asked_at;
    memcpy(head, bytes, rest < sizeof head ? 0 : sizeof head);
    rest = rest < sizeof head ? 0 : rest - sizeof head;
    if (rest == 0 || head[0] < first_id || head[0] > last_id || head[2] < 1 || (uint64_t)head[2] > rest)
        return -nd_table_fail(reader->table,
            "asked must hold fingerprints with ids that ascend from %lld to %lld: id, group, size of the value, value", first_id,
            last_id);
    *id = head[0];
    reader->asked_at += sizeof head + (size_t)head[2];
    return nd_bucket_join_add(reader->join, head[0], head[1], bytes + sizeof head, (size_t)head[2]);
}

static int read_asked(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    *next_id = first_id;
    nd_bucket_join_begin(reader->join);
    while (reader->asked_at < reader->question->asked_size && !nd_bucket_join_is_full(reader->join)) {
        int64_t id = 0;
        ND_TRY(take_asked(reader, *next_id, last_id, &id));
        *next_id = id + 1;
    }
    if (reader->asked_at == reader->question->asked_size)
        *next_id = last_id + 1;
    return ND_OK;
}

/* The table is read from end to end, and joined as it is read. */
static int read_rows(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_ROWS];
    int code = SQLITE_OK, status = nd_bucket_join_begin_rows(reader->join, first_id, last_id);
    while (status == ND_OK && nd_has_row(statement, &code))
        status = nd_bucket_join_add_row(reader->join, sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1),
            sqlite3_column_int64(statement, 2), reader->crowds && sqlite3_column_int64(statement, 3) != 0);
    status = end(reader, statement, code, status);
    return status == ND_OK ? nd_bucket_join_end_rows(reader->join, next_id) : status;
}

static int read_page(join_reader *reader, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    int by_rows = 0;
    if (reader->mode == ND_BUCKETS_FOREIGN)
        return read_asked(reader, first_id, last_id, next_id);
    const int64_t end_id = last_id < reader->last_id ? last_id : reader->last_id;
    if (reader->statements[JOIN_ROWS] != NULL && first_id <= end_id)
        ND_TRY(prefers_walk(reader, end_id - first_id + 1, &by_rows));
    return by_rows ? read_rows(reader, first_id, end_id, next_id) : read_values(reader, first_id, last_id, next_id);
}

/* ---- all ---------------------------------------------------------------------------------------------------------------------- */

static int find(join_reader *reader)
{
    const nd_join_question *question = reader->question;
    ND_TRY(prepare_all(reader));
    const nd_bucket_reader rows = {.context = reader,
        .read_bucket = read_bucket,
        .next_crowd = reader->crowds ? next_crowd : NULL,
        .read_crowd = read_crowd,
        .read_value = read_value,
        .is_visible = reader->expiring ? is_visible : NULL,
        .is_stopped = is_stopped};
    const int bounded = reader->mode != ND_BUCKETS_CONNECT && question->first_id != question->last_id;
    reader->join = nd_bucket_join_new(&reader->settings->scheme, reader->mode, bounded ? ND_RESULTS_MAX : SIZE_MAX, &rows);
    if (reader->join == NULL)
        return ND_ERROR_MEMORY;
    for (int64_t id = question->first_id; id <= question->last_id;) {
        ND_TRY(read_page(reader, id, question->last_id, &id));
        ND_TRY(run_page(reader));
    }
    return ND_OK;
}

/* SQLite's code for a status, with a message. */
static int code_of(const join_reader *reader, int status)
{
    if (status <= ND_OK)
        return -status;
    if (status == ND_ERROR_DAMAGED)
        return nd_fail_fingerprint(reader->table, nd_bucket_join_damaged(reader->join));
    if (status != ND_ERROR_CAPACITY)
        return nd_table_fail_status(reader->table, status);
    nd_table_fail(reader->table, "more than %lld pairs: ask for fewer fingerprints at once", (sqlite3_int64)ND_RESULTS_MAX);
    return SQLITE_TOOBIG;
}

int nd_join_find(nd_table *table, const nd_join_question *question, nd_bucket_pair **pairs, size_t *count)
{
    join_reader reader = {.table = table,
        .settings = &table->cache.settings,
        .question = question,
        .mode = (nd_bucket_mode)question->mode};
    const int code = code_of(&reader, find(&reader));
    if (code == SQLITE_OK)
        *pairs = nd_bucket_join_pairs(reader.join, count);
    for (int i = 0; i < JOIN_STATEMENTS; i++)
        sqlite3_finalize(reader.statements[i]);
    nd_bucket_join_free(reader.join);
    return code;
}
