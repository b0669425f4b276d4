/* vtabs.c: two modules of SQLite on a connection that belongs to the application, by which the package hears of what
 * SQLite tells to hooks. A hook has one owner, and this one must not be us.
 *
 * neardup_held_statements: a table that nothing reads. SQLite parts from its tables before anything else when a connection is
 * closed; then the statements of ours end, which would keep it half open. No statement of ours may name this table.
 *
 * neardup_open_transaction: a table without rows. A transaction that writes to it tells it how it ends. A DELETE of no row counts
 * as no change. */
#include "python/standard/standard.h"

#include <stdlib.h>

#define HOLDER "neardup_held_statements"
#define TRANSACTION "neardup_open_transaction"

typedef struct table {
    sqlite3_vtab head; /* SQLite's part */
    nd_base *base;
} table;

/* ---- what both have in common ------------------------------------------------------------------------------------------ */

static int connect_table(sqlite3 *db, void *user, int count, const char *const *words, sqlite3_vtab **out, char **message)
{
    nd_base *const base = user;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    (void)count, (void)words, (void)message;
    const int code = sqlite3_declare_vtab(db, "CREATE TABLE x(value)");
    table *const made = code == SQLITE_OK ? calloc(1, sizeof *made) : NULL;
    if (made == NULL)
        return code == SQLITE_OK ? SQLITE_NOMEM : code;
    (void)atomic_fetch_add(&base->references, 1); /* SQLite may release the module's before it parts from the table */
    made->base = base;
    *out = &made->head;
    return SQLITE_OK;
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
    *out = calloc(1, sizeof **out);
    return *out == NULL ? SQLITE_NOMEM : SQLITE_OK;
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

static int is_at_end(sqlite3_vtab_cursor *this)
{
    (void)this;
    return 1;
}

/* What a table without rows does. */
#define WITHOUT_ROWS                                                                                                             \
    .iVersion = 0, .xConnect = connect_table, .xBestIndex = plan_nothing, .xOpen = open_cursor, .xClose = close_cursor,          \
    .xFilter = find_nothing, .xEof = is_at_end

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
    code = code == SQLITE_OK ? create(base, HOLDER, &holder) : code;
    return code == SQLITE_OK ? connect_holder(base) : code;
}
