/* vtab_search.c: neardup_search(index, text [, threshold [, max_results [, measure [, group]]]]) -> key, similarity, distance,
 * document_id, and part, which * does not show.
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
#include "sqlite/search.h"

#include <string.h>

#include "sql_texts.h"

enum { PART = 4 }; /* the column of matches_parts.sql */

typedef struct search_row {
    sqlite3_value *key;
    double similarity;
    int64_t distance; /* -1 where the scheme has none */
    int64_t document_id;
    sqlite3_value *part; /* NULL where documents have one code each */
} search_row;

typedef struct search_cursor {
    nd_cursor head;
    search_row *rows;
    size_t row_count, capacity;
} search_cursor;

/* The text of neardup_db/sql that is called so. */
static const char *find_text(const char *prefix, const char *name)
{
    const size_t prefix_size = strlen(prefix), size = strlen(name);
    for (size_t i = 0; i < sizeof nd_sql_texts / sizeof nd_sql_texts[0]; i++) {
        const char *const other = nd_sql_texts[i].name;
        if (strlen(other) == prefix_size + size && memcmp(prefix, other, prefix_size) == 0 &&
            memcmp(name, other + prefix_size, size) == 0)
            return nd_sql_texts[i].text;
    }
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
        } else if (strncmp(text, "{crowd}", 7) == 0 || strncmp(text, "{limit}", 7) == 0) {
            text += 7; /* a query looks at all rows of a bucket, and run_query counts what it takes */
        } else if (*text != '\0') {
            sqlite3_str_append(sql, text++, 1);
        }
    }
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
    return code == SQLITE_OK ? code : nd_table_fail_database(table, code);
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
        nd_table_fail_database(table, code);
    sqlite3_finalize(statement);
    return code;
}

/* The number of the group; *found is 0 where nothing was added to it. */
static int set_group(search_cursor *cursor, nd_question *q, int *found)
{
    nd_table *table = nd_table_of(&cursor->head);
    *found = 1;
    if (nd_input_is_null(&cursor->head, ND_SEARCH_GROUP))
        return SQLITE_OK;
    sqlite3_value *group = cursor->head.inputs[ND_SEARCH_GROUP];
    if (sqlite3_value_type(group) == SQLITE_FLOAT)
        return nd_table_fail(table, "a group is text, a blob or an integer, not %s", nd_type_name(group));
    return ask_number(table, "SELECT id FROM {index}_group WHERE name = ?", group, &q->group_id, found);
}

/* By SQLite's own clock: C11's is missing from older systems of macOS and Windows. */
static int64_t now_ms(void)
{
    const sqlite3_int64 julian_1970 = 210866760000000;
    sqlite3_vfs *const vfs = sqlite3_vfs_find(NULL);
    sqlite3_int64 julian = 0;
    if (vfs->iVersion >= 2 && vfs->xCurrentTimeInt64 != NULL) {
        (void)vfs->xCurrentTimeInt64(vfs, &julian);
    } else {
        double days = 0;
        (void)vfs->xCurrentTime(vfs, &days);
        julian = (sqlite3_int64)(days * 86400000.0);
    }
    return julian - julian_1970;
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
        else if (strcmp(name, ":threshold") == 0)
            code = sqlite3_bind_double(statement, i, q->threshold);
        else if (strcmp(name, ":max_distance") == 0)
            code = sqlite3_bind_int(statement, i, scheme->max_distance);
        else if (strcmp(name, ":now") == 0)
            code = sqlite3_bind_int64(statement, i, now_ms());
        else if (strcmp(name, ":slope") == 0)
            code = sqlite3_bind_double(statement, i, q->slope);
        else if (strcmp(name, ":bits") == 0)
            code = sqlite3_bind_int(statement, i, scheme->bits);
        else if (strcmp(name, ":slot_bits") == 0)
            code = sqlite3_bind_int(statement, i, scheme->slot_bits);
        else if (strcmp(name, ":k") == 0)
            code = sqlite3_bind_int(statement, i, scheme->k);
        else if (strcmp(name, ":shortest") == 0)
            code = sqlite3_bind_int(statement, i, scheme->shortest);
        else if (strcmp(name, ":group_id") == 0)
            code = sqlite3_bind_int64(statement, i, q->group_id);
        else if (strcmp(name, ":outlined") == 0 || strcmp(name, ":settled") == 0)
            code = sqlite3_bind_null(statement, i); /* no outlines: on this connection anybody may call neardup_met */
        else if (strcmp(name, ":except_id") == 0)
            code = sqlite3_bind_int(statement, i, 0);
        else
            code = SQLITE_INTERNAL;
    }
    return code;
}

static void drop_rows(search_cursor *cursor)
{
    for (size_t i = 0; i < cursor->row_count; i++) {
        sqlite3_value_free(cursor->rows[i].key);
        sqlite3_value_free(cursor->rows[i].part);
    }
    cursor->row_count = 0;
}

/* The columns of matches.sql: key, similarity, distance, document's id; of matches_parts.sql also the part. */
static int add_row(search_cursor *cursor, sqlite3_stmt *statement)
{
    ND_TRY(nd_buffer_reserve((void **)&cursor->rows, &cursor->capacity, cursor->row_count + 1, sizeof *cursor->rows));
    search_row *row = &cursor->rows[cursor->row_count];
    const int has_part = sqlite3_column_count(statement) > PART;
    row->key = sqlite3_value_dup(sqlite3_column_value(statement, 0));
    row->part = has_part ? sqlite3_value_dup(sqlite3_column_value(statement, PART)) : NULL;
    if (row->key == NULL || (has_part && row->part == NULL)) {
        sqlite3_value_free(row->key);
        sqlite3_value_free(row->part);
        return SQLITE_NOMEM;
    }
    row->similarity = sqlite3_column_double(statement, 1);
    row->distance = sqlite3_column_type(statement, 2) == SQLITE_NULL ? -1 : sqlite3_column_int64(statement, 2);
    row->document_id = sqlite3_column_int64(statement, 3);
    cursor->row_count++;
    return SQLITE_OK;
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
    const char *frame = cache->settings.has_parts ? "matches_parts" : "matches";
    return prepare(table, find_text("", frame), find_text("verify_", name), out);
}

static int run_query(search_cursor *cursor, const nd_question *q)
{
    nd_table *table = nd_table_of(&cursor->head);
    sqlite3_stmt *statement = NULL;
    ND_TRY(take_query(table, nd_scheme_query(&q->settings->scheme, q->containment), &statement));
    int code = bind_question(statement, q);
    int enough = q->limit == 0;
    while (code == SQLITE_OK && !enough && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = add_row(cursor, statement);
        enough = q->limit > 0 && cursor->row_count >= (uint64_t)q->limit;
    }
    if (code != SQLITE_DONE && !(code == SQLITE_OK && enough)) {
        nd_table_fail_database(table, code);
        sqlite3_finalize(statement);
        return code;
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement); /* the question's bytes are gone soon */
    table->cache.query = statement;
    return SQLITE_OK;
}

/* Whether the text is like one of {index}_allowed, so that it matches nothing. */
static int find_allowed(nd_table *table, const nd_question *q, int *like)
{
    const nd_scheme *scheme = &q->settings->scheme;
    sqlite3_stmt *statement = NULL;
    *like = 0;
    int code = prepare(table, "SELECT value FROM {index}_allowed", NULL, &statement);
    if (code != SQLITE_OK)
        return code;
    while (!*like && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const uint8_t *other = sqlite3_column_blob(statement, 0);
        const uint64_t end = (uint64_t)sqlite3_column_bytes(statement, 0);
        int status = other == NULL ? ND_ERROR_DAMAGED
                                   : nd_scheme_is_like(scheme, q->fingerprint, q->fingerprint_size, other, &end, 1, like);
        if (status != ND_OK) {
            sqlite3_finalize(statement);
            return nd_table_fail(table, "index \"%s\" is damaged: an allowed text has no fingerprint of the scheme",
                q->settings->index);
        }
    }
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        code = SQLITE_OK;
    else
        nd_table_fail_database(table, code);
    sqlite3_finalize(statement);
    return code;
}

static void search_close(nd_cursor *base)
{
    search_cursor *cursor = (search_cursor *)base;
    drop_rows(cursor);
    sqlite3_free(cursor->rows);
}

static int search_fill(nd_cursor *base)
{
    search_cursor *cursor = (search_cursor *)base;
    nd_question q;
    int found = 0;
    drop_rows(cursor);
    ND_TRY(nd_question_read(base, &q));
    ND_TRY(set_group(cursor, &q, &found));
    int allowed = 0;
    if (found && q.fingerprint_size > 0 && q.settings->allows)
        ND_TRY(find_allowed(nd_table_of(base), &q, &allowed));
    if (found && q.fingerprint_size > 0 && !allowed)
        ND_TRY(run_query(cursor, &q));
    base->count = cursor->row_count;
    return SQLITE_OK;
}

static void search_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const search_row *row = &((const search_cursor *)base)->rows[base->row];
    if (column == 0)
        sqlite3_result_value(context, row->key);
    else if (column == 1)
        sqlite3_result_double(context, row->similarity);
    else if (column == 2 && row->distance >= 0)
        sqlite3_result_int64(context, row->distance);
    else if (column == 3)
        sqlite3_result_int64(context, row->document_id);
    else if (column > 3 && row->part != NULL)
        sqlite3_result_value(context, row->part);
}

const nd_table_spec nd_search_function = {
    .name = "neardup_search",
    .declaration = "CREATE TABLE x(\"key\", similarity REAL, distance INTEGER, document_id INTEGER, "
                   "index_name HIDDEN, text HIDDEN, threshold HIDDEN, max_results HIDDEN, measure HIDDEN, group_name HIDDEN, "
                   "part HIDDEN)",
    .columns = {4, 2, ND_SEARCH_INPUTS, 10},
    .reads = ND_READS_INDEX,
    .with_rules = 1,
    .cursor = {sizeof(search_cursor), search_close, search_fill, NULL, search_column},
};
