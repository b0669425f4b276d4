/* base.h: what the package keeps of one connection of Python's sqlite3 module, or of pysqlite3. */
#ifndef ND_PYTHON_STANDARD_BASE_H
#define ND_PYTHON_STANDARD_BASE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sqlite3ext.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ND_ARRAY_TYPE "neardup_array" /* of the pointers that the table function takes */

#define ND_NO_END 0 /* how a transaction ended */
#define ND_COMMITTED 1
#define ND_ROLLED_BACK 2

/* A statement of ours. Linked into its base as long as `prepared` is not NULL. */
typedef struct nd_slot {
    struct nd_slot *previous, *next;
    sqlite3_stmt *prepared;
    char *sql;
    size_t size;
    int is_idle; /* nobody runs it: it stays prepared until it is wanted again */
} nd_slot;

/* Of one connection; shared by the Python object, and by the modules of SQLite that are registered on the connection.
 *
 * The list of slots is changed under `lock`, for which nobody waits for anything else. Whoever runs a statement has the mutex of
 * the connection too. */
typedef struct nd_base {
    atomic_int references;
    const sqlite3_api_routines *api; /* of the library that the connection belongs to */
    sqlite3 *db;
    PyThread_type_lock lock;
    nd_slot *first;
    int idle_count;
    sqlite3_stmt *watch;  /* see nd_watch_transaction; under the mutex of the connection */
    int is_watched;       /* the end of the open transaction will be heard of */
    atomic_int vetoes;    /* while there are some, a COMMIT rolls back */
    atomic_int first_end; /* of the transactions that have ended since Python has looked: how the first one did */
} nd_base;

/* Values for the table function, which stay where they are while a statement runs. */
typedef struct nd_array {
    int type; /* SQLITE_INTEGER, SQLITE_TEXT or SQLITE_BLOB */
    int64_t count;
    const int64_t *numbers; /* of integers */
    const char **items;     /* of others */
    int64_t *sizes;
} nd_array;

/* A new base with one reference; NULL if memory is out. */
nd_base *nd_base_new(const sqlite3_api_routines *sqlite3_api, sqlite3 *db);

void nd_base_release(nd_base *base);

void nd_slot_link(nd_base *base, nd_slot *slot);

/* Takes a statement out of the list; NULL where the connection has been closed since, and has ended it. */
sqlite3_stmt *nd_slot_take(nd_base *base, nd_slot *slot);

/* Takes out some statement, with its slot where it is idle; NULL: there is none. */
sqlite3_stmt *nd_slot_take_any(nd_base *base);

/* The idle statement with this text, which is idle no more; NULL: there is none. */
nd_slot *nd_slot_find(nd_base *base, const char *sql, size_t size);

/* Links a slot with its statement, which is idle from now on. Returns a statement to finalize, since there are too many. */
sqlite3_stmt *nd_slot_keep(nd_base *base, nd_slot *slot, sqlite3_stmt *prepared);

void nd_slot_free(nd_slot *slot);

/* Registers the modules below on the connection; an SQLite result code. */
int nd_register_standard(nd_base *base);

/* From now on the end of the open transaction is noted in the base; an SQLite result code. */
int nd_watch_transaction(nd_base *base);

#endif
