/* python_texts.c: the module neardup_db._texts: where the UTF-8 of Python's texts stands in memory, so that a list of them needs
 * neither a copy nor a loop in Python. It holds the interpreter lock and does nothing else; the work is then done without. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

typedef struct state {
    PyObject *isascii; /* str.isascii */
} state;

/* A bytes object of `count` elements of element_size to be filled in; *out points into it. */
static PyObject *new_array(Py_ssize_t count, size_t element_size, void *out)
{
    PyObject *const array = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)element_size);
    if (array != NULL)
        *(char **)out = PyBytes_AsString(array);
    return array;
}

/* 1 for a str of ASCII only, whose own memory is its UTF-8; 0 for any other object; -1 with an exception. For another str the
 * UTF-8 would be kept inside it as long as it lives. */
static int is_ascii_str(const state *held, PyObject *text)
{
    if (!PyUnicode_Check(text))
        return 0;
    PyObject *const answer = PyObject_CallFunctionObjArgs(held->isascii, text, NULL);
    if (answer == NULL)
        return -1;
    const int ascii = answer == Py_True;
    Py_DECREF(answer);
    return ascii;
}

/* The bytes of a text that has them nowhere yet: new reference. */
static PyObject *encoded(PyObject *text, PyObject *encode)
{
    if (PyUnicode_CheckExact(text)) {
        PyObject *const bytes = PyUnicode_AsUTF8String(text);
        if (bytes != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return bytes;
        PyErr_Clear();
    }
    PyObject *const bytes = PyObject_CallFunctionObjArgs(encode, text, NULL);
    if (bytes != NULL && !PyBytes_Check(bytes)) {
        PyErr_SetString(PyExc_TypeError, "encode must return bytes");
        Py_DECREF(bytes);
        return NULL;
    }
    return bytes;
}

/* Address and size of one text; what was made for it goes into owners. 0, or -1 with an exception. */
static int locate(const state *held, PyObject *text, PyObject *encode, PyObject *owners, const char **address, Py_ssize_t *size)
{
    const int ascii = is_ascii_str(held, text);
    if (ascii < 0)
        return -1;
    if (ascii) {
        *address = PyUnicode_AsUTF8AndSize(text, size);
        return *address == NULL ? -1 : 0;
    }
    if (PyBytes_Check(text))
        return PyBytes_AsStringAndSize(text, (char **)address, size);
    PyObject *const bytes = encoded(text, encode);
    if (bytes == NULL)
        return -1;
    const int failed = PyList_Append(owners, bytes) != 0 || PyBytes_AsStringAndSize(bytes, (char **)address, size) != 0;
    Py_DECREF(bytes); /* owners holds it */
    return failed ? -1 : 0;
}

PyDoc_STRVAR(locate_doc,
    "locate(texts, start, most_bytes, encode) -> (addresses, sizes, owners)\n--\n\n"
    "Where the UTF-8 of texts[start:] stands, up to the text with which it is most_bytes or more.\n\n"
    "addresses and sizes: bytes that hold one uintptr_t and one size_t a text. They are valid as long as the texts and the list\n"
    "`owners` live. encode(text) -> bytes is asked for what is neither bytes nor a str without lone surrogates.");

static PyObject *locate_texts(PyObject *module, PyObject *args)
{
    PyObject *texts, *encode;
    Py_ssize_t start, most_bytes;
    if (!PyArg_ParseTuple(args, "O!nnO:locate", &PyList_Type, &texts, &start, &most_bytes, &encode))
        return NULL;
    const Py_ssize_t count = PyList_Size(texts) - start;
    if (start < 0 || count < 0) {
        PyErr_SetString(PyExc_IndexError, "start is outside of texts");
        return NULL;
    }
    const state *const held = PyModule_GetState(module);
    uintptr_t *address_out = NULL;
    size_t *size_out = NULL;
    PyObject *const owners = PyList_New(0);
    PyObject *const addresses = new_array(count, sizeof *address_out, &address_out);
    PyObject *const sizes = new_array(count, sizeof *size_out, &size_out);
    PyObject *result = NULL;
    Py_ssize_t done = 0, bytes = 0;
    if (owners == NULL || addresses == NULL || sizes == NULL)
        goto end;
    for (; done < count && (done == 0 || bytes < most_bytes); done++) {
        const char *address;
        Py_ssize_t size;
        PyObject *const text = PyList_GetItem(texts, start + done); /* fails where `encode` has shortened the list */
        if (text == NULL || locate(held, text, encode, owners, &address, &size) != 0)
            goto end;
        address_out[done] = (uintptr_t)address;
        size_out[done] = (size_t)size;
        bytes += size;
    }
    {
        const Py_ssize_t width = (Py_ssize_t)sizeof(size_t) * done;
        result = Py_BuildValue("(y#y#O)", (const char *)address_out, width, (const char *)size_out, width, owners);
    }
end:
    Py_XDECREF(owners);
    Py_XDECREF(addresses);
    Py_XDECREF(sizes);
    return result;
}

static PyMethodDef methods[] = {
    {"locate", locate_texts, METH_VARARGS, locate_doc},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    state *const held = PyModule_GetState(module);
    held->isascii = PyObject_GetAttrString((PyObject *)&PyUnicode_Type, "isascii");
    return held->isascii == NULL ? -1 : 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    const state *const held = PyModule_GetState(module);
    Py_VISIT(held->isascii);
    return 0;
}

static int clear(PyObject *module)
{
    state *const held = PyModule_GetState(module);
    Py_CLEAR(held->isascii);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_texts",
    .m_doc = "Where the UTF-8 of texts stands in memory.",
    .m_size = sizeof(state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__texts(void);

PyMODINIT_FUNC PyInit__texts(void)
{
    return PyModuleDef_Init(&definition);
}
