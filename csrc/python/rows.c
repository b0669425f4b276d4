/* rows.c: rows and values between SQLite and Python. */
#include "python/rows.h"

#include <string.h>

/* Room for so many more; 0 if memory is out. */
static int reserve(const sqlite3_api_routines *sqlite3_api, void **items, size_t *room, size_t count, size_t more,
    size_t item_size)
{
    if (more <= *room - count)
        return 1;
    const size_t wanted = count + more + (count >> 1) + 16;
    void *const grown = sqlite3_realloc64(*items, wanted * item_size);
    if (grown == NULL)
        return 0;
    *items = grown;
    *room = wanted;
    return 1;
}

/* Adds the present row; an SQLite result code. */
static int take_row(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *from, nd_answer *out)
{
    const int columns = out->columns;
    if (!reserve(sqlite3_api, (void **)&out->cells, &out->cell_room, out->cell_count, (size_t)columns, sizeof *out->cells))
        return SQLITE_NOMEM;
    for (int i = 0; i < columns; i++) {
        nd_cell *const this = &out->cells[out->cell_count++];
        this->type = sqlite3_column_type(from, i);
        if (this->type == SQLITE_INTEGER) {
            this->integer = sqlite3_column_int64(from, i);
        } else if (this->type == SQLITE_FLOAT) {
            this->real = sqlite3_column_double(from, i);
        } else if (this->type != SQLITE_NULL) {
            const void *const data = this->type == SQLITE_TEXT ? (const void *)sqlite3_column_text(from, i)
                                                               : sqlite3_column_blob(from, i);
            if (data == NULL && sqlite3_errcode(sqlite3_db_handle(from)) == SQLITE_NOMEM) /* else it is a blob of no bytes */
                return SQLITE_NOMEM;
            this->size = (size_t)sqlite3_column_bytes(from, i);
            this->at = out->byte_count;
            if (!reserve(sqlite3_api, (void **)&out->bytes, &out->byte_room, out->byte_count, this->size, 1))
                return SQLITE_NOMEM;
            if (this->size > 0)
                memcpy(out->bytes + this->at, data, this->size);
            out->byte_count += this->size;
        }
    }
    return SQLITE_OK;
}

int nd_step(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *from, int are_all_wanted, nd_answer *out)
{
    int code = sqlite3_step(from);
    out->columns = sqlite3_column_count(from); /* now: where the schema has changed the first step prepares it again */
    while (code == SQLITE_ROW) {
        code = take_row(sqlite3_api, from, out);
        if (code == SQLITE_OK && !are_all_wanted)
            return SQLITE_ROW;
        code = code == SQLITE_OK ? sqlite3_step(from) : code;
    }
    return code;
}

static PyObject *object_of(const nd_cell *this, const char *bytes)
{
    switch (this->type) {
    case SQLITE_INTEGER:
        return PyLong_FromLongLong(this->integer);
    case SQLITE_FLOAT:
        return PyFloat_FromDouble(this->real);
    case SQLITE_TEXT:
        return PyUnicode_DecodeUTF8(bytes + this->at, (Py_ssize_t)this->size, NULL);
    case SQLITE_BLOB:
        return PyBytes_FromStringAndSize(bytes + this->at, (Py_ssize_t)this->size);
    default:
        return Py_NewRef(Py_None);
    }
}

static PyObject *row_of(const nd_cell *cells, int columns, const char *bytes)
{
    PyObject *const row = PyTuple_New(columns);
    for (int i = 0; row != NULL && i < columns; i++) {
        PyObject *const value = object_of(&cells[i], bytes);
        if (value == NULL || PyTuple_SetItem(row, i, value) != 0) {
            Py_DECREF(row);
            return NULL;
        }
    }
    return row;
}

PyObject *nd_rows_of(const nd_answer *from)
{
    const int columns = from->columns;
    const size_t count = columns > 0 ? from->cell_count / (size_t)columns : 0;
    PyObject *const rows = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        PyObject *const row = row_of(from->cells + i * (size_t)columns, columns, from->bytes);
        if (row == NULL || PyList_SetItem(rows, (Py_ssize_t)i, row) != 0) {
            Py_DECREF(rows);
            return NULL;
        }
    }
    return rows;
}

void nd_free_answer(const sqlite3_api_routines *sqlite3_api, nd_answer *this)
{
    sqlite3_free(this->cells);
    sqlite3_free(this->bytes);
    memset(this, 0, sizeof *this);
}

int nd_bind_value(const sqlite3_api_routines *sqlite3_api, sqlite3_stmt *to, int place, PyObject *value)
{
    if (value == Py_None)
        return sqlite3_bind_null(to, place);
    if (PyLong_Check(value)) {
        const long long number = PyLong_AsLongLong(value);
        return number == -1 && PyErr_Occurred() ? -1 : sqlite3_bind_int64(to, place, number);
    }
    if (PyFloat_Check(value))
        return sqlite3_bind_double(to, place, PyFloat_AsDouble(value));
    if (PyBytes_Check(value))
        return sqlite3_bind_blob64(to, place, PyBytes_AsString(value), (sqlite3_uint64)PyBytes_Size(value), SQLITE_STATIC);
    if (PyUnicode_Check(value)) {
        Py_ssize_t size;
        const char *const text = PyUnicode_AsUTF8AndSize(value, &size);
        return text == NULL ? -1 : sqlite3_bind_text64(to, place, text, (sqlite3_uint64)size, SQLITE_STATIC, SQLITE_UTF8);
    }
    PyErr_Format(PyExc_TypeError, "value %d is of type %R: give int, float, str, bytes or None", place,
        (PyObject *)Py_TYPE(value));
    return -1;
}

nd_failure nd_failure_of(const sqlite3_api_routines *sqlite3_api, sqlite3 *db, int code)
{
    if (code == SQLITE_NOMEM)
        return (nd_failure){code, sqlite3_mprintf("%s", sqlite3_errstr(code))};
    const int extended = sqlite3_extended_errcode(db);
    return (nd_failure){(extended & 0xff) == (code & 0xff) ? extended : code, sqlite3_mprintf("%s", sqlite3_errmsg(db))};
}

void nd_raise_failure(const sqlite3_api_routines *sqlite3_api, PyObject *exception_for, nd_failure what)
{
    PyObject *const error = PyErr_Occurred() == NULL ? PyObject_CallFunction(exception_for, "i", what.code) : NULL;
    PyObject *const arguments = error == NULL ? NULL
                                              : Py_BuildValue("(s)", what.message == NULL ? "out of memory" : what.message);
    if (arguments != NULL && PyObject_SetAttrString(error, "args", arguments) == 0)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(arguments);
    Py_XDECREF(error);
    sqlite3_free(what.message);
}
