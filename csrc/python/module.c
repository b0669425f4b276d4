/* module.c: the module neardup_db._python: what is written against Python's own interface in C, because cffi cannot do it: locks that
 * come back whatever is raised (locks.c), where texts stand in memory (texts.c), what a question runs without Python's lock
 * (statement.c), and statements on a connection of the sqlite3 module (standard/).
 *
 * The file is also an extension of SQLite. Loading it into a connection adds nothing to that, but hands over the connection and the
 * functions of the library that it belongs to; so one file serves any number of libraries. */
#include "neardup_export.h"
#include "python/module.h"

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

const nd_state *nd_know_errors(PyTypeObject *type)
{
    nd_state *const held = PyType_GetModuleState(type);
    if (held->threading_error != NULL)
        return held;
    PyObject *const apsw = PyImport_ImportModule("apsw");
    if (apsw == NULL)
        return NULL;
    held->exception_for = PyObject_GetAttrString(apsw, "exception_for");
    held->busy_error = PyObject_GetAttrString(apsw, "BusyError");
    held->closed_error = PyObject_GetAttrString(apsw, "ConnectionClosedError");
    held->threading_error = PyObject_GetAttrString(apsw, "ThreadingViolationError");
    Py_DECREF(apsw);
    return PyErr_Occurred() == NULL ? held : NULL;
}

nd_loaded nd_take_loaded(void)
{
    const nd_loaded taken = loaded;
    loaded.db = NULL;
    return taken;
}

/* ---- the module ------------------------------------------------------------------------------------------------------ */

/* Adds a type to the module; `held`, where the state has it, gets a reference too. */
static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **held)
{
    PyTypeObject *const type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    const int code = type == NULL ? -1 : PyModule_AddType(module, type);
    if (code == 0 && held != NULL)
        *held = type;
    else
        Py_XDECREF(type);
    return code;
}

static int execute(PyObject *module)
{
    nd_state *const held = PyModule_GetState(module);
    held->isascii = PyObject_GetAttrString((PyObject *)&PyUnicode_Type, "isascii");
    const int failed = held->isascii == NULL || add_type(module, &nd_guard_spec, &held->guard_type) ||
                       add_type(module, &nd_rlock_spec, NULL) || add_type(module, &nd_statement_spec, NULL) ||
                       add_type(module, &nd_handle_spec, &held->handle_type) ||
                       add_type(module, &nd_rows_spec, &held->rows_type) || PyModule_AddFunctions(module, nd_text_functions) ||
                       PyModule_AddFunctions(module, nd_statement_functions) ||
                       PyModule_AddFunctions(module, nd_standard_functions);
    return failed ? -1 : 0;
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

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_python",
    .m_doc = "Locks, texts in memory and statements, next to Python's own objects.",
    .m_size = sizeof(nd_state),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__python(void);

PyMODINIT_FUNC PyInit__python(void)
{
    return PyModuleDef_Init(&definition);
}

ND_EXPORT int sqlite3_python_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

/* Hands the connection over to this thread. SQLite finds the function by the name of the file. */
ND_EXPORT int sqlite3_python_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    (void)message;
    loaded = (nd_loaded){db, api};
    return SQLITE_OK;
}
