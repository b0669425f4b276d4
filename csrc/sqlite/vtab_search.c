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

enum { PART = 4, COLUMNS }; /* of matches_parts.sql; matches.sql has no part: key, similarity, distance, document's id */

typedef struct search_cursor {
    nd_cursor head;
    sqlite3_value **values; /* COLUMNS of each row; NULL: no part */
    size_t value_count, capacity;
} search_cursor;

/* A query of neardup_db/sql: the frame, and what verifies in it. */
static const char *find_text(const char *frame, const char *verified)
{
    const size_t size = strlen(frame);
    for (size_t i = 0; i < sizeof nd_sql_texts / sizeof nd_sql_texts[0]; i++) {
        const char *const name = nd_sql_texts[i].name;
        if (strncmp(name, frame, size) == 0 && name[size] == '/' && strcmp(name + size + 1, verified) == 0)
            return nd_sql_texts[i].text;
    }
    return "";
}

/* The number of the group; *found is 0 where nothing was added to it. */
static int set_group(search_cursor *cursor, nd_question *q, int *found)
{
    nd_table *table = nd_table_of(&cursor->head);
    sqlite3_stmt *statement;
    *found = 1;
    if (nd_input_is_null(&cursor->head, ND_SEARCH_GROUP))
        return SQLITE_OK;
    sqlite3_value *group = cursor->head.inputs[ND_SEARCH_GROUP];
    if (sqlite3_value_type(group) == SQLITE_FLOAT)
        return nd_table_fail(table, "a group is text, a blob or an integer, not %s", nd_type_name(group));
    ND_TRY(nd_table_prepare(table, "SELECT id FROM {index}_group WHERE name = ?", &statement));
    int code = sqlite3_bind_value(statement, 1, group);
    *found = nd_has_row(statement, &code);
    q->group_id = *found ? sqlite3_column_int64(statement, 0) : 0;
    code = nd_table_end(table, statement, code);
    sqlite3_finalize(statement);
    return code;
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

/* Binds those parameters that the query has. Those of outlines stay NULL: on this connection anybody may call neardup_met. */
static int bind_question(sqlite3_stmt *statement, const nd_question *q)
{
    const nd_scheme *scheme = &q->settings->scheme;
    const struct {
        const char *name;
        double number;
    } numbers[] = {{":threshold", q->threshold}, {":slope", q->slope}};
    const struct {
        const char *name;
        int64_t number;
    } integers[] = {{":group_id", q->group_id}, {":now", now_ms()}, {":except_id", 0}, {":max_distance", scheme->max_distance},
        {":bits", scheme->bits}, {":slot_bits", scheme->slot_bits}, {":k", scheme->k}, {":shortest", scheme->shortest}};
    int at = sqlite3_bind_parameter_index(statement, ":fingerprint");
    ND_TRY(sqlite3_bind_blob64(statement, at, q->fingerprint, q->fingerprint_size, SQLITE_STATIC));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if ((at = sqlite3_bind_parameter_index(statement, numbers[i].name)) > 0)
            ND_TRY(sqlite3_bind_double(statement, at, numbers[i].number));
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        if ((at = sqlite3_bind_parameter_index(statement, integers[i].name)) > 0)
            ND_TRY(sqlite3_bind_int64(statement, at, integers[i].number));
    return SQLITE_OK;
}

static void drop_rows(search_cursor *cursor)
{
    while (cursor->value_count > 0)
        sqlite3_value_free(cursor->values[--cursor->value_count]);
}

static int add_row(search_cursor *cursor, sqlite3_stmt *statement)
{
    const int count = sqlite3_column_count(statement);
    ND_TRY(nd_buffer_reserve((void **)&cursor->values, &cursor->capacity, cursor->value_count + COLUMNS, sizeof *cursor->values));
    for (int i = 0; i < COLUMNS; i++) {
        sqlite3_value *value = i < count ? sqlite3_value_dup(sqlite3_column_value(statement, i)) : NULL;
        if (value == NULL && i < count)
            return SQLITE_NOMEM;
        cursor->values[cursor->value_count++] = value;
    }
    return SQLITE_OK;
}

/* The query that was kept if it is this one, or a new one; the caller has it to itself. */
static int take_query(nd_table *table, const char *name, sqlite3_stmt **out)
{
    nd_settings_cache *cache = &table->cache;
    *out = cache->kept[ND_QUERY];
    cache->kept[ND_QUERY] = NULL;
    if (*out != NULL && strcmp(cache->query_name, name) == 0)
        return SQLITE_OK;
    sqlite3_finalize(*out);
    cache->query_name = name;
    return nd_table_prepare(table, find_text(cache->settings.has_parts ? "matches_parts" : "matches", name), out);
}

static int run_query(search_cursor *cursor, const nd_question *q)
{
    nd_table *table = nd_table_of(&cursor->head);
    sqlite3_stmt *statement = NULL;
    ND_TRY(take_query(table, nd_scheme_query(&q->settings->scheme, q->containment), &statement));
    int code = bind_question(statement, q);
    while ((q->limit < 0 || cursor->value_count / COLUMNS < (uint64_t)q->limit) && nd_has_row(statement, &code))
        code = add_row(cursor, statement);
    code = nd_table_end(table, statement, code);
    sqlite3_clear_bindings(statement); /* the question's bytes are gone soon */
    if (code == SQLITE_OK)
        table->cache.kept[ND_QUERY] = statement;
    else
        sqlite3_finalize(statement);
    return code;
}

/* Whether the text is like one of {index}_allowed, so that it matches nothing. */
static int find_allowed(nd_table *table, const nd_question *q, int *like)
{
    sqlite3_stmt *statement;
    int code = SQLITE_OK;
    ND_TRY(nd_table_prepare(table, "SELECT value FROM {index}_allowed", &statement));
    while (!*like && nd_has_row(statement, &code)) {
        const uint8_t *other = sqlite3_column_blob(statement, 0);
        const uint64_t end = (uint64_t)sqlite3_column_bytes(statement, 0);
        const int status = other == NULL ? ND_ERROR_DAMAGED
                                         : nd_scheme_is_like(&q->settings->scheme, q->fingerprint, q->fingerprint_size, other,
                                               &end, 1, like);
        code = nd_table_fail_value(table, status, (size_t)end);
    }
    code = nd_table_end(table, statement, code);
    sqlite3_finalize(statement);
    return code;
}

static void search_close(nd_cursor *base)
{
    search_cursor *cursor = (search_cursor *)base;
    drop_rows(cursor);
    sqlite3_free(cursor->values);
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
    base->count = cursor->value_count / COLUMNS;
    return SQLITE_OK;
}

static void search_column(nd_cursor *base, sqlite3_context *context, int column)
{
    sqlite3_value *const *row = ((const search_cursor *)base)->values + COLUMNS * base->row;
    sqlite3_value *value = row[column < PART ? column : PART];
    if (value != NULL)
        sqlite3_result_value(context, value);
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
