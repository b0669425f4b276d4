/* statement_cache.c: statements of ours, which stay prepared. */
#include "python/rows.h"
#include "python/standard/objects.h"

#include <stdlib.h>
#include <string.h>

void nd_keep(nd_base *base, nd_slot *slot)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    sqlite3_stmt *const prepared = nd_slot_take(base, slot);
    if (prepared == NULL || slot->sql == NULL) {
        sqlite3_finalize(prepared);
        nd_slot_free(slot);
        return;
    }
    (void)sqlite3_reset(prepared);
    (void)sqlite3_clear_bindings(prepared);
    sqlite3_finalize(nd_slot_keep(base, slot, prepared));
}

int nd_is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n;")] == '\0';
}

nd_failure nd_failure_of(nd_base *base, int code)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    if (code == SQLITE_NOMEM)
        return (nd_failure){code, sqlite3_mprintf("%s", sqlite3_errstr(code))};
    const int extended = sqlite3_extended_errcode(base->db);
    return (nd_failure){(extended & 0xff) == (code & 0xff) ? extended : code, sqlite3_mprintf("%s", sqlite3_errmsg(base->db))};
}

void nd_raise_failure(const nd_handle *self, nd_failure what)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    if (PyErr_Occurred() == NULL) /* of a function of Python's that SQLite has called */
        nd_raise(nd_state_of((PyObject *)self)->exception_for, what.code, what.message == NULL ? "out of memory" : what.message);
    sqlite3_free(what.message);
}

/* Prepares the first statement of SQL, and says where the next begins. Leaves the mutex. NULL with an exception, or where there is
 * none. */
static nd_slot *prepare(nd_handle *self, const char *sql, size_t size, const char **next)
{
    nd_base *const base = self->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    nd_slot *slot = calloc(1, sizeof *slot);
    nd_failure what = {SQLITE_OK, NULL};
    int code = SQLITE_NOMEM, is_there = 0;
    Py_BEGIN_ALLOW_THREADS
    if (slot != NULL)
        code = sqlite3_prepare_v3(base->db, sql, (int)size + 1, SQLITE_PREPARE_PERSISTENT, &slot->prepared, next);
    if (code != SQLITE_OK)
        what = nd_failure_of(base, code);
    else if ((is_there = slot->prepared != NULL))
        nd_slot_link(base, slot);
    nd_leave(self);
    Py_END_ALLOW_THREADS
    if (is_there) {
        slot->sql = nd_is_blank(*next) ? malloc(size + 1) : NULL; /* one of several is not kept */
        if (slot->sql != NULL)
            memcpy(slot->sql, sql, size + 1);
        slot->size = size;
        return slot;
    }
    if (slot != NULL)
        nd_slot_free(slot);
    if (code != SQLITE_OK)
        nd_raise_failure(self, what);
    return NULL;
}

nd_slot *nd_statement_for(nd_handle *self, const char *sql, size_t size, const char **next)
{
    if (!nd_enter(self))
        return NULL;
    nd_slot *slot = nd_slot_find(self->base, sql, size);
    *next = sql + size;
    if (slot != NULL)
        return slot;
    slot = prepare(self, sql, size, next);
    if (slot == NULL)
        return NULL;
    if (nd_enter(self)) {
        if (slot->prepared != NULL)
            return slot;
        nd_leave(self);
        PyErr_SetString(nd_state_of((PyObject *)self)->closed_error, "the connection that was given was closed meanwhile");
    } else {
        const sqlite3_api_routines *const sqlite3_api = self->base->api;
        sqlite3_stmt *const prepared = nd_slot_take(self->base, slot);
        Py_BEGIN_ALLOW_THREADS
        sqlite3_finalize(prepared);
        Py_END_ALLOW_THREADS
    }
    nd_slot_free(slot);
    return NULL;
}
