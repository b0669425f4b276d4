/* vtabs.c: three modules of SQLite on a connection that belongs to the application, by which the package hears of what
 * SQLite tells to hooks. A hook has one owner, and this one must not be us.
 *
 * neardup_held_statements: a table that nothing reads. SQLite parts from its tables before anything else when a connection is
 * closed; then the statements of ours end, which would keep it half open. No statement of ours may name this table.
 *
 * neardup_open_transaction: a table without rows. A transaction that writes to it tells it how it ends. A DELETE of no row counts
 * as no change.
 *
 * neardup_array(pointer) -> value: the rows of an array in memory, as SQLite's own carray gives them, which few libraries have. */
#include "python/standard/standard.h"

#include <stdlib.h>

#define HOLDER "neardup_held_statements"
#define TRANSACTION "neardup_open_transaction"
#define ARRAY "neardup_array"

typedef struct table {
    sqlite3_vtab head; /* SQLite's part */
    nd_base *base;
} table;

typedef struct cursor {
    sqlite3_vtab_cursor head;
    const nd_array *array; /* NULL: no rows */
    int64_t place;
} cursor;

/* ---- what all have in common ------------------------------------------------------------------------------------------ */

static int connect_as(nd_base *base, const char *columns, sqlite3_vtab **out)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    const int code = sqlite3_declare_vtab(base->db, columns);
    table *const made = code == SQLITE_OK ? calloc(1, sizeof *made) : NULL;
    if (made == NULL)
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    (void)atomic_fetch_add(&base->references, 1); /* SQLite may release the module's before it parts from the table */
    made->base = base;
    *out = &made->head;
    return SQLITE_OK;
}

static int connect_plain(sqlite3 *db, void *base, int count, const char *const *words, sqlite3_vtab **out, char **message)
{
    (void)db, (void)count, (void)words, (void)message;
    return connect_as(base, "CREATE TABLE x(value)", out);
}

static int disconnect(sqlite3_vtab *this)
{
    nd_base_release(((table *)this)->base);
    free(this);
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *this, sqlite3_vtab_cursor **out)
{
    (void)this;
    cursor *const made = calloc(1, sizeof *made);
    if (made == NULL)
        return SQLITE_NOMEM;
    *out = &made->head;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *this)
{
    free(this);
    return SQLITE_OK;
}

static int plan_nothing(sqlite3_vtab *this, sqlite3_index_info *plan)
{
    (void)this, (void)plan;
    return SQLITE_OK;
}

static int find_nothing(sqlite3_vtab_cursor *this, int number, const char *text, int count, sqlite3_value **values)
{
    (void)this, (void)number, (void)text, (void)count, (void)values;
    return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *this)
{
    ((cursor *)this)->place++;
    return SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *this)
{
    const cursor *const at = (const cursor *)this;
    return at->array == NULL || at->place >= at->array->count;
}

static int give_nothing(sqlite3_vtab_cursor *this, sqlite3_context *to, int column)
{
    (void)this, (void)to, (void)column; /* a result that is not set is NULL */
    return SQLITE_OK;
}

static int row_number(sqlite3_vtab_cursor *this, sqlite3_int64 *out)
{
    *out = ((const cursor *)this)->place + 1;
    return SQLITE_OK;
}

/* What a table without rows does. */
#define WITHOUT_ROWS                                                                                                             \
    .iVersion = 0, .xConnect = connect_plain, .xBestIndex = plan_nothing, .xOpen = open_cursor, .xClose = close_cursor,          \
    .xFilter = find_nothing, .xNext = next_row, .xEof = is_at_end, .xColumn = give_nothing, .xRowid = row_number

/* ---- the end of the connection ----------------------------------------------------------------------------------------- */

static int end_statements(sqlite3_vtab *this)
{
    nd_base *const base = ((table *)this)->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    sqlite3_stmt *prepared;
    while ((prepared = nd_slot_take_any(base)) != NULL)
        sqlite3_finalize(prepared);
    sqlite3_finalize(base->watch);
    base->watch = NULL;
    return disconnect(this);
}

static const sqlite3_module holder = {
    WITHOUT_ROWS,
    .xDisconnect = end_statements,
};

/* ---- the end of a transaction ------------------------------------------------------------------------------------------ */

static int refuse_rows(sqlite3_vtab *this, int count, sqlite3_value **values, sqlite3_int64 *out)
{
    (void)this, (void)count, (void)values, (void)out;
    return SQLITE_READONLY;
}

static int transaction_begins(sqlite3_vtab *this)
{
    ((table *)this)->base->is_watched = 1;
    return SQLITE_OK;
}

/* Before anything is committed. */
static int transaction_may_end(sqlite3_vtab *this)
{
    nd_base *const base = ((table *)this)->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    if (atomic_load(&base->vetoes) == 0)
        return SQLITE_OK;
    this->zErrMsg = sqlite3_mprintf(
        "neardup: a call of an index is in the middle of its work, and the transaction is rolled back");
    return SQLITE_CONSTRAINT;
}

static int note_end(sqlite3_vtab *this, int how)
{
    nd_base *const base = ((table *)this)->base;
    int none = ND_NO_END;
    base->is_watched = 0;
    (void)atomic_compare_exchange_strong(&base->first_end, &none, how);
    return SQLITE_OK;
}

static int transaction_committed(sqlite3_vtab *this)
{
    return note_end(this, ND_COMMITTED);
}

static int transaction_rolled_back(sqlite3_vtab *this)
{
    return note_end(this, ND_ROLLED_BACK);
}

static const sqlite3_module transaction = {
    WITHOUT_ROWS,
    .xDisconnect = disconnect,
    .xUpdate = refuse_rows,
    .xBegin = transaction_begins,
    .xSync = transaction_may_end,
    .xCommit = transaction_committed,
    .xRollback = transaction_rolled_back,
};

int nd_watch_transaction(nd_base *base)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    int code = SQLITE_OK;
    if (base->watch == NULL)
        code = sqlite3_prepare_v3(base->db, "DELETE FROM " TRANSACTION, -1, SQLITE_PREPARE_PERSISTENT, &base->watch, NULL);
    if (code == SQLITE_OK) {
        (void)sqlite3_step(base->watch);
        code = sqlite3_reset(base->watch);
    }
    return code;
}

/* ---- arrays -------------------------------------------------------------------------------------------------------------- */

enum { VALUE, POINTER };

static int connect_array(sqlite3 *db, void *base, int count, const char *const *words, sqlite3_vtab **out, char **message)
{
    (void)db, (void)count, (void)words, (void)message;
    return connect_as(base, "CREATE TABLE x(value, pointer HIDDEN)", out);
}

/* Its cost as carray's, so that plans are the same. */
static int plan_array(sqlite3_vtab *this, sqlite3_index_info *plan)
{
    (void)this;
    for (int i = 0; i < plan->nConstraint; i++)
        if (plan->aConstraint[i].iColumn == POINTER && plan->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ) {
            if (!plan->aConstraint[i].usable)
                return SQLITE_CONSTRAINT;
            plan->aConstraintUsage[i].argvIndex = 1;
            plan->aConstraintUsage[i].omit = 1;
            plan->estimatedCost = 1;
            plan->estimatedRows = 100;
            return SQLITE_OK;
        }
    plan->estimatedCost = 1e9;
    return SQLITE_OK;
}

static int find_array(sqlite3_vtab_cursor *this, int number, const char *text, int count, sqlite3_value **values)
{
    const sqlite3_api_routines *const sqlite3_api = ((table *)this->pVtab)->base->api;
    cursor *const at = (cursor *)this;
    (void)number, (void)text;
    at->array = count > 0 ? sqlite3_value_pointer(values[0], ND_ARRAY_TYPE) : NULL;
    at->place = 0;
    return SQLITE_OK;
}

static int give_value(sqlite3_vtab_cursor *this, sqlite3_context *to, int column)
{
    const sqlite3_api_routines *const sqlite3_api = ((table *)this->pVtab)->base->api;
    const cursor *const at = (const cursor *)this;
    const nd_array *const array = at->array;
    if (column != VALUE)
        return SQLITE_OK;
    if (array->type == SQLITE_INTEGER)
        sqlite3_result_int64(to, array->numbers[at->place]);
    else if (array->type == SQLITE_TEXT)
        sqlite3_result_text64(to, array->items[at->place], (sqlite3_uint64)array->sizes[at->place], SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_result_blob64(to, array->items[at->place], (sqlite3_uint64)array->sizes[at->place], SQLITE_STATIC);
    return SQLITE_OK;
}

static const sqlite3_module array_rows = {
    .iVersion = 0,
    .xConnect = connect_array,
    .xBestIndex = plan_array,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = find_array,
    .xNext = next_row,
    .xEof = is_at_end,
    .xColumn = give_value,
    .xRowid = row_number,
};

/* ---- registering --------------------------------------------------------------------------------------------------------- */

static void release(void *base)
{
    nd_base_release(base);
}

/* SQLite releases the base where this fails too. */
static int create(nd_base *base, const char *name, const sqlite3_module *module)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    (void)atomic_fetch_add(&base->references, 1);
    return sqlite3_create_module_v2(base->db, name, module, base, release);
}

/* Lets SQLite make the table that it parts from at the end. */
static int connect_holder(nd_base *base)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    sqlite3_stmt *prepared = NULL;
    const int code = sqlite3_prepare_v2(base->db, "SELECT value FROM " HOLDER, -1, &prepared, NULL);
    sqlite3_finalize(prepared);
    return code;
}

int nd_register_standard(nd_base *base)
{
    int code = create(base, TRANSACTION, &transaction);
    code = code == SQLITE_OK ? create(base, ARRAY, &array_rows) : code;
    code = code == SQLITE_OK ? create(base, HOLDER, &holder) : code;
    return code == SQLITE_OK ? connect_holder(base) : code;
}
