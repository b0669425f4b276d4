/* sqlite_vtab.c: what the table-valued functions have in common. All are eponymous-only: the function's inputs are hidden
 * columns that must be given by equality, its whole answer is made in xFilter, and xNext only counts. */
#include "sqlite_neardup.h"

#include <stdarg.h>
#include <string.h>

int nd_table_connect(sqlite3 *db, void *spec, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
    const nd_table_spec *table_spec = spec;
    (void)argc;
    (void)argv;
    (void)message;
    int code = sqlite3_declare_vtab(db, table_spec->declaration);
    if (code == SQLITE_OK)
        code = sqlite3_vtab_config(db, table_spec->innocuous ? SQLITE_VTAB_INNOCUOUS : SQLITE_VTAB_DIRECTONLY);
    if (code != SQLITE_OK)
        return code;
    nd_table *table = sqlite3_malloc64(sizeof *table);
    if (table == NULL)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->spec = table_spec;
    table->cache.db = db;
    *out = &table->base;
    return SQLITE_OK;
}

int nd_table_disconnect(sqlite3_vtab *base)
{
    nd_table *table = (nd_table *)base;
    nd_cache_clear(&table->cache);
    nd_keys_free(table->spare_keys);
    if (table->workspace != NULL)
        nd_workspace_release(table->workspace);
    sqlite3_free(table);
    return SQLITE_OK;
}

/* Whether all required inputs are given. */
static int is_complete(const nd_table_spec *spec, int given)
{
    int needed = (1 << spec->required) - 1;
    return (given & needed) == needed;
}

/* idxNum has bit i set where input i is given; the inputs come to xFilter in their order. */
int nd_table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const nd_table_spec *spec = ((nd_table *)base)->spec;
    int constraint_of[ND_INPUTS_MAX];
    int mentioned = 0;
    int given = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        int input = info->aConstraint[i].iColumn - spec->outputs;
        if (input < 0 || input >= spec->inputs || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
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
    for (int input = 0; input < spec->inputs; input++) {
        if ((given & (1 << input)) == 0)
            continue;
        info->aConstraintUsage[constraint_of[input]].argvIndex = ++place;
        info->aConstraintUsage[constraint_of[input]].omit = 1;
    }
    info->idxNum = given;
    /* Where one lacks, nd_cursor_begin says so: not here, since SQLite also asks for plans by a part of an OR's terms alone. */
    info->estimatedCost = is_complete(spec, given) ? (double)spec->rows : 1e99;
    info->estimatedRows = spec->rows;
    return SQLITE_OK;
}

int nd_table_reserve(void **buffer, size_t *capacity, size_t needed, size_t item_size)
{
    if (needed <= *capacity)
        return SQLITE_OK;
    size_t wanted = needed + needed / 2 + 64;
    void *grown = sqlite3_realloc64(*buffer, wanted * item_size);
    if (grown == NULL)
        return SQLITE_NOMEM;
    *buffer = grown;
    *capacity = wanted;
    return SQLITE_OK;
}

/* ---- cursors --------------------------------------------------------------------------------------------------------- */

int nd_cursor_open(size_t size, sqlite3_vtab_cursor **out)
{
    nd_cursor *cursor = sqlite3_malloc64(size);
    if (cursor == NULL)
        return SQLITE_NOMEM;
    memset(cursor, 0, size);
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

int nd_cursor_begin(nd_cursor *cursor, int given, int argc, sqlite3_value **argv)
{
    const nd_table_spec *spec = ((nd_table *)cursor->base.pVtab)->spec;
    cursor->row = 0;
    cursor->count = 0;
    drop_inputs(cursor);
    if (!is_complete(spec, given))
        return nd_table_fail(cursor->base.pVtab, "%s: too few arguments, %d are needed", spec->name, spec->required);
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

void nd_cursor_free(nd_cursor *cursor)
{
    drop_inputs(cursor);
    sqlite3_free(cursor);
}

int nd_cursor_next(sqlite3_vtab_cursor *base)
{
    ((nd_cursor *)base)->row++;
    return SQLITE_OK;
}

int nd_cursor_eof(sqlite3_vtab_cursor *base)
{
    const nd_cursor *cursor = (const nd_cursor *)base;
    return cursor->row >= cursor->count;
}

/* A hash of an input behind that of those before it; NULL is as not given. */
static uint64_t hash_input(sqlite3_value *input, uint64_t hash)
{
    int type = input == NULL ? SQLITE_NULL : sqlite3_value_type(input);
    uint8_t kind = (uint8_t)type;
    const uint8_t *bytes = &kind;
    size_t size = 0;
    sqlite3_int64 integer;
    double real;
    hash = nd_xxh3_64(&kind, 1, hash);
    if (type == SQLITE_INTEGER) {
        integer = sqlite3_value_int64(input);
        bytes = (const uint8_t *)&integer;
        size = sizeof integer;
    } else if (type == SQLITE_FLOAT) {
        real = sqlite3_value_double(input);
        bytes = (const uint8_t *)&real;
        size = sizeof real;
    } else if (type != SQLITE_NULL) {
        (void)nd_value_bytes(input, &bytes, &size);
    }
    return nd_xxh3_64(bytes, size, hash);
}

/* Of the row among those of all calls: SQLite answers an OR by one call after another, and leaves rows out that it had before. */
int nd_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid)
{
    const nd_cursor *cursor = (const nd_cursor *)base;
    uint64_t hash = 0;
    for (int i = 0; i < ND_INPUTS_MAX; i++)
        hash = hash_input(cursor->inputs[i], hash);
    *rowid = (sqlite3_int64)(hash + cursor->row);
    return SQLITE_OK;
}

int nd_cursor_input(nd_cursor *cursor, sqlite3_context *context, int column)
{
    const nd_table_spec *spec = ((nd_table *)cursor->base.pVtab)->spec;
    int which = column - spec->outputs;
    if (which >= 0 && which < spec->inputs && cursor->inputs[which] != NULL)
        sqlite3_result_value(context, cursor->inputs[which]);
    return SQLITE_OK;
}

int nd_input_is_null(const nd_cursor *cursor, int which)
{
    return cursor->inputs[which] == NULL || sqlite3_value_type(cursor->inputs[which]) == SQLITE_NULL;
}

/* ---- errors ------------------------------------------------------------------------------------------------------------ */

int nd_table_fail_message(sqlite3_vtab *table, int code, char *message)
{
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = message;
    return code;
}

int nd_table_fail(sqlite3_vtab *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    return nd_table_fail_message(table, message == NULL ? SQLITE_NOMEM : SQLITE_ERROR, message);
}

int nd_table_fail_status(sqlite3_vtab *table, int status)
{
    const char *name = ((nd_table *)table)->spec->name;
    if (status == ND_ERROR_MEMORY)
        return SQLITE_NOMEM;
    if (status == ND_ERROR_STOPPED)
        return SQLITE_INTERRUPT;
    if (status == ND_ERROR_PARAMETER)
        return nd_table_fail(table, "%s: a parameter is out of its range", name);
    if (status == ND_ERROR_DAMAGED)
        return nd_table_fail(table, "%s: the fingerprint is damaged: wrong length or order", name);
    return nd_table_fail(table, "%s: the answer would be too large", name);
}

int nd_input_integer(nd_cursor *cursor, int which, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out)
{
    sqlite3_vtab *table = cursor->base.pVtab;
    const char *function = ((nd_table *)table)->spec->name;
    *out = fallback;
    if (cursor->inputs[which] == NULL)
        return SQLITE_OK;
    if (sqlite3_value_type(cursor->inputs[which]) != SQLITE_INTEGER)
        return nd_table_fail(table, "%s: %s must be an integer, not %s", function, name, nd_type_name(cursor->inputs[which]));
    *out = sqlite3_value_int64(cursor->inputs[which]);
    if (*out < low || *out > high)
        return nd_table_fail(table, "%s: %s must be %lld to %lld, not %lld", function, name, low, high, *out);
    return SQLITE_OK;
}
