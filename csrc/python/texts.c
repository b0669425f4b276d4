/* texts.c: the module neardup_db._texts: where the UTF-8 of Python's texts stands in memory, so that a list of them needs
 * neither a copy nor a loop in Python. It holds the interpreter lock and does nothing else; the work is then done without. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

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

/* ---- UTF-8 of a str --------------------------------------------------------------------------------------------------------- */

#define WIDE_MOST ((Py_ssize_t)1 << 18) /* characters up to which a str is copied as UCS-4; a longer one is left to Python */
#define TOGETHER 8                      /* characters that are looked at together */

/* Memory that serves one text after another: characters, and behind their capacity the UTF-8 of them. */
typedef struct scratch {
    Py_UCS4 *characters;
    Py_ssize_t capacity;
} scratch;

/* One, two or three bytes; four are written. Returns where the next go. */
static inline char *put_up_to_three(uint32_t character, char *out)
{
    const uint32_t last = 0x80 | (character & 0x3F), middle = character >> 6 & 0x3F;
    const uint32_t two = 0xC0 | middle | last << 8, three = 0xE0 | character >> 12 | (0x80 | middle) << 8 | last << 16;
    const uint32_t bytes = character < 0x80 ? character : character < 0x800 ? two : three;
    memcpy(out, &bytes, sizeof bytes);
    return out + 1 + (character >= 0x80) + (character >= 0x800);
}

static char *put_four(uint32_t character, char *out)
{
    for (int i = 0; i < 4; i++)
        *out++ = (char)((i == 0 ? 0xF0 : 0x80) | (character >> (18 - 6 * i) & (i == 0 ? 0x7 : 0x3F)));
    return out;
}

/* Lone surrogates become three bytes as any other character. */
static char *put_utf8(const Py_UCS4 *characters, Py_ssize_t count, char *out)
{
    Py_ssize_t i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER) {
        const Py_UCS4 *const in = characters + i;
        uint32_t bits = 0;
        for (int k = 0; k < TOGETHER; k++)
            bits |= in[k];
        if (bits < 0x80) {
            for (int k = 0; k < TOGETHER; k++)
                out[k] = (char)in[k];
            out += TOGETHER;
        } else {
            for (int k = 0; k < TOGETHER; k++)
                out = in[k] < 0x10000 ? put_up_to_three(in[k], out) : put_four(in[k], out);
        }
    }
    for (; i < count; i++)
        out = characters[i] < 0x10000 ? put_up_to_three(characters[i], out) : put_four(characters[i], out);
    return out;
}

/* By way of UCS-4, which is what a module for all versions of Python can copy a str to: several times as fast as Python's own. */
static PyObject *encoded_by_us(PyObject *text, Py_ssize_t length, scratch *held)
{
    if (length > held->capacity) {
        PyMem_Free(held->characters);
        held->characters = PyMem_Malloc((size_t)length * 8 + sizeof(Py_UCS4));
        held->capacity = held->characters != NULL ? length : 0;
        if (held->characters == NULL)
            return PyErr_NoMemory();
    }
    if (PyUnicode_AsUCS4(text, held->characters, length, 0) == NULL)
        return NULL;
    char *const bytes = (char *)(held->characters + length), *const end = put_utf8(held->characters, length, bytes);
    return PyBytes_FromStringAndSize(bytes, end - bytes);
}

/* The bytes of a text that has them nowhere yet: new reference. */
static PyObject *encoded(PyObject *text, PyObject *encode, scratch *held)
{
    if (PyUnicode_CheckExact(text)) {
        const Py_ssize_t length = PyUnicode_GetLength(text);
        if (length <= WIDE_MOST)
            return length < 0 ? NULL : encoded_by_us(text, length, held);
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

/* What locate_texts works with. */
typedef struct work {
    const state *held;
    PyObject *encode, *owners;
    scratch scratch;
} work;

/* Address and size of one text; what was made for it goes into owners. 0, or -1 with an exception. */
static int locate(work *with, PyObject *text, const char **address, Py_ssize_t *size)
{
    const int ascii = is_ascii_str(with->held, text);
    if (ascii < 0)
        return -1;
    if (ascii) {
        *address = PyUnicode_AsUTF8AndSize(text, size);
        return *address == NULL ? -1 : 0;
    }
    if (PyBytes_Check(text))
        return PyBytes_AsStringAndSize(text, (char **)address, size);
    PyObject *const bytes = encoded(text, with->encode, &with->scratch);
    if (bytes == NULL)
        return -1;
    const int failed = PyList_Append(with->owners, bytes) != 0 || PyBytes_AsStringAndSize(bytes, (char **)address, size) != 0;
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
    work with = {.held = PyModule_GetState(module), .encode = encode, .owners = PyList_New(0)};
    uintptr_t *address_out = NULL;
    size_t *size_out = NULL;
    PyObject *const addresses = new_array(count, sizeof *address_out, &address_out);
    PyObject *const sizes = new_array(count, sizeof *size_out, &size_out);
    PyObject *result = NULL;
    Py_ssize_t done = 0, bytes = 0;
    if (with.owners == NULL || addresses == NULL || sizes == NULL)
        goto end;
    for (; done < count && (done == 0 || bytes < most_bytes); done++) {
        const char *address;
        Py_ssize_t size;
        PyObject *const text = PyList_GetItem(texts, start + done); /* fails where `encode` has shortened the list */
        if (text == NULL || locate(&with, text, &address, &size) != 0)
            goto end;
        address_out[done] = (uintptr_t)address;
        size_out[done] = (size_t)size;
        bytes += size;
    }
    {
        const Py_ssize_t width = (Py_ssize_t)sizeof(size_t) * done;
        result = Py_BuildValue("(y#y#O)", (const char *)address_out, width, (const char *)size_out, width, with.owners);
    }
end:
    PyMem_Free(with.scratch.characters);
    Py_XDECREF(with.owners);
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
