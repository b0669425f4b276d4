/* array.c: values for the table function. */
#include "python/standard/objects.h"

#include <stdlib.h>

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
    nd_array_object *const self = (nd_array_object *)nd_allocate(type);
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
    nd_array_object *const self = (nd_array_object *)this;
    free(self->values.items);
    free(self->values.sizes);
    Py_XDECREF(self->owner);
    nd_free_object(this);
}

static PyType_Slot array_slots[] = {
    {Py_tp_doc,
        (void *)PyDoc_STR(
            "Array(values)\n--\n\nThe bytes of int64, or a tuple of str, or of bytes, for the table function neardup_array.")},
    {Py_tp_new, (void *)array_new},
    {Py_tp_dealloc, (void *)array_dealloc},
    {0, NULL},
};

PyType_Spec nd_array_spec = {"neardup_db._standard.Array", sizeof(nd_array_object), 0, Py_TPFLAGS_DEFAULT, array_slots};
