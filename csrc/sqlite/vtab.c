/* vtab.c: what the table-valued functions have in common. All are eponymous-only: the function's inputs are hidden
 * columns that must be given by equality, its whole answer is made in xFilter, and xNext only counts. */
#include "sqlite/neardup.h"

#include <string.h>

static int table_connect(sqlite3 *db, void *spec, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    const nd_table_spec *table_spec = spec;
    (void)argc;
    (void)argv;
    (void)message;
    ND_TRY(sqlite3_declare_vtab(db, table_spec->declaration));
    ND_TRY(sqlite3_vtab_config(db, table_spec->reads == ND_READS_NOTHING ? SQLITE_VTAB_INNOCUOUS : SQLITE_VTAB_DIRECTONLY));
    nd_table *table = sqlite3_malloc64(sizeof *table);
    if (table == NULL)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->spec = table_spec;
    table->cache.db = db;
    table->cache.with_rules = table_spec->with_rules;
    *out = &table->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *base)
{
    nd_table *table = (nd_table *)base;
    nd_cache_clear(&table->cache);
    nd_keys_free(table->spare_keys);
    nd_workspace_release(table->workspace);
    sqlite3_free(table);
    return SQLITE_OK;
}

/* Whether all required inputs are given. */
static int is_complete(const nd_table_spec *spec, int given)
{
    int needed = (1 << spec->columns.required) - 1;
    return (given & needed) == needed;
}

/* idxNum has bit i set where input i is given; the inputs come to xFilter in their order. */
static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const nd_table_spec *spec = ((nd_table *)base)->spec;
    int constraint_of[ND_INPUTS_MAX];
    int mentioned = 0;
    int given = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        int input = info->aConstraint[i].iColumn - spec->columns.outputs;
        if (input < 0 || input >= spec->columns.inputs || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        mentioned |= 1 << input;
        if (info->aConstraint[i].usable && (given & (1 << input)) == 0) {
            given |= 1 << input;
            constraint_of[input] = i;
        }
    }
    if (given != mentioned)
        return SQLITE_CONSTRAINT; /* another order of the join gives it */
    int place = 0;
    for (int input = 0; input < spec->columns.inputs; input++) {
        if ((given & (1 << input)) == 0)
            continue;
        info->aConstraintUsage[constraint_of[input]].argvIndex = ++place;
        info->aConstraintUsage[constraint_of[input]].omit = 1;
    }
    info->idxNum = given;
    /* Where one lacks, begin says so: not here, since SQLite also asks for plans by a part of an OR's terms alone. */
    info->estimatedCost = is_complete(spec, given) ? (double)spec->columns.rows : 1e99;
    info->estimatedRows = spec->columns.rows;
    return SQLITE_OK;
}

/* Takes over a message (or NULL) and returns the code. */
static int fail_message(nd_table *table, int code, char *message)
{
    sqlite3_free(table->base.zErrMsg);
    table->base.zErrMsg = message;
    return code;
}

/* ---- cursors --------------------------------------------------------------------------------------------------------- */

static int cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    nd_table *table = (nd_table *)base;
    const nd_table_spec *spec = table->spec;
    if (spec->with_rules && table->workspace == NULL && (table->workspace = nd_workspace_new(table->cache.db)) == NULL)
        return SQLITE_NOMEM;
    nd_cursor *cursor = sqlite3_malloc64(spec->cursor.size);
    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, spec->cursor.size);
    cursor->base.pVtab = base;
    *out = &cursor->base;
    return SQLITE_OK;
}

static void drop_inputs(nd_cursor *cursor)
{
    for (int i = 0; i < ND_INPUTS_MAX; i++) {
        sqlite3_value_free(cursor->inputs[i]);
        cursor->inputs[i] = NULL;
    }
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    nd_cursor *cursor = (nd_cursor *)base;
    const nd_table_spec *spec = nd_table_of(cursor)->spec;
    if (spec->cursor.close != NULL)
        spec->cursor.close(cursor);
    drop_inputs(cursor);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

/* Empties the cursor and copies the inputs that best_index found. */
static int begin(nd_cursor *cursor, int given, int argc, sqlite3_value **argv)
{
    nd_table *table = nd_table_of(cursor);
    cursor->row = 0;
    cursor->count = 0;
    drop_inputs(cursor);
    if (table->spec->pointer != NULL)
        cursor->pointer = argc > 0 ? sqlite3_value_pointer(argv[0], table->spec->pointer) : NULL;
    if (!is_complete(table->spec, given))
        return nd_table_fail(table, "too few arguments, %d are needed", table->spec->columns.required);
    int place = 0;
    for (int i = 0; i < ND_INPUTS_MAX && place < argc; i++) {
        if ((given & (1 << i)) == 0)
            continue;
        cursor->inputs[i] = sqlite3_value_dup(argv[place++]);
        if (cursor->inputs[i] == NULL)
            return SQLITE_NOMEM;
    }
    return SQLITE_OK;
}

/* Whether the cursor has looked at the settings of this index before. */
static int has_settings(const nd_cursor *cursor, const nd_settings_cache *cache)
{
    if (cache->watch == NULL || cursor->serial != cache->serial || sqlite3_value_type(cursor->inputs[0]) != SQLITE_TEXT)
        return 0;
    const char *name = (const char *)sqlite3_value_text(cursor->inputs[0]);
    return name != NULL && strcmp(name, cache->settings.index) == 0;
}

/* Makes the whole answer, with the settings of the index that the first input names. */
static int cursor_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    nd_cursor *cursor = (nd_cursor *)base;
    nd_table *table = nd_table_of(cursor);
    nd_settings_cache *cache = &table->cache;
    const nd_table_spec *spec = table->spec;
    char *message = NULL;
    int code = begin(cursor, given, argc, argv);
    if (code != SQLITE_OK || spec->reads == ND_READS_NOTHING)
        return code == SQLITE_OK ? spec->cursor.fill(cursor) : code;
    if (spec->reads == ND_READS_INDEX || !has_settings(cursor, cache))
        code = nd_cache_open(cache, cursor->inputs[0], &message);
    if (code != SQLITE_OK)
        return fail_message(table, code, message);
    cursor->serial = cache->serial;
    code = spec->cursor.fill(cursor);
    sqlite3_reset(cache->watch);
    return code;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
    nd_cursor *cursor = (nd_cursor *)base;
    const nd_table_spec *spec = nd_table_of(cursor)->spec;
    cursor->row++;
    return spec->cursor.next == NULL ? SQLITE_OK : spec->cursor.next(cursor);
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    const nd_cursor *cursor = (const nd_cursor *)base;
    return cursor->row >= cursor->count;
}

/* Hidden columns are the inputs, and outputs behind these. */
static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    nd_cursor *cursor = (nd_cursor *)base;
    const nd_table_spec *spec = nd_table_of(cursor)->spec;
    if (column < spec->columns.outputs || column >= spec->columns.outputs + spec->columns.inputs)
        spec->cursor.column(cursor, context, column);
    else if (cursor->inputs[column - spec->columns.outputs] != NULL)
        sqlite3_result_value(context, cursor->inputs[column - spec->columns.outputs]);
    return SQLITE_OK;
}

/* A hash of an input behind that of those before it; NULL is as not given. */
static uint64_t hash_input(sqlite3_value *input, uint64_t hash)
{
    const int type = input == NULL ? SQLITE_NULL : sqlite3_value_type(input);
    const int is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    const int64_t number[] = {type, is_number ? sqlite3_value_int64(input) : 0};
    const double real = is_number ? sqlite3_value_double(input) : 0.0;
    const uint8_t *bytes = (const uint8_t *)&real;
    size_t size = sizeof real;
    if (type == SQLITE_TEXT || type == SQLITE_BLOB)
        (void)nd_value_bytes(input, &bytes, &size);
    return nd_xxh3_64(bytes, size, nd_xxh3_64((const uint8_t *)number, sizeof number, hash));
}

/* Of the row among those of all calls: SQLite answers an OR by one call after another, and leaves rows out that it had before. */
static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    const nd_cursor *cursor = (const nd_cursor *)base;
    uint64_t hash = 0;
    for (int i = 0; i < ND_INPUTS_MAX; i++)
        hash = hash_input(cursor->inputs[i], hash);
    *rowid = (sqlite3_int64)(hash + cursor->row);
    return SQLITE_OK;
}

int nd_table_take_keys(nd_table *table, nd_keys **keys)
{
    if (*keys != NULL)
        return SQLITE_OK;
    *keys = table->spare_keys != NULL ? table->spare_keys : nd_keys_new();
    table->spare_keys = NULL;
    if (*keys == NULL)
        return SQLITE_NOMEM;
    nd_keys_watch(*keys, nd_is_interrupted, table->cache.db);
    return SQLITE_OK;
}

void nd_table_give_keys(nd_table *table, nd_keys *keys)
{
    if (table->spare_keys == NULL)
        table->spare_keys = keys;
    else
        nd_keys_free(keys);
}

int nd_input_is_null(const nd_cursor *cursor, int which)
{
    return cursor->inputs[which] == NULL || sqlite3_value_type(cursor->inputs[which]) == SQLITE_NULL;
}

/* ---- errors ------------------------------------------------------------------------------------------------------------ */

int nd_table_fail(nd_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = nd_message(table->spec->name, format, arguments);
    va_end(arguments);
    return fail_message(table, message == NULL ? SQLITE_NOMEM : SQLITE_ERROR, message);
}

int nd_table_fail_database(nd_table *table, int code)
{
    if (code != SQLITE_NOMEM && table->base.zErrMsg == NULL)
        nd_table_fail(table, "%s", sqlite3_errmsg(table->cache.db));
    return code;
}

int nd_table_fail_status(nd_table *table, int status)
{
    const int code = nd_status_code(status);
    return code == SQLITE_ERROR ? nd_table_fail(table, "%s", nd_status_sentence(status)) : code;
}

int nd_table_fail_value(nd_table *table, int status, size_t size)
{
    if (status != ND_ERROR_DAMAGED)
        return nd_table_fail_status(table, status);
    return nd_table_fail(table, "%lld bytes that are no fingerprint of index \"%s\": wrong length or order", (sqlite3_int64)size,
        table->cache.settings.index);
}

int nd_fail_fingerprint(nd_table *table, int64_t id)
{
    return nd_table_fail(table, "fingerprint %lld of index \"%s\" is damaged: wrong id, hash, length or order", id,
        table->cache.settings.index);
}

int nd_input_blob(nd_cursor *cursor, int which, const char *name, const uint8_t **bytes, size_t *size)
{
    sqlite3_value *input = cursor->inputs[which];
    if (sqlite3_value_type(input) != SQLITE_BLOB)
        return nd_table_fail(nd_table_of(cursor), "%s must be a blob, not %s", name, nd_type_name(input));
    (void)nd_value_bytes(input, bytes, size);
    return SQLITE_OK;
}

int nd_input_integer(nd_cursor *cursor, int which, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out)
{
    nd_table *table = nd_table_of(cursor);
    *out = fallback;
    if (cursor->inputs[which] == NULL)
        return SQLITE_OK;
    if (sqlite3_value_type(cursor->inputs[which]) != SQLITE_INTEGER)
        return nd_table_fail(table, "%s must be an integer, not %s", name, nd_type_name(cursor->inputs[which]));
    *out = sqlite3_value_int64(cursor->inputs[which]);
    if (*out < low || *out > high)
        return nd_table_fail(table, "%s must be %lld to %lld, not %lld", name, low, high, *out);
    return SQLITE_OK;
}

/* ---- registration -------------------------------------------------------------------------------------------------------- */

static const sqlite3_module module = {
    .xConnect = table_connect,
    .xBestIndex = table_best_index,
    .xDisconnect = table_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

int nd_register_table(sqlite3 *db, const nd_table_spec *spec)
{
    return sqlite3_create_module_v2(db, spec->name, &module, (void *)spec, NULL);
}
