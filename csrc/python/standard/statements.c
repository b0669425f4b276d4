/* statements.c: our statements on one connection, which stay prepared. */
#include "python/standard/standard.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MOST 64 /* statements that stay prepared on a connection */

nd_base *nd_base_new(const sqlite3_api_routines *sqlite3_api, sqlite3 *db)
{
    nd_base *const base = calloc(1, sizeof *base);
    if (base == NULL)
        return NULL;
    atomic_init(&base->references, 1);
    atomic_init(&base->vetoes, 0);
    atomic_init(&base->first_end, ND_NO_END);
    base->api = sqlite3_api;
    base->db = db;
    base->lock = PyThread_allocate_lock();
    if (base->lock == NULL) {
        free(base);
        return NULL;
    }
    return base;
}

void nd_base_release(nd_base *base)
{
    if (atomic_fetch_sub(&base->references, 1) > 1)
        return;
    PyThread_free_lock(base->lock);
    free(base);
}

/* Both under the lock. */
static void link_first(nd_base *base, nd_slot *slot)
{
    slot->previous = NULL;
    slot->next = base->first;
    if (base->first != NULL)
        base->first->previous = slot;
    base->first = slot;
    base->idle_count += slot->is_idle;
}

static sqlite3_stmt *unlinked(nd_base *base, nd_slot *slot)
{
    sqlite3_stmt *const prepared = slot->prepared;
    slot->prepared = NULL;
    if (prepared == NULL)
        return NULL;
    if (slot->previous != NULL)
        slot->previous->next = slot->next;
    else
        base->first = slot->next;
    if (slot->next != NULL)
        slot->next->previous = slot->previous;
    base->idle_count -= slot->is_idle;
    return prepared;
}

static void lock(nd_base *base)
{
    (void)PyThread_acquire_lock(base->lock, WAIT_LOCK);
}

static void unlock(nd_base *base)
{
    PyThread_release_lock(base->lock);
}

sqlite3_stmt *nd_slot_take(nd_base *base, nd_slot *slot)
{
    lock(base);
    sqlite3_stmt *const prepared = unlinked(base, slot);
    unlock(base);
    return prepared;
}

sqlite3_stmt *nd_slot_take_any(nd_base *base)
{
    sqlite3_stmt *prepared = NULL;
    lock(base);
    nd_slot *const slot = base->first;
    if (slot != NULL) {
        prepared = unlinked(base, slot);
        if (slot->is_idle) /* else it belongs to somebody */
            nd_slot_free(slot);
    }
    unlock(base);
    return prepared;
}

/* The idle statement with this text, which is idle no more; NULL: there is none. */
static nd_slot *find_idle(nd_base *base, const char *sql, size_t size)
{
    lock(base);
    nd_slot *found = base->first;
    while (found != NULL && !(found->is_idle && found->size == size && memcmp(found->sql, sql, size) == 0))
        found = found->next;
    if (found != NULL) {
        found->is_idle = 0;
        base->idle_count--;
    }
    unlock(base);
    return found;
}

/* Links a slot with its statement, which is idle from now on. Returns a statement to finalize, since there are too many. */
static sqlite3_stmt *keep_idle(nd_base *base, nd_slot *slot, sqlite3_stmt *prepared)
{
    sqlite3_stmt *left_over = NULL;
    lock(base);
    slot->prepared = prepared;
    slot->is_idle = 1;
    link_first(base, slot);
    if (base->idle_count > IDLE_MOST) {
        nd_slot *last = NULL; /* the one that was used longest ago */
        for (nd_slot *one = base->first; one != NULL; one = one->next)
            last = one->is_idle ? one : last;
        left_over = unlinked(base, last);
        nd_slot_free(last);
    }
    unlock(base);
    return left_over;
}

void nd_slot_free(nd_slot *slot)
{
    free(slot->sql);
    free(slot);
}

/* ---- preparing ---------------------------------------------------------------------------------------------------------- */

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
    sqlite3_finalize(keep_idle(base, slot, prepared));
}

int nd_is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n;")] == '\0';
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
        what = nd_failure_of(sqlite3_api, base->db, code);
    else if ((is_there = slot->prepared != NULL)) {
        lock(base);
        link_first(base, slot);
        unlock(base);
    }
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
        nd_raise_on(self, what);
    return NULL;
}

nd_slot *nd_statement_for(nd_handle *self, const char *sql, size_t size, const char **next)
{
    if (!nd_enter(self))
        return NULL;
    nd_slot *slot = find_idle(self->base, sql, size);
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
