/* statement.c: the two calls in which a question spends most of its time, the fingerprint of a
 * text, and a statement of SQL that stays prepared and is run from its first row to its last.
 *
 * apsw finds a statement again by its text, and gives up Python's lock at every row: two threads that ask short questions spend
 * their time handing the lock to each other. Here it is given up once for a call, and the rows come back together. */
#include "python/module.h"
#include "python/rows.h"
#include "python/system.h"
#include "neardup_abi.h"

#include <structmember.h>
#include <stdatomic.h>
#include <string.h>

#define KEPT_BYTES 65536 /* of a statement's buffers; larger ones are freed after a run */

#define AWAKE_NS 60000 /* for which a thread waits awake for Python's lock: a few times what a question keeps it */
#define ROOM_SIZE 1200 /* bytes of a piece of SQLite's lookaside memory, as it has by default, */
#define ROOM_COUNT 120 /* and how many: three times as many */

static const sqlite3_api_routines *sqlite3_api; /* apsw's; NULL until it is known */

typedef struct statement {
    PyObject_HEAD
    PyObject *connection; /* which therefore is never freed before the statement is finalized */
    sqlite3 *db;
    PyObject *sql;
    sqlite3_stmt *prepared; /* NULL: not yet, or ended. As long as there is one the connection is open */
    int is_running;
    long process_id;
    long long data_version;
    nd_answer spare;
    PyObject *weak_references;
} statement;

/* ---- Python's lock ------------------------------------------------------------------------------------------------------ */

/* When a thread came back from a call, in nanoseconds; 0 once it is in the next one. Until then it probably has Python's lock, for
 * some microseconds. To sleep until it gives the lock up takes longer than to wait awake. */
static atomic_llong came_back;

static int has_processors; /* more than one: else the thread that has the lock cannot go on meanwhile */

__attribute__((constructor)) static void count_processors(void)
{
    has_processors = nd_processor_count() > 1;
}

static PyThreadState *give_up_lock(void)
{
    atomic_store_explicit(&came_back, 0, memory_order_relaxed);
    return PyEval_SaveThread();
}

static void take_lock(PyThreadState *thread)
{
    long long since;
    while (
        has_processors && (since = atomic_load_explicit(&came_back, memory_order_relaxed)) != 0 && nd_now_ns() - since < AWAKE_NS)
        continue;
    PyEval_RestoreThread(thread);
    atomic_store_explicit(&came_back, nd_now_ns(), memory_order_relaxed);
}

/* ---- fingerprints ------------------------------------------------------------------------------------------------------- */

typedef int sketch_text(const nd_scheme *, const nd_rules *, nd_text *, const uint8_t *, size_t, nd_values *, nd_keys *,
    nd_sketch *);

/* Numbers are addresses: of nd_scheme_sketch_text, and of its arguments. */
static PyObject *value_of_text(PyObject *module, PyObject *args)
{
    unsigned long long function, scheme, rules, work, values, out;
    const char *text;
    Py_ssize_t size;
    PyObject *held;
    (void)module;
    if (!PyArg_ParseTuple(args, "KKKKKKs#O:value_of_text", &function, &scheme, &rules, &work, &values, &out, &text, &size, &held))
        return NULL;
    nd_sketch *const sketch = (nd_sketch *)(uintptr_t)out;
    PyThreadState *const thread = give_up_lock();
    const int status = ((sketch_text *)(uintptr_t)function)((const nd_scheme *)(uintptr_t)scheme,
        (const nd_rules *)(uintptr_t)rules, (nd_text *)(uintptr_t)work, (const uint8_t *)text, (size_t)size,
        (nd_values *)(uintptr_t)values, NULL, sketch);
    take_lock(thread);
    if (status != ND_OK)
        return PyLong_FromLong(status);
    if (sketch->size == 0)
        return Py_BuildValue("OK", Py_None, (unsigned long long)sketch->token_count);
    return Py_BuildValue("y#K", (const char *)sketch->value, (Py_ssize_t)sketch->size, (unsigned long long)sketch->token_count);
}

/* The connection as SQLite knows it; NULL with an exception. */
static void *database_of(PyObject *connection)
{
    if (sqlite3_api == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "apsw_library() comes first");
        return NULL;
    }
    PyObject *const pointer = PyObject_CallMethod(connection, "sqlite3_pointer", NULL);
    void *const db = pointer == NULL ? NULL : PyLong_AsVoidPtr(pointer);
    Py_XDECREF(pointer);
    return db;
}

/* ---- a run ----------------------------------------------------------------------------------------------------------- */

/* Binds the values by their places. */
static int bind_values(sqlite3_stmt *to, PyObject *values)
{
    const Py_ssize_t count = PyTuple_Size(values);
    if (count != sqlite3_bind_parameter_count(to)) {
        PyErr_Format(PyExc_TypeError, "%zd values for %d parameters", count, sqlite3_bind_parameter_count(to));
        return -1;
    }
    int code = SQLITE_OK;
    for (Py_ssize_t i = 0; i < count && code == SQLITE_OK; i++)
        code = nd_bind_value(sqlite3_api, to, (int)i + 1, PyTuple_GetItem(values, i));
    return code;
}

static int prepare(statement *self, sqlite3_stmt **out)
{
    Py_ssize_t size;
    const char *const text = PyUnicode_AsUTF8AndSize(self->sql, &size);
    int code;
    if (text == NULL)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    code = sqlite3_prepare_v3(self->db, text, (int)size + 1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    Py_END_ALLOW_THREADS
    return code;
}

/* Runs a prepared statement while the connection's mutex is held. NULL with an exception. */
static PyObject *run(const nd_state *held, statement *self, sqlite3_stmt *prepared, PyObject *values, nd_answer *out)
{
    nd_failure what = {SQLITE_OK, NULL};
    int code = bind_values(prepared, values);
    if (code < 0) {
        sqlite3_clear_bindings(prepared);
        return NULL;
    }
    PyThreadState *const thread = give_up_lock();
    if (code == SQLITE_OK)
        code = nd_step(sqlite3_api, prepared, 1, out);
    if (code != SQLITE_DONE)
        what = nd_failure_of(sqlite3_api, self->db, code);
    sqlite3_reset(prepared);
    sqlite3_clear_bindings(prepared);
    unsigned version = 0;
    (void)sqlite3_file_control(self->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    self->data_version = version;
    take_lock(thread);
    if (what.code == SQLITE_OK && PyErr_Occurred() == NULL)
        return nd_rows_of(out);
    nd_raise_failure(sqlite3_api, held->exception_for, what);
    return NULL;
}

/* Runs it, prepared where it is not yet. A run inside of a run, by a function of Python's that SQLite has called, has a statement
 * of its own. */
static PyObject *prepare_and_run(const nd_state *held, statement *self, PyObject *values)
{
    sqlite3_stmt *prepared = self->is_running ? NULL : self->prepared;
    const int is_own = self->is_running;
    nd_answer found = self->spare;
    memset(&self->spare, 0, sizeof self->spare);
    found.cell_count = found.byte_count = 0;
    PyObject *rows = NULL;
    self->is_running++;
    int code = prepared == NULL ? prepare(self, &prepared) : SQLITE_OK;
    if (!is_own)
        self->prepared = prepared;
    if (code == SQLITE_OK && prepared == NULL)
        PyErr_SetString(PyExc_ValueError, "the SQL has no statement");
    else if (code == SQLITE_OK)
        rows = run(held, self, prepared, values, &found);
    else if (code > 0)
        nd_raise_failure(sqlite3_api, held->exception_for, nd_failure_of(sqlite3_api, self->db, code));
    self->is_running--;
    if (is_own)
        sqlite3_finalize(prepared);
    if (found.cell_room * sizeof *found.cells + found.byte_room > KEPT_BYTES || self->spare.cells != NULL)
        nd_free_answer(sqlite3_api, &found);
    else
        self->spare = found;
    return rows;
}

static PyObject *statement_rows(PyObject *this, PyObject *values)
{
    statement *const self = (statement *)this;
    const nd_state *const held = nd_state_of(this);
    if (!PyTuple_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "give the values as a tuple");
        return NULL;
    }
    if (nd_process_id() != self->process_id) {
        PyErr_SetString(held->closed_error, "the connection is closed");
        return NULL;
    }
    if (self->prepared == NULL && database_of(self->connection) == NULL) /* it is closed */
        return NULL;
    /* Python's lock is held from this look to here, so the connection is open as long as the mutex is held. */
    sqlite3_mutex *const mutex = sqlite3_db_mutex(self->db);
    if (sqlite3_mutex_try(mutex) != SQLITE_OK) {
        PyErr_SetString(held->threading_error, "Connection is busy in another thread");
        return NULL;
    }
    PyObject *const rows = prepare_and_run(held, self, values);
    sqlite3_mutex_leave(mutex);
    return rows;
}

/* ---- its life -------------------------------------------------------------------------------------------------------- */

static PyObject *statement_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *connection, *sql;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "OU:Statement", &connection, &sql))
        return NULL;
    void *const db = database_of(connection);
    if (db == NULL || nd_know_errors(type) == NULL)
        return NULL;
    statement *const self = (statement *)nd_allocate(type);
    if (self == NULL)
        return NULL;
    Py_INCREF(connection);
    Py_INCREF(sql);
    self->connection = connection;
    self->sql = sql;
    self->db = db;
    self->process_id = nd_process_id();
    return (PyObject *)self;
}

static PyObject *statement_end(PyObject *this, PyObject *unused)
{
    statement *const self = (statement *)this;
    (void)unused;
    if (self->prepared == NULL || nd_process_id() != self->process_id)
        return Py_NewRef(Py_None);
    sqlite3_mutex *const mutex = sqlite3_db_mutex(self->db);
    if (self->is_running || sqlite3_mutex_try(mutex) != SQLITE_OK) {
        PyErr_SetString(nd_state_of(this)->threading_error, "a statement is running");
        return NULL;
    }
    sqlite3_finalize(self->prepared); /* does no more than to free memory: it was reset */
    self->prepared = NULL;
    sqlite3_mutex_leave(mutex);
    return Py_NewRef(Py_None);
}

static void statement_dealloc(PyObject *this)
{
    statement *const self = (statement *)this;
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(this);
    if (self->connection != NULL && nd_process_id() == self->process_id) { /* else the parent's, which nothing here frees */
        if (self->prepared != NULL) {
            PyThreadState *const thread = PyEval_SaveThread(); /* another thread may use the connection, and wait for Python */
            sqlite3_finalize(self->prepared);
            PyEval_RestoreThread(thread);
        }
        Py_DECREF(self->connection);
    }
    Py_XDECREF(self->sql);
    nd_free_answer(sqlite3_api, &self->spare);
    nd_free_object(this);
}

static PyMethodDef statement_methods[] = {
    {"rows", statement_rows, METH_O,
        PyDoc_STR("rows(values)\n--\n\nAll rows, as tuples; values: of all parameters, by place. Raises the errors of apsw.")},
    {"end", statement_end, METH_NOARGS,
        PyDoc_STR("end()\n--\n\nFinalize it, before its connection is closed; the next run prepares it again.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef statement_members[] = {
    {"data_version", T_LONGLONG, offsetof(statement, data_version), READONLY,
        "SQLite's data version of the state that was last seen."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(statement, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot statement_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("Statement(connection, sql)\n--\n\nA statement that stays prepared.")},
    {Py_tp_new, (void *)statement_new},
    {Py_tp_dealloc, (void *)statement_dealloc},
    {Py_tp_methods, statement_methods},
    {Py_tp_members, statement_members},
    {0, NULL},
};

PyType_Spec nd_statement_spec = {"neardup_db._python.Statement", sizeof(statement), 0, Py_TPFLAGS_DEFAULT, statement_slots};

/* ---- open cursors ---------------------------------------------------------------------------------------------------- */

static PyObject *has_open_cursor(PyObject *module, PyObject *connection)
{
    (void)module;
    sqlite3 *const db = database_of(connection);
    if (db == NULL)
        return NULL;
    sqlite3_mutex *const mutex = sqlite3_db_mutex(db);
    if (sqlite3_mutex_try(mutex) != SQLITE_OK) /* by who is in a statement, and may wait for Python's lock, which is held here */
        return Py_NewRef(Py_True);
    sqlite3_stmt *one = sqlite3_next_stmt(db, NULL);
    while (one != NULL && !sqlite3_stmt_busy(one))
        one = sqlite3_next_stmt(db, one);
    sqlite3_mutex_leave(mutex);
    return Py_NewRef(one != NULL ? Py_True : Py_False);
}

/* ---- room ------------------------------------------------------------------------------------------------------------ */

/* The statements that open an index stay in apsw's cache, and in most of the memory from which SQLite takes small pieces without
 * the lock of all threads. */
static PyObject *give_room(PyObject *module, PyObject *connection)
{
    (void)module;
    void *const db = database_of(connection);
    if (db == NULL)
        return NULL;
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_LOOKASIDE, (void *)NULL, ROOM_SIZE,
        ROOM_COUNT); /* refused where some is in use */
    return Py_NewRef(Py_None);
}

static PyObject *apsw_library(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    sqlite3_api = nd_take_loaded().api;
    return PyLong_FromVoidPtr((void *)(uintptr_t)sqlite3_api);
}

PyMethodDef nd_statement_functions[] = {
    {"apsw_library", apsw_library, METH_NOARGS,
        PyDoc_STR(
            "apsw_library()\n--\n\nThe library of apsw, as `Handle.library` has it, right after this file was loaded into one of "
            "apsw's connections. All else here needs it.")},
    {"value_of_text", value_of_text, METH_VARARGS,
        PyDoc_STR("value_of_text(function, scheme, rules, work, values, sketch, text, held)\n--\n\n(stored value or None, "
                  "tokens), or the status of an error. "
                  "All but the text are addresses; the text is ASCII, or bytes.")},
    {"has_open_cursor", has_open_cursor, METH_O,
        PyDoc_STR("has_open_cursor(connection)\n--\n\nWhether a statement of it has rows left to read.")},
    {"give_room", give_room, METH_O,
        PyDoc_STR("give_room(connection)\n--\n\nMore room for small pieces of memory, before anything is done.")},
    {NULL, NULL, 0, NULL},
};
