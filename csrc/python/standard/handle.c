/* handle.c: a connection of the application's. */
#include "python/standard/standard.h"
#include "python/system.h"

#include <structmember.h>

#define NAP_NS 20000        /* between two looks at a mutex that another thread has, at first, */
#define NAP_MOST_NS 2000000 /* and at last */

int nd_require_open(nd_handle *self)
{
    PyObject *looked = NULL;
    if (nd_process_id() == self->process_id) {
        const int was_enabled = PyGC_Disable();
        looked = PyObject_CallNoArgs(self->look);
        if (was_enabled)
            PyGC_Enable();
    }
    if (looked == NULL) {
        PyErr_SetString(nd_state_of((PyObject *)self)->closed_error,
            "the connection that was given is closed: open it, and the index, again");
        return 0;
    }
    Py_DECREF(looked);
    return 1;
}

static int require_thread(nd_handle *self)
{
    if (self->thread == 0 || self->thread == PyThread_get_thread_ident())
        return 1;
    PyErr_SetString(nd_state_of((PyObject *)self)->threading_error,
        "the connection that was given belongs to the thread that opened it: use the index there, or "
        "open the connection with check_same_thread=False");
    return 0;
}

int nd_enter(nd_handle *self)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    const long long began = nd_now_ns();
    long nap_ns = NAP_NS;
    if (!require_thread(self))
        return 0;
    while (nd_require_open(self)) {
        if (sqlite3_mutex_try(sqlite3_db_mutex(self->base->db)) == SQLITE_OK)
            return 1;
        if ((double)(nd_now_ns() - began) / 1e9 > self->timeout_s) {
            PyErr_SetString(nd_state_of((PyObject *)self)->busy_error, "another thread is using the connection that was given");
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

void nd_leave(nd_handle *self)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    sqlite3_mutex_leave(sqlite3_db_mutex(self->base->db));
}

void nd_raise_on(nd_handle *self, nd_failure what)
{
    nd_raise_failure(self->base->api, nd_state_of((PyObject *)self)->exception_for, what);
}

/* ---- the object -------------------------------------------------------------------------------------------------------------- */

static PyObject *handle_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *connection, *look;
    unsigned long long thread;
    double timeout_s;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "OOKd:Handle", &connection, &look, &thread, &timeout_s))
        return NULL;
    const nd_loaded found = nd_take_loaded();
    if (nd_know_errors(type) == NULL)
        return NULL;
    if (found.db == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "load this file into the connection right before");
        return NULL;
    }
    nd_handle *const self = (nd_handle *)nd_allocate(type);
    if (self == NULL)
        return NULL;
    self->process_id = nd_process_id();
    self->thread = (unsigned long)thread;
    self->timeout_s = timeout_s;
    Py_INCREF(connection);
    self->connection = connection;
    Py_INCREF(look);
    self->look = look;
    self->base = nd_base_new(found.api, found.db);
    if (self->base == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyObject *handle_register(PyObject *this, PyObject *unused)
{
    nd_handle *const self = (nd_handle *)this;
    (void)unused;
    if (!nd_enter(self))
        return NULL;
    const int code = nd_register_standard(self->base);
    const nd_failure what = code == SQLITE_OK ? (nd_failure){code, NULL} : nd_failure_of(self->base->api, self->base->db, code);
    nd_leave(self);
    if (code == SQLITE_OK)
        return Py_NewRef(Py_None);
    nd_raise_on(self, what);
    return NULL;
}

/* The connection may lead to the index, in a class of the application's: without this neither would ever be freed. */
static int handle_traverse(PyObject *this, visitproc visit, void *arg)
{
    nd_handle *const self = (nd_handle *)this;
    Py_VISIT(Py_TYPE(this));
    Py_VISIT(self->connection);
    Py_VISIT(self->look);
    return 0;
}

static void handle_dealloc(PyObject *this)
{
    nd_handle *const self = (nd_handle *)this;
    PyObject_GC_UnTrack(this);
    if (self->base != NULL)
        nd_base_release(self->base);
    Py_XDECREF(self->look);
    Py_XDECREF(self->connection);
    nd_free_object(this);
}

static PyObject *handle_execute(PyObject *this, PyObject *args)
{
    nd_handle *const self = (nd_handle *)this;
    PyObject *values = Py_None;
    const char *sql;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "s#|O:execute", &sql, &size, &values))
        return NULL;
    const char *const end = sql + size;
    nd_rows *const made = nd_rows_new(self);
    while (made != NULL && !nd_is_blank(sql)) {
        const char *next = end;
        nd_slot *const slot = nd_statement_for(self, sql, (size_t)(end - sql), &next);
        if (slot == NULL && PyErr_Occurred() == NULL)
            break; /* a comment */
        Py_CLEAR(made->ready);
        if (slot == NULL || !nd_rows_start(made, slot, values, !nd_is_blank(next))) {
            Py_DECREF(made);
            return NULL;
        }
        sql = next;
    }
    return (PyObject *)made;
}

/* Runs no Python code, and cannot fail: an interrupt leaves none behind. */
static void end_hold(PyObject *capsule)
{
    nd_base *const base = PyCapsule_GetPointer(capsule, NULL);
    (void)atomic_fetch_sub(&base->vetoes, 1);
    nd_base_release(base);
}

static PyObject *handle_hold(PyObject *this, PyObject *unused)
{
    nd_base *const base = ((nd_handle *)this)->base;
    PyObject *const made = PyCapsule_New(base, NULL, end_hold);
    (void)unused;
    if (made == NULL)
        return NULL;
    (void)atomic_fetch_add(&base->references, 1);
    (void)atomic_fetch_add(&base->vetoes, 1);
    return made;
}

static PyObject *handle_ended(PyObject *this, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(atomic_load(&((nd_handle *)this)->base->first_end));
}

static PyObject *handle_told(PyObject *this, PyObject *unused)
{
    (void)unused;
    atomic_store(&((nd_handle *)this)->base->first_end, ND_NO_END);
    return Py_NewRef(Py_None);
}

/* Numbers that SQLite has for a connection. */
enum { TOTAL_CHANGES, CHANGES, LAST_INSERT_ROWID, DATA_VERSION, IN_TRANSACTION };

static PyObject *handle_number(PyObject *this, void *which)
{
    nd_handle *const self = (nd_handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    sqlite3 *const db = self->base->db;
    const int asked = (int)(intptr_t)which;
    unsigned version = 0;
    if (!nd_enter(self))
        return NULL;
    if (asked == DATA_VERSION)
        (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    const long long number = asked == TOTAL_CHANGES       ? sqlite3_total_changes(db)
                             : asked == CHANGES           ? sqlite3_changes(db)
                             : asked == LAST_INSERT_ROWID ? sqlite3_last_insert_rowid(db)
                             : asked == DATA_VERSION      ? (long long)version
                                                          : !sqlite3_get_autocommit(db);
    nd_leave(self);
    return asked == IN_TRANSACTION ? PyBool_FromLong((long)number) : PyLong_FromLongLong(number);
}

static PyObject *handle_is_serialized(PyObject *this, void *unused)
{
    nd_handle *const self = (nd_handle *)this;
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    (void)unused;
    return nd_require_open(self) ? PyBool_FromLong(sqlite3_db_mutex(self->base->db) != NULL) : NULL;
}

static PyObject *handle_library(PyObject *this, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)((nd_handle *)this)->base->api);
}

static PyMethodDef handle_methods[] = {
    {"register", handle_register, METH_NOARGS,
        PyDoc_STR("register()\n--\n\nBefore anything else, where the connection is serialized.")},
    {"execute", handle_execute, METH_VARARGS,
        PyDoc_STR("execute(sql, values=None)\n--\n\nThe Rows of the last statement. values: by place, or a dict by name. Raises "
                  "the errors of apsw.")},
    {"hold", handle_hold, METH_NOARGS, PyDoc_STR("hold()\n--\n\nAn object: a COMMIT rolls back as long as somebody has it.")},
    {"ended", handle_ended, METH_NOARGS,
        PyDoc_STR("ended()\n--\n\nOf the transactions that have ended since `told`, how the first one did: 0 none, 1 committed, "
                  "2 rolled back.")},
    {"told", handle_told, METH_NOARGS, PyDoc_STR("told()\n--\n\nWhoever had to know of the end does.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef handle_properties[] = {
    {"total_changes", handle_number, NULL, NULL, (void *)TOTAL_CHANGES},
    {"changes", handle_number, NULL, NULL, (void *)CHANGES},
    {"last_insert_rowid", handle_number, NULL, NULL, (void *)LAST_INSERT_ROWID},
    {"data_version", handle_number, NULL, "SQLite's, of the state that was last seen.", (void *)DATA_VERSION},
    {"in_transaction", handle_number, NULL, NULL, (void *)IN_TRANSACTION},
    {"library", handle_library, NULL, "A number that each library of SQLite in this process has for itself.", NULL},
    {"is_serialized", handle_is_serialized, NULL, "Whether threads may share the connection.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef handle_members[] = {
    {"timeout", T_DOUBLE, offsetof(nd_handle, timeout_s), 0, "Seconds to wait for another thread that uses the connection."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("Handle(connection, look, thread, timeout)\n--\n\nOf the connection into which this thread has "
                                  "just loaded this file.\n\n"
                                  "look() fails where it is closed; thread: the only one that may use it, 0 for any.")},
    {Py_tp_new, (void *)handle_new},
    {Py_tp_traverse, (void *)handle_traverse},
    {Py_tp_dealloc, (void *)handle_dealloc},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_properties},
    {Py_tp_members, handle_members},
    {0, NULL},
};

PyType_Spec nd_handle_spec = {"neardup_db._python.Handle", sizeof(nd_handle), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    handle_slots};
