/* objects.h: what the objects of the module neardup_db._standard have in common.
 *
 * Whoever runs a statement has the connection's own mutex. It is taken while Python's lock is held, right after a look at whether
 * the connection is open: Python closes one only under its lock, so until the mutex is given back it stays. Nobody waits for the
 * mutex with Python's lock, since whoever has it may be waiting for that one; and most functions of SQLite take it, one version or
 * another, so none is called without it. */
#ifndef ND_PYTHON_STANDARD_OBJECTS_H
#define ND_PYTHON_STANDARD_OBJECTS_H
#include "python/standard/base.h"

/* Types of this module, and what it has of apsw's. */
typedef union nd_state {
    struct {
        PyTypeObject *handle_type, *rows_type, *array_type, *hold_type;
        PyObject *exception_for, *busy_error, *closed_error, *threading_error;
    };
    PyObject *all[8];
} nd_state;

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

/* Values for the table function. */
typedef struct nd_array_object {
    PyObject_HEAD
    PyObject *owner; /* of what is pointed to */
    nd_array values;
} nd_array_object;

/* While there is one, a COMMIT rolls back. */
typedef struct nd_hold {
    PyObject_HEAD
    nd_base *base;
} nd_hold;

/* The library and the connection that loaded this file last in this thread; db is NULL where it was asked for already. */
typedef struct nd_loaded {
    sqlite3 *db;
    const sqlite3_api_routines *api;
} nd_loaded;

/* An error of SQLite as it was while the mutex was held. */
typedef struct nd_failure {
    int code;
    char *message;
} nd_failure;

extern PyType_Spec nd_handle_spec, nd_rows_spec, nd_array_spec, nd_hold_spec;

/* ---- module.c ------------------------------------------------------------------------------------------------------------ */

const nd_state *nd_state_of(PyObject *self);

PyObject *nd_allocate(PyTypeObject *type);

void nd_free_object(PyObject *self);

nd_loaded nd_take_loaded(void);

/* ---- turn.c -------------------------------------------------------------------------------------------------------------- */

/* 1, or 0 with an exception. Python's lock is held from the look on: a collection of garbage, which gives it up, is put off. */
int nd_require_open(nd_handle *self);

/* Takes the mutex; 0 with an exception. */
int nd_enter(nd_handle *self);

void nd_leave(nd_handle *self);

/* ---- statement_cache.c -------------------------------------------------------------------------------------------------------- */

/* With the mutex. */
nd_failure nd_failure_of(nd_base *base, int code);

/* Raises it, and frees its message. */
void nd_raise_failure(const nd_handle *self, nd_failure what);

int nd_is_blank(const char *sql);

/* The first statement of some SQL, with the mutex; NULL with an exception, or where there is none. */
nd_slot *nd_statement_for(nd_handle *self, const char *sql, size_t size, const char **next);

/* Keeps a statement for the next time. With the mutex. */
void nd_keep(nd_base *base, nd_slot *slot);

/* ---- cursor.c -------------------------------------------------------------------------------------------------------------- */

nd_rows *nd_rows_new(nd_handle *of);

/* Runs a statement with its values to its first row, or to its end. Leaves the mutex. 0 with an exception. */
int nd_rows_start(nd_rows *self, nd_slot *slot, PyObject *values, int to_the_end);

#endif
