/* texts.c: where the UTF-8 of Python's texts stands in memory, so that a list of them needs
 * neither a copy nor a loop in Python, and the way back. It holds the interpreter lock and does nothing else; the work is then
 * done without. */
#include "python/module.h"

#include <string.h>

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
static int is_ascii_str(const nd_state *held, PyObject *text)
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

/* Memory that serves one text after another: characters, and behind them the UTF-8 of them. */
typedef struct scratch {
    Py_UCS4 *characters;
    Py_ssize_t capacity;
} scratch;

#if defined(__x86_64__) /* of GCC and Clang, clang-cl among them; MSVC defines another name */

#include <cpuid.h>
#include <tmmintrin.h>

#define WIDE_MOST ((Py_ssize_t)1 << 18) /* characters up to which a str is copied as UCS-4; a longer one is left to Python */
#define TARGET __attribute__((target("ssse3")))

/* Of four characters, by which are at least U+0080 (low four bits) and U+0800: how their bytes come together, and how many they are. */
static uint8_t together[256][16], sizes_together[256];

static void fill_together(void)
{
    for (unsigned mask = 0; mask < 256; mask++) {
        size_t size = 0;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned byte = 0; byte < 1 + (mask >> i & 1) + (mask >> (4 + i) & 1); byte++)
                together[mask][size++] = (uint8_t)(4 * i + byte);
        sizes_together[mask] = (uint8_t)size;
        for (; size < 16; size++)
            together[mask][size] = 0x80;
    }
}

/* Whether the CPU has SSSE3; then the tables are filled. */
static int is_able(void)
{
    const unsigned ssse3 = 1u << 9;
    unsigned eax, ebx, ecx, edx;
    if (sizes_together[0] == 0 && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & ssse3) != 0)
        fill_together();
    return sizes_together[0] != 0;
}

/* Four characters below U+10000: up to 12 bytes, and 16 are written. */
TARGET static inline char *put_four(__m128i characters, char *out)
{
    const __m128i low = _mm_set1_epi32(0x3F), high = _mm_srli_epi32(characters, 6);
    const __m128i above_1 = _mm_cmpgt_epi32(characters, _mm_set1_epi32(0x7F)),
                  above_2 = _mm_cmpgt_epi32(characters, _mm_set1_epi32(0x7FF));
    const __m128i last = _mm_or_si128(_mm_and_si128(characters, low), _mm_set1_epi32(0x80));
    const __m128i two = _mm_or_si128(_mm_or_si128(high, _mm_set1_epi32(0xC0)), _mm_slli_epi32(last, 8));
    const __m128i middle = _mm_slli_epi32(_mm_and_si128(high, low), 8), first = _mm_srli_epi32(characters, 12);
    const __m128i three = _mm_or_si128(_mm_or_si128(_mm_or_si128(first, middle), _mm_set1_epi32(0x80E0)),
        _mm_slli_epi32(last, 16));
    const __m128i short_ones = _mm_or_si128(_mm_andnot_si128(above_1, characters), _mm_and_si128(above_1, two));
    const __m128i bytes = _mm_or_si128(_mm_andnot_si128(above_2, short_ones), _mm_and_si128(above_2, three));
    const int mask = _mm_movemask_ps(_mm_castsi128_ps(above_1)) | _mm_movemask_ps(_mm_castsi128_ps(above_2)) << 4;
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(bytes, _mm_loadu_si128((const __m128i *)together[mask])));
    return out + sizes_together[mask];
}

static char *put_one(uint32_t character, char *out)
{
    const int following = (character >= 0x80) + (character >= 0x800) + (character >= 0x10000);
    static const unsigned char leads[4] = {0, 0xC0, 0xE0, 0xF0};
    *out++ = (char)(leads[following] | character >> 6 * following);
    for (int i = following - 1; i >= 0; i--)
        *out++ = (char)(0x80 | (character >> 6 * i & 0x3F));
    return out;
}

/* Lone surrogates become three bytes as any other character. Room: 4 bytes a character and 16 more. */
TARGET static char *put_utf8(const Py_UCS4 *characters, Py_ssize_t count, char *out)
{
    Py_ssize_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(characters + i)),
                      b = _mm_loadu_si128((const __m128i *)(characters + i + 4));
        const __m128i any = _mm_or_si128(a, b), beyond_ascii = _mm_and_si128(any, _mm_set1_epi32(~0x7F));
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(beyond_ascii, _mm_setzero_si128())) == 0xFFFF) {
            _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(_mm_packs_epi32(a, b), a));
            out += 8;
        } else if (_mm_movemask_epi8(_mm_cmpgt_epi32(any, _mm_set1_epi32(0xFFFF))) == 0) {
            out = put_four(b, put_four(a, out));
        } else {
            for (int k = 0; k < 8; k++)
                out = put_one(characters[i + k], out);
        }
    }
    for (; i < count; i++)
        out = put_one(characters[i], out);
    return out;
}

#endif

/* By way of UCS-4, which is what a module for all versions of Python can copy a str to; about twice as fast as Python's own. New
 * reference; NULL without an exception: not for this. */
static PyObject *quickly_encoded(PyObject *text, scratch *held)
{
#if defined(__x86_64__)
    const Py_ssize_t length = PyUnicode_GetLength(text);
    if (length < 0 || length > WIDE_MOST || !is_able())
        return NULL;
    if (length > held->capacity) {
        PyMem_Free(held->characters);
        held->characters = PyMem_Malloc((size_t)length * 8 + 16);
        held->capacity = held->characters != NULL ? length : 0;
        if (held->characters == NULL)
            return PyErr_NoMemory();
    }
    if (PyUnicode_AsUCS4(text, held->characters, length, 0) == NULL)
        return NULL;
    char *const bytes = (char *)(held->characters + length), *const end = put_utf8(held->characters, length, bytes);
    return PyBytes_FromStringAndSize(bytes, end - bytes);
#else
    (void)text, (void)held;
    return NULL;
#endif
}

/* The bytes of a text that has them nowhere yet: new reference. */
static PyObject *encoded(PyObject *text, PyObject *encode, scratch *held)
{
    if (PyUnicode_CheckExact(text)) {
        PyObject *bytes = quickly_encoded(text, held);
        if (bytes != NULL || PyErr_Occurred())
            return bytes;
        bytes = PyUnicode_AsUTF8String(text);
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
    const nd_state *held;
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

/* A str, or bytes where these are no UTF-8. */
static PyObject *decoded(const char *text, Py_ssize_t size)
{
    PyObject *const made = PyUnicode_DecodeUTF8(text, size, NULL);
    if (made != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return made;
    PyErr_Clear();
    return PyBytes_FromStringAndSize(text, size);
}

PyDoc_STRVAR(listed_doc, "listed(addresses, sizes, as_bytes) -> list\n--\n\n"
                         "The texts that stand in memory at addresses, each of so many bytes, as str; those that are no UTF-8, "
                         "and with as_bytes all,\n"
                         "as bytes. addresses and sizes: bytes as `locate` returns them.");

static PyObject *listed_texts(PyObject *module, PyObject *args)
{
    (void)module;
    const char *address_data, *size_data;
    Py_ssize_t address_bytes, size_bytes;
    int as_bytes;
    if (!PyArg_ParseTuple(args, "y#y#p:listed", &address_data, &address_bytes, &size_data, &size_bytes, &as_bytes))
        return NULL;
    const Py_ssize_t count = address_bytes / (Py_ssize_t)sizeof(uintptr_t);
    if (address_bytes != size_bytes || address_bytes % (Py_ssize_t)sizeof(uintptr_t) != 0) {
        PyErr_SetString(PyExc_ValueError, "give an address and a size for each text");
        return NULL;
    }
    PyObject *const list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        uintptr_t address;
        size_t size;
        memcpy(&address, address_data + i * (Py_ssize_t)sizeof address, sizeof address);
        memcpy(&size, size_data + i * (Py_ssize_t)sizeof size, sizeof size);
        const char *const text = (const char *)address;
        PyObject *const one = as_bytes ? PyBytes_FromStringAndSize(text, (Py_ssize_t)size) : decoded(text, (Py_ssize_t)size);
        if (one == NULL || PyList_SetItem(list, i, one) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyMethodDef nd_text_functions[] = {
    {"listed", listed_texts, METH_VARARGS, listed_doc},
    {"locate", locate_texts, METH_VARARGS, locate_doc},
    {NULL, NULL, 0, NULL},
};
