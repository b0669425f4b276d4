/* array.c: an array for nd_values, in a capsule. */
#include "python/standard/standard.h"
#include "neardup_values.h"

#include <stdlib.h>

typedef struct owned_array {
    nd_values_array array;
    PyObject *owner; /* of what is pointed to */
} owned_array;

static void free_array(PyObject *capsule)
{
    owned_array *const array = PyCapsule_GetPointer(capsule, ND_VALUES_POINTER);
    Py_DECREF(array->owner);
    free(array);
}

static PyObject *new_array(PyObject *module, PyObject *args)
{
    const char *items, *sizes = NULL;
    Py_ssize_t items_size, sizes_size = 0;
    PyObject *owners;
    int are_blobs = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y#|y#Op:array", &items, &items_size, &sizes, &sizes_size, &owners, &are_blobs))
        return NULL;
    if (items_size % 8 != 0 || (sizes_size != 0 && sizes_size != items_size)) {
        PyErr_SetString(PyExc_ValueError, "give int64, or an address and a size for each item");
        return NULL;
    }
    owned_array *const made = calloc(1, sizeof *made);
    if (made == NULL)
        return PyErr_NoMemory();
    const int type = sizes_size == 0 ? SQLITE_INTEGER : are_blobs ? SQLITE_BLOB : SQLITE_TEXT;
    /* Python's bytes begin at a multiple of 8. */
    made->array = (nd_values_array){type, (size_t)items_size / 8, (const void *)items, (const void *)items, (const void *)sizes};
    PyObject *const capsule = PyCapsule_New(made, ND_VALUES_POINTER, free_array);
    if (capsule == NULL)
        free(made);
    else
        made->owner = Py_NewRef(args);
    return capsule;
}

PyMethodDef nd_standard_functions[] = {
    {"array", new_array, METH_VARARGS,
        PyDoc_STR("array(items, sizes=b'', owners=None, are_blobs=False)\n--\n\nA value for the SQL function nd_values: the "
                  "bytes of int64, or what `locate` returns.")},
    {NULL, NULL, 0, NULL},
};
