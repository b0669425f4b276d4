/* module.h: what the files of the module neardup_db._python have in common. */
#ifndef ND_PYTHON_MODULE_H
#define ND_PYTHON_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sqlite3ext.h>
#include <stddef.h>
#include <stdint.h>

/* Types of this module, and what it has of Python's and of apsw's. */
typedef union nd_state {
    struct {
        PyTypeObject *guard_type, *handle_type, *rows_type;
        PyObject *isascii;                                                     /* str.isascii */
        PyObject *exception_for, *busy_error, *closed_error, *threading_error; /* NULL until apsw is imported */
    };
    PyObject *all[8];
} nd_state;

const nd_state *nd_state_of(PyObject *self);

PyObject *nd_allocate(PyTypeObject *type);

void nd_free_object(PyObject *self);

/* Imports apsw, where that was not done yet. The state, or NULL with an exception. */
const nd_state *nd_know_errors(PyTypeObject *type);

/* The library and the connection that loaded this file last in this thread; db is NULL where it was asked for already. */
typedef struct nd_loaded {
    sqlite3 *db;
    const sqlite3_api_routines *api;
} nd_loaded;

nd_loaded nd_take_loaded(void);

/* What the module consists of. */
extern PyType_Spec nd_guard_spec, nd_rlock_spec, nd_statement_spec, nd_handle_spec, nd_rows_spec;
extern PyMethodDef nd_text_functions[], nd_statement_functions[], nd_standard_functions[];

#endif
