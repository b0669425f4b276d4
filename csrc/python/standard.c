/* standard.c: the module neardup_db._standard: statements of ours on a connection of Python's sqlite3 module, or of pysqlite3.
 *
 * They run on the connection of SQLite below Python's: the application's row and text factories, converters, adapters and implicit
 * BEGINs never touch them, and they touch nothing of the application's. Errors are apsw's, as everywhere in the package.
 *
 * The connection is found out by loading this file into it as an extension of SQLite: with it come the functions of the library
 * that it belongs to. They are kept with the connection, so that this module serves any number of libraries.
 *
 * Whoever runs a statement has the connection's own mutex. It is taken while Python's lock is held, right after a look at whether
 * the connection is open: Python closes one only under its lock, so until the mutex is given back it stays. Nobody waits for the
 * mutex with Python's lock, since whoever has it may be waiting for that one; and most functions of SQLite take it, one version or
 * another, so none is called without it. */
#include "neardup_export.h"
#include "python/rows.h"
#include "python/standard.h"
#include "python/system.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#define NAP_NS 20000          /* between two looks at a mutex that another thread has, at first, */
#define NAP_MOST_NS 2000000   /* and at last */

/* What SQLite has handed over to this thread, when it loaded this file into a connection. */
static _Thread_local struct {
    sqlite3 *db;
    const sqlite3_api_routines *api;
} loaded;

typedef struct state {
    PyTypeObject *handle_type, *rows_type, *array_type, *hold_type;
    PyObject *exception_for, *busy_error, *closed_error, *threading_error; /* of apsw */
} state;

typedef struct handle {
    PyObject_HEAD
    nd_base *base;
    PyObject *connection, *look; /* look() fails where the connection is closed */
    unsigned long thread;        /* that alone may use it; 0: any */
    double timeout_s;
    long process_id;
} handle;

typedef struct hold {
    PyObject_HEAD
    nd_base *base; /* NULL: ended */
} hold;

typedef struct array {
    PyObject_HEAD
    PyObject *owner; /* of what is pointed to */
    nd_array values;
} array;

typedef struct rows {
    PyObject_HEAD
    handle *of;
    nd_slot *slot;    /* NULL: at its end */
    PyObject *values; /* that are bound */
    int is_running;
    PyObject *ready;  /* a list of rows that were read and are not given yet, or NULL */
} rows;

static const state *state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

static void free_object(PyObject *self)
{
    PyTypeObject *const type = Py_TYPE(self);
    const freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- the turn to use the connection -------------------------------------------------------------------------------------- */

/* 1, or 0 with an exception. Python's lock is held from the look on: a collection of garbage, which gives it up, is put off. */
static int require_open(handle *self)
{
    PyObject *looked = NULL;
    if (nd_process_id() == self->process_id) {
        const int was_enabled = PyGC_Disable();
        looked = PyObject_CallNoArgs(self->look);
        if (was_enabled)
            PyGC_Enable();
    }
    if (looked == NULL) {
        PyErr_SetString(state_of((PyObject *)self)->closed_error, "the connection that was given is closed: open it, and the index, again");
        return 0;
    }
    Py_DECREF(looked);
    return 1;
}

static int require_thread(const handle *self, const state *held)
{
    if (self->thread == 0 || self->thread == PyThread_get_thread_ident())
        return 1;
    PyErr_SetString(held->threading_error, "the connection that was given belongs to the thread that opened it: use the index there, or "
                                           "open the connection with check_same_thread=False");
    return 0;
}

/* Takes the mutex; 0 with an exception. */
static int enter(handle *self)
{
    const state *const held = state_of((PyObject *)self);
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    const long long began = nd_now_ns();
    long nap_ns = NAP_NS;
    if (!require_thread(self, held))
        return 0;
    while (require_open(self)) {
        if (sqlite3_mutex_try(sqlite3_db_mutex(self->base->db)) == SQLITE_OK)
            return 1;
        if ((double)(nd_now_ns() - began) / 1e9 > self->timeout_s) {
            PyErr_SetString(held->busy_error, "another thread is using the connection that was given");
            return 0;
        }
        Py_BEGIN_ALLOW_THREADS
        nd_nap(nap_ns);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() != 0)
            return 0;
        nap_ns = nap_ns > NAP_MOST_NS / 2 ? NAP_MOST_NS : 2 * nap_ns;
    }
    return 0;
}

static void leave(handle *self)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    sqlite3_mutex_leave(sqlite3_db_mutex(self->base->db));
}

/* ---- what stays prepared --------------------------------------------------------------------------------------------------- */

/* Keeps a statement for the next time. With the mutex. */
static void keep(nd_base *base, nd_slot *slot)
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

static int is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n;")] == '\0';
}

/* An error of SQLite as it was while the mutex was held. */
typedef struct failure {
    int code;
    char *message;
} failure;

static failure failure_of(nd_base *base, int code)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    if (code == SQLITE_NOMEM)
        return (failure){code, sqlite3_mprintf("%s", sqlite3_errstr(code))};
    const int extended = sqlite3_extended_errcode(base->db);
    return (failure){(extended & 0xff) == (code & 0xff) ? extended : code, sqlite3_mprintf("%s", sqlite3_errmsg(base->db))};
}

static void raise_failure(const handle *self, failure what)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    if (PyErr_Occurred() == NULL) /* of a function of Python's that SQLite has called */
        nd_raise(state_of((PyObject *)self)->exception_for, what.code, what.message == NULL ? "out of memory" : what.message);
    sqlite3_free(what.message);
}

/* Prepares the first statement of SQL, and says where the next begins. Leaves the mutex. NULL with an exception, or where there is
 * none. */
static nd_slot *prepare(handle *self, const char *sql, size_t size, const char **next)
{
    nd_base *const base = self->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    nd_slot *slot = calloc(1, sizeof *slot);
    failure what = {SQLITE_OK, NULL};
    int code = SQLITE_NOMEM, is_there = 0;
    Py_BEGIN_ALLOW_THREADS
    if (slot != NULL)
        code = sqlite3_prepare_v3(base->db, sql, (int)size + 1, SQLITE_PREPARE_PERSISTENT, &slot->prepared, next);
    if (code != SQLITE_OK)
        what = failure_of(base, code);
    else if ((is_there = slot->prepared != NULL))
        nd_slot_link(base, slot);
    leave(self);
    Py_END_ALLOW_THREADS
    if (is_there) {
        slot->sql = is_blank(*next) ? malloc(size + 1) : NULL; /* one of several is not kept */
        if (slot->sql != NULL)
            memcpy(slot->sql, sql, size + 1);
        slot->size = size;
        return slot;
    }
    if (slot != NULL)
        nd_slot_free(slot);
    if (code != SQLITE_OK)
        raise_failure(self, what);
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static int bind_one(handle *self, sqlite3_stmt *to, int place, PyObject *value, PyObject *owners)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    if (PyObject_TypeCheck(value, state_of((PyObject *)self)->array_type))
        return sqlite3_bind_pointer(to, place, &((array *)value)->values, ND_ARRAY_TYPE, NULL);
    if (value == Py_None || PyLong_Check(value) || PyFloat_Check(value) || PyBytes_Check(value) || PyUnicode_Check(value))
        return nd_bind_value(sqlite3_api, to, place, value);
    PyObject *const view = PyMemoryView_FromObject(value); /* of another buffer */
    PyObject *const bytes = view == NULL ? NULL : PyBytes_FromObject(view);
    const int failed = bytes == NULL || PyList_Append(owners, bytes) != 0;
    Py_XDECREF(view);
    const int code = failed ? -1 : nd_bind_value(sqlite3_api, to, place, bytes);
    Py_XDECREF(bytes);
    return code;
}

/* A new reference to the value of a parameter, by its place in a sequence, or by its name in a mapping. */
static PyObject *value_at(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *to, int place, PyObject *values)
{
    if (PyTuple_Check(values) || PyList_Check(values))
        return PySequence_GetItem(values, place - 1);
    const char *const name = sqlite3_bind_parameter_name(to, place);
    if (name != NULL)
        return PyMapping_GetItemString(values, name + 1);
    PyErr_SetString(PyExc_TypeError, "values by name for a parameter without one");
    return NULL;
}

/* Binds all values; owners: gets what has to live as long. A result code, or -1 with an exception. */
static int bind(handle *self, sqlite3_stmt *to, PyObject *values, PyObject *owners)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    const int count = sqlite3_bind_parameter_count(to);
    const Py_ssize_t given = values == Py_None ? 0 : PyObject_Size(values);
    if (given < 0)
        return -1;
    if (!PyDict_Check(values) && given != count) {
        PyErr_Format(PyExc_TypeError, "%zd values for %d parameters", given, count);
        return -1;
    }
    int code = SQLITE_OK;
    for (int place = 1; place <= count && code == SQLITE_OK; place++) {
        PyObject *const value = value_at(sqlite3_api, to, place, values);
        code = value == NULL || PyList_Append(owners, value) != 0 ? -1 : bind_one(self, to, place, value, owners);
        Py_XDECREF(value); /* owners has it */
    }
    return code;
}

/* ---- steps --------------------------------------------------------------------------------------------------------------------- */

/* In a transaction, before a statement that may write, and after one that has begun it. */
static int watch(nd_base *base, sqlite3_stmt *prepared)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    if (base->is_watched || sqlite3_get_autocommit(base->db) || sqlite3_stmt_readonly(prepared))
        return SQLITE_OK;
    return nd_watch_transaction(base);
}

/* SQLITE_ROW where there may be more rows, SQLITE_DONE, or why not. Without Python's lock. */
static int step(nd_base *base, sqlite3_stmt *from, int are_all_wanted, nd_answer *out)
{
    const sqlite3_api_routines *const sqlite3_api = base->api;
    int code = watch(base, from);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(from);
    out->columns = sqlite3_column_count(from); /* now: where the schema has changed the first step prepares it again */
    while (code == SQLITE_ROW) {
        code = nd_take_row(sqlite3_api, from, out->columns, out);
        code = code != SQLITE_OK ? code : are_all_wanted ? sqlite3_step(from) : SQLITE_ROW;
        if (!are_all_wanted)
            break;
    }
    const int watched = code == SQLITE_DONE || code == SQLITE_ROW ? watch(base, from) : SQLITE_OK;
    return watched == SQLITE_OK ? code : watched;
}

/* Reads the next row, or all that are left, and ends the statement where there are no more. Leaves the mutex. 0 with an
 * exception. */
static int advance(rows *self, int are_all_wanted)
{
    nd_base *const base = self->of->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    nd_slot *const slot = self->slot;
    nd_answer found;
    failure what = {SQLITE_OK, NULL};
    memset(&found, 0, sizeof found);
    self->is_running = 1;
    Py_BEGIN_ALLOW_THREADS
    const int code = step(base, slot->prepared, are_all_wanted, &found);
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        what = failure_of(base, code);
    if (code != SQLITE_ROW) {
        self->slot = NULL;
        keep(base, slot);
    }
    leave(self->of);
    Py_END_ALLOW_THREADS
    int is_done = 0;
    self->is_running = 0;
    if (what.code != SQLITE_OK || PyErr_Occurred() != NULL) {
        raise_failure(self->of, what);
    } else {
        PyObject *const before = self->ready;
        self->ready = nd_rows_of(&found, found.columns);
        Py_XDECREF(before);
        is_done = self->ready != NULL;
    }
    nd_free_answer(sqlite3_api, &found);
    return is_done;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------------------ */

/* Ends the statement, in any thread, whatever becomes of the connection. */
static void end_rows(rows *self)
{
    nd_slot *const slot = self->slot;
    self->slot = NULL;
    if (slot == NULL || nd_process_id() != self->of->process_id) /* else the parent's */
        return;
    nd_base *const base = self->of->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    const int is_open = require_open(self->of);
    if (is_open && sqlite3_mutex_try(sqlite3_db_mutex(base->db)) == SQLITE_OK) {
        keep(base, slot);
        leave(self->of);
    } else { /* taken out of the list it keeps the connection's memory */
        sqlite3_stmt *const prepared = nd_slot_take(base, slot);
        Py_BEGIN_ALLOW_THREADS
        sqlite3_finalize(prepared);
        Py_END_ALLOW_THREADS
        nd_slot_free(slot);
    }
    PyErr_Restore(kind, error, trace);
}

/* Takes the mutex for a statement that is not at its end; 0 with an exception. */
static int enter_rows(rows *self)
{
    if (!enter(self->of))
        return 0;
    if (self->slot != NULL && self->slot->prepared != NULL && !self->is_running)
        return 1;
    leave(self->of);
    PyErr_SetString(state_of((PyObject *)self)->threading_error, "the statement was ended, or is running, elsewhere");
    return 0;
}

/* The next row, a new reference; NULL without an exception: there is none. */
static PyObject *next_of(rows *self)
{
    if (self->ready == NULL && self->slot == NULL)
        return NULL;
    if (self->ready == NULL && (!enter_rows(self) || !advance(self, 0)))
        return NULL;
    PyObject *const row = PyList_Size(self->ready) > 0 ? PyList_GetItem(self->ready, 0) : NULL;
    Py_XINCREF(row);
    Py_CLEAR(self->ready);
    return row;
}

static PyObject *rows_fetchone(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *const row = next_of((rows *)self);
    if (row == NULL && PyErr_Occurred() == NULL)
        return Py_NewRef(Py_None);
    return row;
}

static PyObject *rows_fetchall(PyObject *this, PyObject *unused)
{
    rows *const self = (rows *)this;
    (void)unused;
    PyObject *first = self->ready;
    self->ready = NULL;
    if (self->slot != NULL) {
        if (!enter_rows(self) || !advance(self, 1)) {
            Py_XDECREF(first);
            return NULL;
        }
        if (first != NULL && PyList_SetSlice(self->ready, 0, 0, first) != 0) {
            Py_DECREF(first);
            return NULL;
        }
        Py_XDECREF(first);
        first = self->ready;
        self->ready = NULL;
    }
    return first == NULL ? PyList_New(0) : first;
}

static PyObject *rows_close(PyObject *this, PyObject *unused)
{
    rows *const self = (rows *)this;
    (void)unused;
    if (self->is_running) {
        PyErr_SetString(state_of(this)->threading_error, "the statement is running");
        return NULL;
    }
    Py_CLEAR(self->ready);
    end_rows(self);
    return Py_NewRef(Py_None);
}

static void rows_dealloc(PyObject *this)
{
    rows *const self = (rows *)this;
    if (self->of != NULL)
        end_rows(self);
    Py_XDECREF(self->ready);
    Py_XDECREF(self->values);
    Py_XDECREF(self->of);
    free_object(this);
}

static PyMethodDef rows_methods[] = {
    {"fetchone", rows_fetchone, METH_NOARGS, PyDoc_STR("fetchone()\n--\n\nThe next row, or None.")},
    {"fetchall", rows_fetchall, METH_NOARGS, PyDoc_STR("fetchall()\n--\n\nAll rows that are left.")},
    {"close", rows_close, METH_NOARGS, PyDoc_STR("close()\n--\n\nEnd the statement.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("The rows of a statement, as tuples.")},
    {Py_tp_dealloc, (void *)rows_dealloc},
    {Py_tp_methods, rows_methods},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)next_of},
    {0, NULL},
};

static PyType_Spec rows_spec = {"neardup_db._standard.Rows", sizeof(rows), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    rows_slots};

/* ---- Array ------------------------------------------------------------------------------------------------------------------------- */

/* Where one text or blob stands. */
static int point_to(nd_array *to, Py_ssize_t place, PyObject *value)
{
    Py_ssize_t size;
    if (to->type == SQLITE_BLOB) {
        if (PyBytes_AsStringAndSize(value, (char **)&to->items[place], &size) != 0)
            return -1;
    } else if ((to->items[place] = PyUnicode_AsUTF8AndSize(value, &size)) == NULL) {
        return -1;
    }
    to->sizes[place] = size;
    return 0;
}

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *values;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O:Array", &values))
        return NULL;
    if (!PyBytes_Check(values) && !PyTuple_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "give the bytes of int64, or a tuple of str or of bytes");
        return NULL;
    }
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    array *const self = (array *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    nd_array *const made = &self->values;
    Py_INCREF(values);
    self->owner = values;
    if (PyBytes_Check(values)) {
        made->type = SQLITE_INTEGER;
        made->count = PyBytes_Size(values) / (Py_ssize_t)sizeof *made->numbers;
        made->numbers = (const int64_t *)(const void *)PyBytes_AsString(values); /* Python's bytes begin at a multiple of 8 */
        return (PyObject *)self;
    }
    const Py_ssize_t count = PyTuple_Size(values);
    made->type = count > 0 && PyBytes_Check(PyTuple_GetItem(values, 0)) ? SQLITE_BLOB : SQLITE_TEXT;
    made->items = calloc((size_t)count + 1, sizeof *made->items);
    made->sizes = calloc((size_t)count + 1, sizeof *made->sizes);
    if (made->items == NULL || made->sizes == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (; made->count < count; made->count++)
        if (point_to(made, (Py_ssize_t)made->count, PyTuple_GetItem(values, (Py_ssize_t)made->count)) != 0) {
            Py_DECREF(self);
            return NULL;
        }
    return (PyObject *)self;
}

static void array_dealloc(PyObject *this)
{
    array *const self = (array *)this;
    free(self->values.items);
    free(self->values.sizes);
    Py_XDECREF(self->owner);
    free_object(this);
}

static PyType_Slot array_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("Array(values)\n--\n\nThe bytes of int64, or a tuple of str, or of bytes, for the table function neardup_array.")},
    {Py_tp_new, (void *)array_new},
    {Py_tp_dealloc, (void *)array_dealloc},
    {0, NULL},
};

static PyType_Spec array_spec = {"neardup_db._standard.Array", sizeof(array), 0, Py_TPFLAGS_DEFAULT, array_slots};

/* ---- Hold ---------------------------------------------------------------------------------------------------------------------------- */

/* Runs no Python code, and cannot fail: an interrupt leaves none behind. */
static void end_hold(hold *self)
{
    nd_base *const base = self->base;
    self->base = NULL;
    if (base == NULL)
        return;
    (void)atomic_fetch_sub(&base->vetoes, 1);
    nd_base_release(base);
}

static void hold_dealloc(PyObject *self)
{
    end_hold((hold *)self);
    free_object(self);
}

static PyType_Slot hold_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("A COMMIT rolls back until nobody has this any more.")},
    {Py_tp_dealloc, (void *)hold_dealloc},
    {0, NULL},
};

static PyType_Spec hold_spec = {"neardup_db._standard.Hold", sizeof(hold), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    hold_slots};

/* ---- Handle -------------------------------------------------------------------------------------------------------------------------- */

static PyObject *handle_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *connection, *look;
    unsigned long long thread;
    double timeout_s;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "OOKd:Handle", &connection, &look, &thread, &timeout_s))
        return NULL;
    sqlite3 *const db = loaded.db;
    const sqlite3_api_routines *const sqlite3_api = loaded.api;
    loaded.db = NULL;
    if (db == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "load this file into the connection right before");
        return NULL;
    }
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    handle *const self = (handle *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->process_id = nd_process_id();
    self->thread = (unsigned long)thread;
    self->timeout_s = timeout_s;
    Py_INCREF(connection);
    self->connection = connection;
    Py_INCREF(look);
    self->look = look;
    self->base = nd_base_new(sqlite3_api, db);
    if (self->base == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *handle_register(PyObject *this, PyObject *unused)
{
    handle *const self = (handle *)this;
    (void)unused;
    if (!enter(self))
        return NULL;
    nd_enter_files_anew_in_children(self->base->api);
    const int code = nd_register_standard(self->base);
    const failure what = code == SQLITE_OK ? (failure){code, NULL} : failure_of(self->base, code);
    leave(self);
    if (code == SQLITE_OK)
        return Py_NewRef(Py_None);
    raise_failure(self, what);
    return NULL;
}

/* The connection may lead to the index, in a class of the application's: without this neither would ever be freed. */
static int handle_traverse(PyObject *this, visitproc visit, void *arg)
{
    handle *const self = (handle *)this;
    Py_VISIT(Py_TYPE(this));
    Py_VISIT(self->connection);
    Py_VISIT(self->look);
    return 0;
}

static void handle_dealloc(PyObject *this)
{
    handle *const self = (handle *)this;
    PyObject_GC_UnTrack(this);
    if (self->base != NULL)
        nd_base_release(self->base);
    Py_XDECREF(self->look);
    Py_XDECREF(self->connection);
    free_object(this);
}

/* A statement with its values, run to its first row, or to its end. */
static int start(rows *self, nd_slot *slot, PyObject *values, int to_the_end)
{
    const int code = bind(self->of, slot->prepared, values, self->values);
    self->slot = slot;
    if (code == SQLITE_OK)
        return advance(self, to_the_end);
    const failure what = code < 0 ? (failure){SQLITE_OK, NULL} : failure_of(self->of->base, code);
    self->slot = NULL;
    keep(self->of->base, slot);
    leave(self->of);
    if (code > 0)
        raise_failure(self->of, what);
    return 0;
}

/* The first statement of some SQL, with the mutex; NULL with an exception, or where there is none. */
static nd_slot *prepared_for(handle *self, const char *sql, size_t size, const char **next)
{
    if (!enter(self))
        return NULL;
    nd_slot *slot = nd_slot_find(self->base, sql, size);
    *next = sql + size;
    if (slot != NULL)
        return slot;
    slot = prepare(self, sql, size, next);
    if (slot == NULL)
        return NULL;
    if (enter(self)) {
        if (slot->prepared != NULL)
            return slot;
        leave(self);
        PyErr_SetString(state_of((PyObject *)self)->closed_error, "the connection that was given was closed meanwhile");
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

static rows *rows_new(handle *of)
{
    PyTypeObject *const type = state_of((PyObject *)of)->rows_type;
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    rows *const made = (rows *)allocate(type, 0);
    if (made == NULL)
        return NULL;
    Py_INCREF(of);
    made->of = of;
    made->values = PyList_New(0);
    if (made->values == NULL) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

static PyObject *handle_execute(PyObject *this, PyObject *args)
{
    handle *const self = (handle *)this;
    PyObject *values = Py_None;
    const char *sql;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "s#|O:execute", &sql, &size, &values))
        return NULL;
    const char *const end = sql + size;
    rows *const made = rows_new(self);
    while (made != NULL && !is_blank(sql)) {
        const char *next = end;
        nd_slot *const slot = prepared_for(self, sql, (size_t)(end - sql), &next);
        if (slot == NULL && PyErr_Occurred() == NULL)
            break; /* a comment */
        Py_CLEAR(made->ready);
        if (slot == NULL || !start(made, slot, values, !is_blank(next))) {
            Py_DECREF(made);
            return NULL;
        }
        sql = next;
    }
    return (PyObject *)made;
}

static PyObject *handle_backup(PyObject *this, PyObject *args)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    const char *path;
    if (!PyArg_ParseTuple(args, "s:backup", &path) || !enter(self))
        return NULL;
    sqlite3 *copy = NULL;
    failure what = {SQLITE_OK, NULL};
    Py_BEGIN_ALLOW_THREADS
    int code = sqlite3_open_v2(path, &copy, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK) {
        sqlite3_backup *const backup = sqlite3_backup_init(copy, "main", self->base->db, "main");
        code = backup == NULL ? sqlite3_errcode(copy) : sqlite3_backup_step(backup, -1);
        (void)sqlite3_backup_finish(backup);
    }
    if (code != SQLITE_OK && code != SQLITE_DONE) {
        what.code = code;
        what.message = sqlite3_mprintf("%s", sqlite3_errstr(code));
    }
    (void)sqlite3_close(copy);
    leave(self);
    Py_END_ALLOW_THREADS
    if (what.code == SQLITE_OK)
        return Py_NewRef(Py_None);
    raise_failure(self, what);
    return NULL;
}

static PyObject *handle_data_version(PyObject *this, PyObject *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    unsigned version = 0;
    (void)unused;
    if (!enter(self))
        return NULL;
    (void)sqlite3_file_control(self->base->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    leave(self);
    return PyLong_FromUnsignedLong(version);
}

static PyObject *handle_interrupt(PyObject *this, PyObject *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    if (!require_open(self))
        return NULL;
    sqlite3_interrupt(self->base->db);
    return Py_NewRef(Py_None);
}

static PyObject *handle_hold(PyObject *this, PyObject *unused)
{
    PyTypeObject *const type = state_of(this)->hold_type;
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    hold *const made = (hold *)allocate(type, 0);
    (void)unused;
    if (made == NULL)
        return NULL;
    made->base = ((handle *)this)->base;
    (void)atomic_fetch_add(&made->base->references, 1);
    (void)atomic_fetch_add(&made->base->vetoes, 1);
    return (PyObject *)made;
}

static PyObject *handle_ended(PyObject *this, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(atomic_load(&((handle *)this)->base->first_end));
}

static PyObject *handle_told(PyObject *this, PyObject *unused)
{
    (void)unused;
    atomic_store(&((handle *)this)->base->first_end, ND_NO_END);
    return Py_NewRef(Py_None);
}

static PyObject *handle_total_changes(PyObject *this, PyObject *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    if (!enter(self))
        return NULL;
    const int count = sqlite3_total_changes(self->base->db);
    leave(self);
    return PyLong_FromLong(count);
}

static PyObject *handle_changes(PyObject *this, PyObject *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    if (!enter(self))
        return NULL;
    const int count = sqlite3_changes(self->base->db);
    leave(self);
    return PyLong_FromLong(count);
}

static PyObject *handle_last_insert_rowid(PyObject *this, PyObject *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    if (!enter(self))
        return NULL;
    const long long number = sqlite3_last_insert_rowid(self->base->db);
    leave(self);
    return PyLong_FromLongLong(number);
}

static PyObject *handle_in_transaction(PyObject *this, void *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    if (!enter(self))
        return NULL;
    const int is_open = !sqlite3_get_autocommit(self->base->db);
    leave(self);
    return PyBool_FromLong(is_open);
}

static PyObject *handle_filename(PyObject *this, void *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    if (!enter(self))
        return NULL;
    const char *const name = sqlite3_db_filename(self->base->db, "main");
    PyObject *const made = PyUnicode_FromString(name == NULL ? "" : name);
    leave(self);
    return made;
}

static PyObject *handle_is_serialized(PyObject *this, void *unused)
{
    handle *const self = (handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    return require_open(self) ? PyBool_FromLong(sqlite3_db_mutex(self->base->db) != NULL) : NULL;
}

static PyObject *handle_library(PyObject *this, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)((handle *)this)->base->api);
}

static PyMethodDef handle_methods[] = {
    {"register", handle_register, METH_NOARGS, PyDoc_STR("register()\n--\n\nBefore anything else, where the connection is serialized.")},
    {"execute", handle_execute, METH_VARARGS,
     PyDoc_STR("execute(sql, values=None)\n--\n\nThe Rows of the last statement. values: by place, or a dict by name. Raises the errors of apsw.")},
    {"backup", handle_backup, METH_VARARGS, PyDoc_STR("backup(path)\n--\n\nCopy the main database to an empty file.")},
    {"data_version", handle_data_version, METH_NOARGS, PyDoc_STR("data_version()\n--\n\nSQLite's, of the state that was last seen.")},
    {"interrupt", handle_interrupt, METH_NOARGS, PyDoc_STR("interrupt()\n--\n\nEnd what the connection runs.")},
    {"hold", handle_hold, METH_NOARGS, PyDoc_STR("hold()\n--\n\nA Hold: a COMMIT rolls back as long as there is one.")},
    {"ended", handle_ended, METH_NOARGS,
     PyDoc_STR("ended()\n--\n\nOf the transactions that have ended since `told`, how the first one did: 0 none, 1 committed, 2 rolled back.")},
    {"told", handle_told, METH_NOARGS, PyDoc_STR("told()\n--\n\nWhoever had to know of the end does.")},
    {"total_changes", handle_total_changes, METH_NOARGS, NULL},
    {"changes", handle_changes, METH_NOARGS, NULL},
    {"last_insert_rowid", handle_last_insert_rowid, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef handle_properties[] = {
    {"in_transaction", handle_in_transaction, NULL, NULL, NULL},
    {"filename", handle_filename, NULL, NULL, NULL},
    {"library", handle_library, NULL, "A number that each library of SQLite in this process has for itself.", NULL},
    {"is_serialized", handle_is_serialized, NULL, "Whether threads may share the connection.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef handle_members[] = {
    {"timeout", T_DOUBLE, offsetof(handle, timeout_s), 0, "Seconds to wait for another thread that uses the connection."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("Handle(connection, look, thread, timeout)\n--\n\nOf the connection into which this thread has just loaded this file.\n\n"
                                  "look() fails where it is closed; thread: the only one that may use it, 0 for any.")},
    {Py_tp_new, (void *)handle_new},
    {Py_tp_traverse, (void *)handle_traverse},
    {Py_tp_dealloc, (void *)handle_dealloc},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_properties},
    {Py_tp_members, handle_members},
    {0, NULL},
};

static PyType_Spec handle_spec = {"neardup_db._standard.Handle", sizeof(handle), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, handle_slots};

/* ---- the module ------------------------------------------------------------------------------------------------------------------------ */

static PyTypeObject *new_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyObject_SetAttrString(module, name, type) != 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int execute(PyObject *module)
{
    state *const held = PyModule_GetState(module);
    PyObject *const apsw = PyImport_ImportModule("apsw");
    if (apsw == NULL)
        return -1;
    held->exception_for = PyObject_GetAttrString(apsw, "exception_for");
    held->busy_error = PyObject_GetAttrString(apsw, "BusyError");
    held->closed_error = PyObject_GetAttrString(apsw, "ConnectionClosedError");
    held->threading_error = PyObject_GetAttrString(apsw, "ThreadingViolationError");
    Py_DECREF(apsw);
    held->handle_type = new_type(module, &handle_spec, "Handle");
    held->rows_type = new_type(module, &rows_spec, "Rows");
    held->array_type = new_type(module, &array_spec, "Array");
    held->hold_type = new_type(module, &hold_spec, "Hold");
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    const state *const held = PyModule_GetState(module);
    Py_VISIT(held->handle_type);
    Py_VISIT(held->rows_type);
    Py_VISIT(held->array_type);
    Py_VISIT(held->hold_type);
    Py_VISIT(held->exception_for);
    Py_VISIT(held->busy_error);
    Py_VISIT(held->closed_error);
    Py_VISIT(held->threading_error);
    return 0;
}

static int clear(PyObject *module)
{
    state *const held = PyModule_GetState(module);
    Py_CLEAR(held->handle_type);
    Py_CLEAR(held->rows_type);
    Py_CLEAR(held->array_type);
    Py_CLEAR(held->hold_type);
    Py_CLEAR(held->exception_for);
    Py_CLEAR(held->busy_error);
    Py_CLEAR(held->closed_error);
    Py_CLEAR(held->threading_error);
    return 0;
}

static PyObject *loaded_library(PyObject *module, PyObject *unused)
{
    const sqlite3_api_routines *const api = loaded.api;
    (void)module, (void)unused;
    loaded.db = NULL;
    return PyLong_FromVoidPtr((void *)(uintptr_t)api);
}

static PyMethodDef functions[] = {
    {"loaded_library", loaded_library, METH_NOARGS,
     PyDoc_STR("loaded_library()\n--\n\n`Handle.library` of the connection into which this thread has just loaded this file.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_standard",
    .m_doc = "Statements on a connection of Python's sqlite3 module.",
    .m_size = sizeof(state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__standard(void);

PyMODINIT_FUNC PyInit__standard(void)
{
    return PyModuleDef_Init(&definition);
}

ND_EXPORT int sqlite3_standard_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

/* Hands the connection over to this thread. SQLite finds the function by the name of the file. */
ND_EXPORT int sqlite3_standard_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    (void)message;
    loaded.db = db;
    loaded.api = api;
    return SQLITE_OK;
}
