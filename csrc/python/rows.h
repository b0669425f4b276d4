/* rows.h: rows and values between SQLite and Python, by the functions of whichever library a connection belongs to. The parameter
 * `sqlite3_api` has the name by which the macros of sqlite3ext.h call. */
#ifndef ND_PYTHON_ROWS_H
#define ND_PYTHON_ROWS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sqlite3ext.h>
#include <stddef.h>
#include <stdint.h>

/* A value of a row. */
typedef struct nd_cell {
    int type; /* SQLITE_INTEGER, ... */
    union {
        int64_t integer;
        double real;
        struct {
            size_t at, size; /* in the answer's bytes */
        };
    };
} nd_cell;

/* The rows of a run, before they are Python's. */
typedef struct nd_answer {
    int columns;
    nd_cell *cells;
    size_t cell_count, cell_room;
    char *bytes;
    size_t byte_count, byte_room;
} nd_answer;

/* Adds the next row, or all that are left. SQLITE_ROW where there may be more, SQLITE_DONE, or why not. Needs no lock of Python's. */
int nd_step(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *from, int are_all_wanted, nd_answer *out);

/* All rows, as a list of tuples. */
PyObject *nd_rows_of(const nd_answer *from);

void nd_free_answer(const sqlite3_api_routines *sqlite3_api, nd_answer *this);

/* Binds a value, whose bytes stay where they are while the statement runs; an SQLite result code, -1 with an exception. */
int nd_bind_value(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *to, int place, PyObject *value);

/* An error of SQLite as it was while the mutex was held. */
typedef struct nd_failure {
    int code;
    char *message;
} nd_failure;

nd_failure nd_failure_of(const sqlite3_api_routines *sqlite3_api, sqlite3 *db, int code);

/* Raises the exception of apsw for it, unless a function of Python's that SQLite has called did; frees its message. */
void nd_raise_failure(const sqlite3_api_routines *sqlite3_api, PyObject *exception_for, nd_failure what);

#endif
