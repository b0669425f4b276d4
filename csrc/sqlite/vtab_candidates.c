/* vtab_candidates.c: neardup_candidates(index, fingerprint, group_id [, crowd [, max_distance]]) -> fingerprint_id, distance: each
 * fingerprint of the group that stands in a bucket which a query for `fingerprint` looks up, once. crowd: rows of this crowd alone;
 * NULL or not given: all. Of an index of codes those within max_distance bits, and how many bits differ; else distance is NULL.
 *
 * A stream: a bucket is read when its row is asked for, so that a query which ends early leaves the rest. What was given out is
 * remembered here, where DISTINCT would make a table for each query. DIRECTONLY: it reads the index. */
#include "sqlite/neardup.h"

#include <string.h>

typedef struct candidates_cursor {
    nd_cursor head;
    int of_codes; /* the index; the table's settings may be another index's before the stream has ended */
    const uint8_t *code;
    size_t code_size;
    nd_keys *keys;      /* of a code: its buckets, each of which is looked at by a statement that ends at its last row */
    size_t key, passes; /* the one that is looked at, and how many there are; else all keys are looked up together */
    sqlite3_stmt *rows;
    int reading;    /* 1: the statement is on its way, 2: at the last row */
    int which;      /* of the table's statements for rows, */
    int64_t serial; /* and of the settings that it was made for */
    int64_t most;   /* max_distance */
    int64_t *seen;  /* a table of what was given out; 0 = a free place */
    size_t places, seen_count;
    nd_entries entries;
    uint32_t *near; /* places of the near ones among the entries */
    size_t near_room, near_count, next_near;
    int64_t id, distance;
} candidates_cursor;

/* ---- what was given out ------------------------------------------------------------------------------------------------ */

static size_t place_of(const int64_t *seen, size_t places, int64_t id)
{
    size_t at = (size_t)((uint64_t)id * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (places - 1);
    while (seen[at] != 0 && seen[at] != id)
        at = (at + 1) & (places - 1);
    return at;
}

/* A table of twice as many places. */
static int grow_seen(candidates_cursor *cursor)
{
    size_t places = cursor->places == 0 ? ND_FIRST_SEEN : 2 * cursor->places;
    int64_t *grown = sqlite3_malloc64(places * sizeof *grown);
    if (grown == NULL)
        return SQLITE_NOMEM;
    memset(grown, 0, places * sizeof *grown);
    for (size_t i = 0; i < cursor->places; i++)
        if (cursor->seen[i] != 0)
            grown[place_of(grown, places, cursor->seen[i])] = cursor->seen[i];
    sqlite3_free(cursor->seen);
    cursor->seen = grown;
    cursor->places = places;
    return SQLITE_OK;
}

/* Notes the cursor's id; *is_new is 0 where it was noted before. No fingerprint has the id 0. */
static int note_seen(candidates_cursor *cursor, int *is_new)
{
    if (2 * cursor->seen_count >= cursor->places && grow_seen(cursor) != SQLITE_OK)
        return SQLITE_NOMEM;
    size_t at = place_of(cursor->seen, cursor->places, cursor->id);
    *is_new = cursor->seen[at] == 0;
    cursor->seen_count += (size_t)*is_new;
    cursor->seen[at] = cursor->id;
    return SQLITE_OK;
}

static void forget_seen(candidates_cursor *cursor)
{
    if (cursor->seen_count > 0)
        memset(cursor->seen, 0, cursor->places * sizeof *cursor->seen);
    cursor->seen_count = 0;
}

/* ---- the rows of one key ------------------------------------------------------------------------------------------------- */

static const char codes_sql[] = "SELECT id, group_id, entries FROM {index}_code_bucket WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
#define ROWS_OF(table, column)                                                                                                   \
    "SELECT b.fingerprint_id FROM neardup_probe('{index}', ?1) AS p CROSS JOIN {index}_" table " AS b "                          \
    "WHERE b." column " = p.low AND b.group_id = ?2"
#define ROWS_AND_CROWD(table, column)                                                                                            \
    {                                                                                                                            \
        ROWS_OF(table, column), ROWS_OF(table, column) " AND b.crowd = ?3"                                                       \
    }
static const char *const rows_sql[][2] = {
    [ND_PLAN_BANDS] = ROWS_AND_CROWD("minhash_band", "bucket"),
    [ND_PLAN_PREFIX] = ROWS_AND_CROWD("bottomk_prefix", "hash"),
    [ND_PLAN_WINNOW] = ROWS_AND_CROWD("passage_hash", "hash"),
};

/* The table's statement, unless another cursor has it; the cursor has it to itself. */
static int take_rows(candidates_cursor *cursor)
{
    nd_table *table = nd_table_of(&cursor->head);
    nd_settings_cache *cache = &table->cache;
    cursor->which = !nd_input_is_null(&cursor->head, 3);
    cursor->serial = cache->serial;
    cursor->rows = cache->kept[ND_ROWS + cursor->which];
    cache->kept[ND_ROWS + cursor->which] = NULL;
    if (cursor->rows != NULL)
        return SQLITE_OK;
    const char *sql = cursor->of_codes ? codes_sql : rows_sql[cache->settings.scheme.plan][cursor->which];
    return nd_table_prepare(table, sql, &cursor->rows);
}

/* Gives the statement back, if the table has still the settings that it was made for. */
static void give_rows(candidates_cursor *cursor)
{
    nd_settings_cache *cache = &nd_table_of(&cursor->head)->cache;
    sqlite3_reset(cursor->rows);
    cursor->reading = 0;
    if (cache->watch == NULL || cache->serial != cursor->serial || cache->kept[ND_ROWS + cursor->which] != NULL)
        sqlite3_finalize(cursor->rows);
    else
        cache->kept[ND_ROWS + cursor->which] = cursor->rows;
    cursor->rows = NULL;
}

/* Begins to read the rows, of a code those of the present key. */
static int begin_rows(candidates_cursor *cursor)
{
    sqlite3_value *const *inputs = cursor->head.inputs;
    cursor->reading = 1;
    if (cursor->of_codes) {
        const nd_key *key = cursor->keys->rows + cursor->key;
        return nd_bind_two(cursor->rows, key->low, key->high);
    }
    int code = sqlite3_bind_value(cursor->rows, 1, inputs[1]);
    if (code == SQLITE_OK)
        code = sqlite3_bind_value(cursor->rows, 2, inputs[2]);
    return code == SQLITE_OK && cursor->which ? sqlite3_bind_value(cursor->rows, 3, inputs[3]) : code;
}

static void end_rows(candidates_cursor *cursor)
{
    sqlite3_reset(cursor->rows);
    cursor->reading = 0;
    cursor->key++;
}

/* The near ones among the entries of the row. Most buckets are one row, the last one that they may have: nothing comes after it. */
static int read_entries(candidates_cursor *cursor)
{
    cursor->near_count = cursor->next_near = 0;
    if (sqlite3_column_int64(cursor->rows, 1) != sqlite3_value_int64(cursor->head.inputs[2]))
        return SQLITE_OK;
    ND_TRY(nd_column_entries(nd_table_of(&cursor->head), cursor->rows, 2, cursor->code_size, &cursor->entries));
    if (nd_buffer_reserve((void **)&cursor->near, &cursor->near_room, cursor->entries.count, sizeof *cursor->near) != SQLITE_OK)
        return SQLITE_NOMEM;
    if (cursor->most >= 0)
        cursor->near_count = nd_entries_near(&cursor->entries, cursor->code, (uint64_t)cursor->most, cursor->near);
    return SQLITE_OK;
}

/* The next near entry of the row into the cursor. */
static void take_near(candidates_cursor *cursor)
{
    const nd_entries *entries = &cursor->entries;
    const size_t place = cursor->near[cursor->next_near++];
    cursor->id = nd_entries_id(entries, place);
    cursor->distance = (int64_t)nd_hamming(entries->codes + place * cursor->code_size, cursor->code, cursor->code_size);
}

/* Reads on by one row. *found: whether the cursor has an id now. */
static int step_rows(candidates_cursor *cursor, int *found)
{
    nd_table *table = nd_table_of(&cursor->head);
    if (cursor->of_codes && cursor->reading > 1) { /* that was the last one */
        end_rows(cursor);
        return SQLITE_OK;
    }
    int code = cursor->reading ? SQLITE_OK : begin_rows(cursor);
    if (code == SQLITE_OK)
        code = sqlite3_step(cursor->rows);
    if (code == SQLITE_DONE) {
        end_rows(cursor);
        return SQLITE_OK;
    }
    if (code != SQLITE_ROW)
        return nd_table_fail_database(table, code);
    if (cursor->of_codes) {
        cursor->reading += sqlite3_column_int64(cursor->rows, 0) == cursor->keys->rows[cursor->key].high;
        return read_entries(cursor);
    }
    cursor->id = sqlite3_column_int64(cursor->rows, 0);
    *found = 1;
    return SQLITE_OK;
}

/* ---- the stream ------------------------------------------------------------------------------------------------------------ */

/* On to the next new candidate, if there is one. */
static int candidates_next(nd_cursor *base)
{
    candidates_cursor *cursor = (candidates_cursor *)base;
    int code = SQLITE_OK, is_new = 0;
    while (code == SQLITE_OK && !is_new) {
        int found = cursor->next_near < cursor->near_count;
        if (found)
            take_near(cursor);
        else if (cursor->key < cursor->passes)
            code = step_rows(cursor, &found);
        else
            return SQLITE_OK;
        if (found && code == SQLITE_OK)
            code = note_seen(cursor, &is_new);
    }
    base->count = base->row + (size_t)is_new;
    return code;
}

/* The buckets of a code. */
static int make_keys(candidates_cursor *cursor)
{
    nd_cursor *base = &cursor->head;
    nd_table *table = nd_table_of(base);
    const nd_settings *settings = &table->cache.settings;
    int64_t group_id;
    ND_TRY(nd_input_blob(base, 1, "a fingerprint", &cursor->code, &cursor->code_size));
    ND_TRY(nd_input_integer(base, 2, "group_id", INT64_MIN, INT64_MAX, 0, &group_id));
    ND_TRY(nd_input_integer(base, 4, "max_distance", INT64_MIN, INT64_MAX, 0, &cursor->most));
    ND_TRY(nd_table_take_keys(table, &cursor->keys));
    int status = nd_scheme_probe_keys(&settings->scheme, group_id, cursor->code, cursor->code_size, cursor->keys);
    cursor->passes = cursor->keys->count;
    return nd_table_fail_value(table, status, cursor->code_size);
}

static int candidates_fill(nd_cursor *base)
{
    candidates_cursor *cursor = (candidates_cursor *)base;
    if (cursor->rows != NULL)
        give_rows(cursor);
    forget_seen(cursor);
    cursor->key = cursor->near_count = cursor->next_near = 0;
    cursor->passes = 1;
    cursor->of_codes = nd_scheme_is_hamming(&nd_table_of(base)->cache.settings.scheme);
    if (nd_input_is_null(base, 1) || nd_input_is_null(base, 2))
        return SQLITE_OK;
    if (cursor->of_codes)
        ND_TRY(make_keys(cursor));
    ND_TRY(take_rows(cursor));
    return candidates_next(base);
}

static void candidates_close(nd_cursor *base)
{
    candidates_cursor *cursor = (candidates_cursor *)base;
    if (cursor->rows != NULL)
        give_rows(cursor);
    nd_table_give_keys(nd_table_of(base), cursor->keys);
    sqlite3_free(cursor->seen);
    sqlite3_free(cursor->near);
}

static void candidates_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const candidates_cursor *cursor = (const candidates_cursor *)base;
    if (column == 0)
        sqlite3_result_int64(context, cursor->id);
    else if (cursor->of_codes)
        sqlite3_result_int64(context, cursor->distance);
}

const nd_table_spec nd_candidates_function = {
    .name = "neardup_candidates",
    .declaration = "CREATE TABLE x(fingerprint_id INTEGER, distance INTEGER, index_name HIDDEN, fingerprint HIDDEN, "
                   "group_id HIDDEN, crowd HIDDEN, max_distance HIDDEN)",
    .columns = {2, 3, 5, 20},
    .reads = ND_READS_SETTINGS,
    .cursor = {sizeof(candidates_cursor), candidates_close, candidates_fill, candidates_next, candidates_column},
};
