/* module.c: the module neardup_db._standard: statements of ours on a connection of Python's sqlite3 module, or of pysqlite3.
 *
 * They run on the connection of SQLite below Python's: the application's row and text factories, converters, adapters and implicit
 * BEGINs never touch them, and they touch nothing of the application's. Errors are apsw's, as everywhere in the package.
 *
 * The connection is found out by loading this file into it as an extension of SQLite: with it come the functions of the library
 * that it belongs to. They are kept with the connection, so that this module serves any number of libraries. */
#include "neardup_export.h"
#include "python/standard/objects.h"

static _Thread_local nd_loaded loaded;

const nd_state *nd_state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

PyObject *nd_allocate(PyTypeObject *type)
{
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

void nd_free_object(PyObject *self)
{
    PyTypeObject *const type = Py_TYPE(self);
    const freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

nd_loaded nd_take_loaded(void)
{
    const nd_loaded taken = loaded;
    loaded.db = NULL;
    return taken;
}

static PyTypeObject *new_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyObject_SetAttrString(module, name, type) != 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static int execute(PyObject *module)
{
    nd_state *const held = PyModule_GetState(module);
    PyObject *const apsw = PyImport_ImportModule("apsw");
    if (apsw == NULL)
        return -1;
    held->exception_for = PyObject_GetAttrString(apsw, "exception_for");
    held->busy_error = PyObject_GetAttrString(apsw, "BusyError");
    held->closed_error = PyObject_GetAttrString(apsw, "ConnectionClosedError");
    held->threading_error = PyObject_GetAttrString(apsw, "ThreadingViolationError");
    Py_DECREF(apsw);
    held->handle_type = new_type(module, &nd_handle_spec, "Handle");
    held->rows_type = new_type(module, &nd_rows_spec, "Rows");
    held->array_type = new_type(module, &nd_array_spec, "Array");
    held->hold_type = new_type(module, &nd_hold_spec, "Hold");
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    const nd_state *const held = PyModule_GetState(module);
    for (size_t i = 0; i < sizeof held->all / sizeof held->all[0]; i++)
        Py_VISIT(held->all[i]);
    return 0;
}

static int clear(PyObject *module)
{
    nd_state *const held = PyModule_GetState(module);
    for (size_t i = 0; i < sizeof held->all / sizeof held->all[0]; i++)
        Py_CLEAR(held->all[i]);
    return 0;
}

static PyObject *loaded_library(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)nd_take_loaded().api);
}

static PyMethodDef functions[] = {
    {"loaded_library", loaded_library, METH_NOARGS,
        PyDoc_STR(
            "loaded_library()\n--\n\n`Handle.library` of the connection into which this thread has just loaded this file.")},
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
    .m_size = sizeof(nd_state),
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
    loaded = (nd_loaded){db, api};
    return SQLITE_OK;
}
