/* base.c: the statements of ours on one connection. */
#include "python/standard/base.h"

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

void nd_slot_link(nd_base *base, nd_slot *slot)
{
    lock(base);
    link_first(base, slot);
    unlock(base);
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

nd_slot *nd_slot_find(nd_base *base, const char *sql, size_t size)
{
    lock(base);
    nd_slot *found = base->first;
    while (found != NULL && !(found->is_idle && found->size == size && memcmp(found->sql, sql, size) == 0))
        found = found->next;
    if (found != NULL) {
        sqlite3_stmt *const prepared = unlinked(base, found);
        found->prepared = prepared;
        found->is_idle = 0;
        link_first(base, found);
    }
    unlock(base);
    return found;
}

sqlite3_stmt *nd_slot_keep(nd_base *base, nd_slot *slot, sqlite3_stmt *prepared)
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
