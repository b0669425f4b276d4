/* array.c: values for the table function, in a capsule. */
#include "python/standard/standard.h"

#include <stdlib.h>

static void free_array(nd_array *array)
{
    free(array->items);
    free(array->sizes);
    Py_DECREF(array->owner);
    free(array);
}

static void free_capsule(PyObject *capsule)
{
    free_array(PyCapsule_GetPointer(capsule, ND_ARRAY_TYPE));
}

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

/* Fills in where the values of a tuple stand; -1 with an exception. */
static int point_to_all(nd_array *to, PyObject *values)
{
    const Py_ssize_t count = PyTuple_Size(values);
    to->type = count > 0 && PyBytes_Check(PyTuple_GetItem(values, 0)) ? SQLITE_BLOB : SQLITE_TEXT;
    to->items = calloc((size_t)count + 1, sizeof *to->items);
    to->sizes = calloc((size_t)count + 1, sizeof *to->sizes);
    if (to->items == NULL || to->sizes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; to->count < count; to->count++)
        if (point_to(to, (Py_ssize_t)to->count, PyTuple_GetItem(values, (Py_ssize_t)to->count)) != 0)
            return -1;
    return 0;
}

static PyObject *new_array(PyObject *module, PyObject *values)
{
    (void)module;
    if (!PyBytes_Check(values) && !PyTuple_Check(values)) {
        PyErr_SetString(PyExc_TypeError, "give the bytes of int64, or a tuple of str or of bytes");
        return NULL;
    }
    nd_array *const made = calloc(1, sizeof *made);
    if (made == NULL)
        return PyErr_NoMemory();
    Py_INCREF(values);
    made->owner = values;
    int failed = 0;
    if (PyBytes_Check(values)) {
        made->type = SQLITE_INTEGER;
        made->count = PyBytes_Size(values) / (Py_ssize_t)sizeof *made->numbers;
        made->numbers = (const int64_t *)(const void *)PyBytes_AsString(values); /* Python's bytes begin at a multiple of 8 */
    } else {
        failed = point_to_all(made, values);
    }
    PyObject *const capsule = failed ? NULL : PyCapsule_New(made, ND_ARRAY_TYPE, free_capsule);
    if (capsule == NULL)
        free_array(made);
    return capsule;
}

PyMethodDef nd_standard_functions[] = {
    {"array", new_array, METH_O,
        PyDoc_STR("array(values)\n--\n\nThe bytes of int64, or a tuple of str, or of bytes, as a value for the table function "
                  "neardup_array.")},
    {NULL, NULL, 0, NULL},
};
