/* cursor.c: the rows of a statement of ours. */
#include "python/standard/standard.h"
#include "python/system.h"
#include "neardup_values.h"

#include <string.h>

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static int bind_one(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *to, int place, PyObject *value, PyObject *owners)
{
    if (PyCapsule_IsValid(value, ND_VALUES_POINTER))
        return sqlite3_bind_pointer(to, place, PyCapsule_GetPointer(value, ND_VALUES_POINTER), ND_VALUES_POINTER, NULL);
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
static int bind(nd_handle *self, sqlite3_stmt *to, PyObject *values, PyObject *owners)
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
        code = value == NULL || PyList_Append(owners, value) != 0 ? -1 : bind_one(sqlite3_api, to, place, value, owners);
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
    int code = watch(base, from);
    if (code != SQLITE_OK)
        return code;
    code = nd_step(base->api, from, are_all_wanted, out);
    const int watched = code == SQLITE_DONE || code == SQLITE_ROW ? watch(base, from) : SQLITE_OK;
    return watched == SQLITE_OK ? code : watched;
}

/* Reads the next row, or all that are left, behind what is ready, and ends the statement where there are no more. Leaves the mutex. 0
 * with an exception. */
static int advance(nd_rows *self, int are_all_wanted)
{
    nd_base *const base = self->of->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    nd_slot *const slot = self->slot;
    nd_answer found;
    nd_failure what = {SQLITE_OK, NULL};
    memset(&found, 0, sizeof found);
    self->is_running = 1;
    Py_BEGIN_ALLOW_THREADS
    const int code = step(base, slot->prepared, are_all_wanted, &found);
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        what = nd_failure_of(base->api, base->db, code);
    if (code != SQLITE_ROW) {
        self->slot = NULL;
        nd_keep(base, slot);
    }
    nd_leave(self->of);
    Py_END_ALLOW_THREADS
    int is_done = 0;
    if (what.code != SQLITE_OK || PyErr_Occurred() != NULL) {
        nd_raise_on(self->of, what);
    } else {
        PyObject *const before = self->ready;
        self->ready = NULL; /* the new tuples may start a garbage collection, whose callbacks may fetch rows too */
        PyObject *const rows = nd_rows_of(&found);
        is_done = rows != NULL && (before == NULL || PyList_SetSlice(rows, 0, 0, before) == 0);
        Py_XDECREF(before);
        self->ready = rows;
    }
    self->is_running = 0;
    nd_free_answer(sqlite3_api, &found);
    return is_done;
}

nd_rows *nd_rows_new(nd_handle *of)
{
    PyTypeObject *const type = nd_state_of((PyObject *)of)->rows_type;
    nd_rows *const made = (nd_rows *)nd_allocate(type);
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

int nd_rows_start(nd_rows *self, nd_slot *slot, PyObject *values, int to_the_end)
{
    const int code = bind(self->of, slot->prepared, values, self->values);
    self->slot = slot;
    if (code == SQLITE_OK)
        return advance(self, to_the_end);
    const nd_failure what = code < 0 ? (nd_failure){SQLITE_OK, NULL}
                                     : nd_failure_of(self->of->base->api, self->of->base->db, code);
    self->slot = NULL;
    nd_keep(self->of->base, slot);
    nd_leave(self->of);
    nd_raise_on(self->of, what);
    return 0;
}

/* ---- the object -------------------------------------------------------------------------------------------------------------- */

/* Ends the statement, in any thread, whatever becomes of the connection. */
static void end_rows(nd_rows *self)
{
    nd_slot *const slot = self->slot;
    self->slot = NULL;
    if (slot == NULL || nd_process_id() != self->of->process_id) /* else the parent's */
        return;
    nd_base *const base = self->of->base;
    const sqlite3_api_routines *const sqlite3_api = base->api;
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    const int is_open = nd_require_open(self->of);
    if (is_open && sqlite3_mutex_try(sqlite3_db_mutex(base->db)) == SQLITE_OK) {
        nd_keep(base, slot);
        nd_leave(self->of);
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
static int enter_rows(nd_rows *self)
{
    if (!nd_enter(self->of))
        return 0;
    if (self->slot != NULL && self->slot->prepared != NULL && !self->is_running)
        return 1;
    nd_leave(self->of);
    PyErr_SetString(nd_state_of((PyObject *)self)->threading_error, "the statement was ended, or is running, elsewhere");
    return 0;
}

/* The next row, a new reference; NULL without an exception: there is none. */
static PyObject *next_of(nd_rows *self)
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
    PyObject *const row = next_of((nd_rows *)self);
    if (row == NULL && PyErr_Occurred() == NULL)
        return Py_NewRef(Py_None);
    return row;
}

static PyObject *rows_fetchall(PyObject *this, PyObject *unused)
{
    nd_rows *const self = (nd_rows *)this;
    (void)unused;
    if (self->slot != NULL && (!enter_rows(self) || !advance(self, 1)))
        return NULL;
    PyObject *const rows = self->ready;
    self->ready = NULL;
    return rows == NULL ? PyList_New(0) : rows;
}

static PyObject *rows_close(PyObject *this, PyObject *unused)
{
    nd_rows *const self = (nd_rows *)this;
    (void)unused;
    if (self->is_running) {
        PyErr_SetString(nd_state_of(this)->threading_error, "the statement is running");
        return NULL;
    }
    Py_CLEAR(self->ready);
    end_rows(self);
    return Py_NewRef(Py_None);
}

static void rows_dealloc(PyObject *this)
{
    nd_rows *const self = (nd_rows *)this;
    if (self->of != NULL)
        end_rows(self);
    Py_XDECREF(self->ready);
    Py_XDECREF(self->values);
    Py_XDECREF(self->of);
    nd_free_object(this);
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

PyType_Spec nd_rows_spec = {"neardup_db._python.Rows", sizeof(nd_rows), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    rows_slots};
