/* standard.h: what the files of this folder share: a connection of Python's sqlite3 module, or of pysqlite3, and our statements on it.
 *
 * They run on the connection of SQLite below Python's: the application's row and text factories, converters, adapters and implicit
 * BEGINs never touch them, and they touch nothing of the application's. Errors are apsw's, as everywhere in the package.
 *
 * Whoever runs a statement has the connection's own mutex. It is taken while Python's lock is held, right after a look at whether
 * the connection is open: Python closes one only under its lock, so until the mutex is given back it stays. Nobody waits for the
 * mutex with Python's lock, since whoever has it may be waiting for that one; and most functions of SQLite take it, one version or
 * another, so none is called without it. */
#ifndef ND_PYTHON_STANDARD_H
#define ND_PYTHON_STANDARD_H

#include <stdatomic.h>

#include "python/module.h"
#include "python/rows.h"

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

/* A connection of the application's. */
typedef struct nd_handle {
    PyObject_HEAD
    nd_base *base;
    PyObject *connection, *look; /* look() fails where the connection is closed */
    unsigned long thread;        /* that alone may use it; 0: any */
    double timeout_s;
    long process_id;
} nd_handle;

/* The rows of a statement. */
typedef struct nd_rows {
    PyObject_HEAD
    nd_handle *of;
    nd_slot *slot;    /* NULL: at its end */
    PyObject *values; /* that are bound */
    int is_running;
    PyObject *ready; /* a list of rows that were read and are not given yet, or NULL */
} nd_rows;

/* ---- statements.c ---------------------------------------------------------------------------------------------------------- */

/* A new base with one reference; NULL if memory is out. */
nd_base *nd_base_new(const sqlite3_api_routines *sqlite3_api, sqlite3 *db);

void nd_base_release(nd_base *base);

/* Takes a statement out of the list; NULL where the connection has been closed since, and has ended it. */
sqlite3_stmt *nd_slot_take(nd_base *base, nd_slot *slot);

/* Takes out some statement, with its slot where it is idle; NULL: there is none. */
sqlite3_stmt *nd_slot_take_any(nd_base *base);

void nd_slot_free(nd_slot *slot);

int nd_is_blank(const char *sql);

/* The first statement of some SQL, with the mutex; NULL with an exception, or where there is none. */
nd_slot *nd_statement_for(nd_handle *self, const char *sql, size_t size, const char **next);

/* Keeps a statement for the next time. With the mutex. */
void nd_keep(nd_base *base, nd_slot *slot);

/* ---- handle.c ---------------------------------------------------------------------------------------------------------------- */

/* 1, or 0 with an exception. Python's lock is held from the look on: a collection of garbage, which gives it up, is put off. */
int nd_require_open(nd_handle *self);

/* Takes the mutex; 0 with an exception. */
int nd_enter(nd_handle *self);

void nd_leave(nd_handle *self);

/* nd_raise_failure for this connection. */
void nd_raise_on(nd_handle *self, nd_failure what);

/* ---- cursor.c ------------------------------------------------------------------------------------------------------------------ */

nd_rows *nd_rows_new(nd_handle *of);

/* Runs a statement with its values to its first row, or to its end. Leaves the mutex. 0 with an exception. */
int nd_rows_start(nd_rows *self, nd_slot *slot, PyObject *values, int to_the_end);

/* ---- vtabs.c ------------------------------------------------------------------------------------------------------------------- */

/* Registers the modules of SQLite on the connection; an SQLite result code. */
int nd_register_standard(nd_base *base);

/* From now on the end of the open transaction is noted in the base; an SQLite result code. */
int nd_watch_transaction(nd_base *base);

#endif
