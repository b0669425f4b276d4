/* sqlite_search.c: neardup_search(index, text [, threshold [, max_results [, measure [, group]]]]) -> key, similarity, distance,
 * document_id.
 *
 * The near-duplicates of a text among the documents of a group (NULL or not given: those without one), best first, ties in the
 * order of insertion. threshold and max_results NULL or not given: the threshold of the index, no limit. measure 'containment':
 * documents that hold the text, at least this share of its shingles (0.8 where no threshold is given), and similarity is that
 * share. For an index of codes (BinaryCode) the text is the code in hexadecimal, or the code itself as a blob. A text without
 * shingles has no rows, and so have NULL and a group that nothing was added to.
 *
 * The stored value of the text is computed here; the query is the text that Python runs (neardup_db/sql). All rows are collected
 * before the first is given out, so no statement of ours is open while the caller works; the query is kept, reset, for the next
 * call. DIRECTONLY: it reads the database. */
#include "sqlite_search.h"

#include <string.h>
#include <time.h>

#include "sql_texts.h"

static nd_table_spec search_spec = {
    .name = "neardup_search",
    .declaration = "CREATE TABLE x(\"key\", similarity REAL, distance INTEGER, document_id INTEGER, "
                   "index_name HIDDEN, text HIDDEN, threshold HIDDEN, max_results HIDDEN, measure HIDDEN, group_name HIDDEN)",
    .innocuous = 0,
    .outputs = 4,
    .required = 2,
    .inputs = ND_SEARCH_INPUTS,
    .rows = 10,
};

typedef struct search_row {
    sqlite3_value *key;
    double similarity;
    int64_t distance; /* -1 where the scheme has none */
    int64_t document_id;
} search_row;

typedef struct search_cursor {
    nd_cursor head;
    search_row *rows;
    size_t capacity;
} search_cursor;

/* ---- the query ---------------------------------------------------------------------------------------------------------- */

static const char *containment_name(const nd_scheme *scheme)
{
    if (scheme->kind == ND_SCHEME_BOTTOMK)
        return "verify_prefix_containment";
    return scheme->evidence == ND_EVIDENCE_HASHES ? "verify_scan_containment" : "verify_scan_text_containment";
}

/* Which verify_*.sql answers; scan is whether looking at all fingerprints is cheaper than probing. */
static const char *verify_name(const nd_scheme *scheme, int scan)
{
    switch (scheme->plan) {
    case ND_PLAN_BANDS:
        if (scheme->evidence == ND_EVIDENCE_HASHES)
            return "verify_bands_hashes";
        return scheme->evidence == ND_EVIDENCE_TEXT ? "verify_bands_text" : "verify_bands";
    case ND_PLAN_PREFIX:
        return scheme->measure == ND_MEASURE_ESTIMATE ? "verify_prefix_estimate" : "verify_prefix";
    default:
        return scan ? "verify_scan" : "verify_buckets";
    }
}

static const char *find_text(const char *name)
{
    for (size_t i = 0; i < sizeof nd_sql_texts / sizeof nd_sql_texts[0]; i++)
        if (strcmp(name, nd_sql_texts[i].name) == 0)
            return nd_sql_texts[i].text;
    return "";
}

/* Appends a query text with {index} and {verified} replaced. */
static void expand(sqlite3_str *sql, const char *text, const char *index, const char *verified)
{
    while (*text != '\0') {
        const char *brace = strchr(text, '{');
        if (brace == NULL)
            brace = text + strlen(text);
        sqlite3_str_append(sql, text, (int)(brace - text));
        text = brace;
        if (strncmp(text, "{index}", 7) == 0) {
            sqlite3_str_appendall(sql, index);
            text += 7;
        } else if (strncmp(text, "{verified}", 10) == 0 && verified != NULL) {
            expand(sql, verified, index, NULL);
            text += 10;
        } else if (strncmp(text, "{crowd}", 7) == 0) { /* a query looks at all rows of a bucket */
            text += 7;
        } else if (*text != '\0') {
            sqlite3_str_append(sql, text++, 1);
        }
    }
}

static int database_fail(nd_table *table)
{
    return nd_table_fail(&table->base, "neardup_search: %s", sqlite3_errmsg(table->cache.db));
}

/* Prepares a text of neardup_db/sql, or one like them. */
static int prepare(nd_table *table, const char *text, const char *verified, sqlite3_stmt **out)
{
    sqlite3_str *sql = sqlite3_str_new(table->cache.db);
    expand(sql, text, table->cache.settings.index, verified);
    char *expanded = sqlite3_str_finish(sql);
    if (expanded == NULL)
        return SQLITE_NOMEM;
    int code = sqlite3_prepare_v3(table->cache.db, expanded, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    sqlite3_free(expanded);
    if (code != SQLITE_OK)
        database_fail(table);
    return code;
}

/* The first number that a statement gives, whose parameter, if it has one, is `value`; *found is 0 where there is no row. */
static int ask_number(nd_table *table, const char *text, sqlite3_value *value, int64_t *number, int *found)
{
    sqlite3_stmt *statement = NULL;
    int code = prepare(table, text, NULL, &statement);
    if (code != SQLITE_OK)
        return code;
    if (value != NULL)
        code = sqlite3_bind_value(statement, 1, value);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *found = code == SQLITE_ROW;
    *number = *found ? sqlite3_column_int64(statement, 0) : 0;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        code = SQLITE_OK;
    else
        database_fail(table);
    sqlite3_finalize(statement);
    return code;
}

/* The number of the group; *found is 0 where nothing was added to it. */
static int set_group(search_cursor *cursor, nd_question *q, int *found)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    *found = 1;
    if (nd_input_is_null(&cursor->head, ND_SEARCH_GROUP))
        return SQLITE_OK;
    sqlite3_value *group = cursor->head.inputs[ND_SEARCH_GROUP];
    if (sqlite3_value_type(group) == SQLITE_FLOAT)
        return nd_table_fail(&table->base, "neardup_search: a group is text, a blob or an integer, not %s", nd_type_name(group));
    return ask_number(table, "SELECT id FROM {index}_group WHERE name = ?", group, &q->group_id, found);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * 1000 + (int64_t)now.tv_nsec / 1000000;
}

/* Binds those parameters that the query has. */
static int bind_question(sqlite3_stmt *statement, const nd_question *q)
{
    const nd_scheme *scheme = &q->settings->scheme;
    int code = SQLITE_OK;
    for (int i = 1; i <= sqlite3_bind_parameter_count(statement) && code == SQLITE_OK; i++) {
        const char *name = sqlite3_bind_parameter_name(statement, i);
        if (strcmp(name, ":fingerprint") == 0)
            code = sqlite3_bind_blob64(statement, i, q->fingerprint, q->fingerprint_size, SQLITE_STATIC);
        else if (strcmp(name, ":evidence") == 0)
            code = sqlite3_bind_blob64(statement, i, q->evidence, q->evidence_count * sizeof(uint64_t), SQLITE_STATIC);
        else if (strcmp(name, ":threshold") == 0)
            code = sqlite3_bind_double(statement, i, q->threshold);
        else if (strcmp(name, ":max_distance") == 0)
            code = sqlite3_bind_int(statement, i, scheme->max_distance);
        else if (strcmp(name, ":now") == 0)
            code = sqlite3_bind_int64(statement, i, now_ms());
        else if (strcmp(name, ":limit") == 0)
            code = sqlite3_bind_int64(statement, i, q->limit);
        else if (strcmp(name, ":slope") == 0)
            code = sqlite3_bind_double(statement, i, q->slope);
        else if (strcmp(name, ":bits") == 0)
            code = sqlite3_bind_int(statement, i, scheme->bits);
        else if (strcmp(name, ":slot_bits") == 0)
            code = sqlite3_bind_int(statement, i, scheme->slot_bits);
        else if (strcmp(name, ":k") == 0)
            code = sqlite3_bind_int(statement, i, scheme->k);
        else if (strcmp(name, ":group_id") == 0)
            code = sqlite3_bind_int64(statement, i, q->group_id);
        else if (strcmp(name, ":after_id") == 0 || strcmp(name, ":except_id") == 0)
            code = sqlite3_bind_int(statement, i, 0);
        else
            code = SQLITE_INTERNAL;
    }
    return code;
}

/* ---- the rows ------------------------------------------------------------------------------------------------------------- */

static void drop_rows(search_cursor *cursor)
{
    for (size_t i = 0; i < cursor->head.count; i++)
        sqlite3_value_free(cursor->rows[i].key);
    cursor->head.count = 0;
}

/* Columns 0 to 3 of matches.sql: key, similarity, distance, document's id. */
static int add_row(search_cursor *cursor, sqlite3_stmt *statement)
{
    if (cursor->head.count == cursor->capacity) {
        size_t capacity = 2 * cursor->capacity + 16;
        search_row *grown = sqlite3_realloc64(cursor->rows, capacity * sizeof *grown);
        if (grown == NULL)
            return SQLITE_NOMEM;
        cursor->rows = grown;
        cursor->capacity = capacity;
    }
    search_row *row = &cursor->rows[cursor->head.count];
    row->key = sqlite3_value_dup(sqlite3_column_value(statement, 0));
    if (row->key == NULL)
        return SQLITE_NOMEM;
    row->similarity = sqlite3_column_double(statement, 1);
    row->distance = sqlite3_column_type(statement, 2) == SQLITE_NULL ? -1 : sqlite3_column_int64(statement, 2);
    row->document_id = sqlite3_column_int64(statement, 3);
    cursor->head.count++;
    return SQLITE_OK;
}

/* Which verify_*.sql answers this question. An index that is large enough to be probed stays so, for ids are never used twice: it
 * is counted until then. */
static int choose_query(nd_table *table, const nd_question *q, const char **name)
{
    const nd_scheme *scheme = &q->settings->scheme;
    int64_t fingerprints = 0;
    int found, code = SQLITE_OK;
    if (q->containment) {
        *name = containment_name(scheme);
        return SQLITE_OK;
    }
    *name = verify_name(scheme, 0);
    if (!nd_is_hamming(scheme) || scheme->plan == ND_PLAN_SCAN ||
        (table->cache.query != NULL && strcmp(table->cache.query_name, *name) == 0))
        return SQLITE_OK;
    code = ask_number(table, "SELECT max(id) FROM {index}_fingerprint", NULL, &fingerprints, &found);
    *name = verify_name(scheme, nd_scheme_prefers_scan(scheme, fingerprints));
    return code;
}

/* The query that was kept if it is this one, or a new one; the caller has it to itself. */
static int take_query(nd_table *table, const char *name, sqlite3_stmt **out)
{
    nd_settings_cache *cache = &table->cache;
    *out = cache->query;
    cache->query = NULL;
    if (*out != NULL && strcmp(cache->query_name, name) == 0)
        return SQLITE_OK;
    sqlite3_finalize(*out);
    *out = NULL;
    cache->query_name = name;
    return prepare(table, find_text("matches"), find_text(name), out);
}

static int run_query(search_cursor *cursor, const nd_question *q)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    sqlite3_stmt *statement = NULL;
    const char *name;
    int code = choose_query(table, q, &name);
    if (code == SQLITE_OK)
        code = take_query(table, name, &statement);
    if (code != SQLITE_OK)
        return code;
    code = bind_question(statement, q);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        code = add_row(cursor, statement);
    if (code != SQLITE_DONE) {
        database_fail(table);
        sqlite3_finalize(statement);
        return code;
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement); /* the question's bytes are gone soon */
    table->cache.query = statement;
    return SQLITE_OK;
}

static int answer(search_cursor *cursor)
{
    nd_question q;
    int found = 0;
    int code = nd_question_read(&cursor->head, &q);
    if (code == SQLITE_OK)
        code = set_group(cursor, &q, &found);
    return code == SQLITE_OK && found && q.fingerprint_size > 0 ? run_query(cursor, &q) : code;
}

/* ---- the table-valued function ----------------------------------------------------------------------------------------- */

static int search_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    nd_table *table = (nd_table *)base;
    table->cache.with_rules = 1;
    if (table->workspace == NULL)
        table->workspace = nd_workspace_new(table->cache.db);
    if (table->workspace == NULL)
        return SQLITE_NOMEM;
    return nd_cursor_open(sizeof(search_cursor), out);
}

static int search_close(sqlite3_vtab_cursor *base)
{
    search_cursor *cursor = (search_cursor *)base;
    drop_rows(cursor);
    sqlite3_free(cursor->rows);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

static int search_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    search_cursor *cursor = (search_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    char *message = NULL;
    drop_rows(cursor);
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code != SQLITE_OK)
        return code;
    code = nd_cache_open(&table->cache, cursor->head.inputs[ND_SEARCH_INDEX], &message);
    if (code == SQLITE_OK)
        code = answer(cursor);
    else
        nd_table_fail_message(&table->base, code, message);
    nd_cache_release(&table->cache);
    return code;
}

static int search_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    search_cursor *cursor = (search_cursor *)base;
    const search_row *row = &cursor->rows[cursor->head.row];
    if (column == 0)
        sqlite3_result_value(context, row->key);
    else if (column == 1)
        sqlite3_result_double(context, row->similarity);
    else if (column == 3)
        sqlite3_result_int64(context, row->document_id);
    else if (column > 3)
        return nd_cursor_input(&cursor->head, context, column);
    else if (row->distance >= 0)
        sqlite3_result_int64(context, row->distance);
    return SQLITE_OK;
}

static const sqlite3_module search_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = search_open,
    .xClose = search_close,
    .xFilter = search_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = search_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_search(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, search_spec.name, &search_module, &search_spec, NULL);
}
