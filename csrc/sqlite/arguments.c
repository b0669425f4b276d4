/* arguments.c: what scalar functions have in common: their arguments, their errors, and how they are registered. */
#include "sqlite/neardup.h"

#include <string.h>

/* ---- values --------------------------------------------------------------------------------------------------------- */

const char *nd_type_name(sqlite3_value *value)
{
    static const char *const names[] = {[SQLITE_INTEGER] = "an integer",
        [SQLITE_FLOAT] = "a real number",
        [SQLITE_TEXT] = "text",
        [SQLITE_BLOB] = "a blob",
        [SQLITE_NULL] = "NULL"};
    return names[sqlite3_value_type(value)];
}

int nd_value_bytes(sqlite3_value *value, const uint8_t **bytes, size_t *size)
{
    const void *data;
    int type = sqlite3_value_type(value);
    if (type == SQLITE_TEXT)
        data = sqlite3_value_text(value); /* before sqlite3_value_bytes: it may convert from UTF-16 */
    else if (type == SQLITE_BLOB)
        data = sqlite3_value_blob(value);
    else
        return 0;
    *size = data == NULL ? 0 : (size_t)sqlite3_value_bytes(value);
    *bytes = data == NULL ? (const uint8_t *)"" : data;
    return 1;
}

/* ---- errors, behind the name of the function -------------------------------------------------------------------------- */

/* What SQLite hands to a function. */
typedef struct function {
    const nd_scalar_spec *spec;
    nd_workspace *workspace;
} function;

nd_workspace *nd_function_workspace(sqlite3_context *context)
{
    return ((const function *)sqlite3_user_data(context))->workspace;
}

char *nd_message(const char *name, const char *format, va_list arguments)
{
    char *sentence = sqlite3_vmprintf(format, arguments);
    char *message = sentence == NULL ? NULL : sqlite3_mprintf("%s: %s", name, sentence);
    sqlite3_free(sentence);
    return message;
}

int nd_fail(sqlite3_context *context, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = nd_message(((const function *)sqlite3_user_data(context))->spec->name, format, arguments);
    va_end(arguments);
    if (message == NULL)
        return SQLITE_NOMEM;
    sqlite3_result_error(context, message, -1);
    sqlite3_free(message);
    return SQLITE_ERROR;
}

const char *nd_status_sentence(int status)
{
    if (status == ND_ERROR_PARAMETER)
        return "a parameter is out of its range";
    if (status == ND_ERROR_DAMAGED)
        return "the fingerprint is damaged: wrong length or order";
    return "the answer would be too large";
}

int nd_status_code(int status)
{
    if (status == ND_OK)
        return SQLITE_OK;
    return status == ND_ERROR_MEMORY ? SQLITE_NOMEM : status == ND_ERROR_STOPPED ? SQLITE_INTERRUPT : SQLITE_ERROR;
}

int nd_fail_status(sqlite3_context *context, int status)
{
    const int code = nd_status_code(status);
    return code == SQLITE_ERROR ? nd_fail(context, "%s", nd_status_sentence(status)) : code;
}

/* ---- arguments ---------------------------------------------------------------------------------------------------------- */

int nd_argument_integer(sqlite3_context *context, const char *name, sqlite3_value *value, int64_t low, int64_t high, int64_t *out)
{
    if (value != NULL)
        *out = sqlite3_value_int64(value);
    if (*out < low || *out > high)
        return nd_fail(context, "%s must be %lld to %lld, not %lld", name, low, high, *out);
    return SQLITE_OK;
}

/* What a letter of nd_scalar_spec stands for; types as bits. */
static const struct {
    unsigned types;
    const char *name;
} kinds[] = {
    ['b'] = {1 << SQLITE_BLOB, "a blob"},
    ['i'] = {1 << SQLITE_INTEGER, "an integer"},
    ['n'] = {1 << SQLITE_INTEGER | 1 << SQLITE_FLOAT, "a number"},
    ['t'] = {1 << SQLITE_TEXT | 1 << SQLITE_BLOB, "text (or UTF-8 in a blob)"},
};

/* Argument `wrong` is not of its type, the first one: NULL if that or a later one is NULL, else an error. */
static int refuse(sqlite3_context *context, const char *types, int argc, sqlite3_value **argv, int wrong)
{
    for (int i = wrong; i < argc; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return SQLITE_OK;
    return nd_fail(context, "argument %d must be %s, not %s", wrong + 1, kinds[(int)types[wrong]].name,
        nd_type_name(argv[wrong]));
}

static void finish(sqlite3_context *context, int code)
{
    if (code == SQLITE_NOMEM)
        sqlite3_result_error_nomem(context);
    else if (code != SQLITE_OK)
        sqlite3_result_error_code(context, code);
}

static void call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const nd_scalar_spec *spec = ((const function *)sqlite3_user_data(context))->spec;
    sqlite3_value *arguments[ND_ARGUMENTS_MAX] = {NULL};
    for (int i = 0; i < argc; i++) {
        if ((kinds[(int)spec->types[i]].types >> sqlite3_value_type(argv[i]) & 1) == 0) {
            finish(context, refuse(context, spec->types, argc, argv, i));
            return;
        }
        arguments[i] = argv[i];
    }
    finish(context, spec->function(context, arguments));
}

/* Of a function that looks at the types itself: queries call some of these for every candidate. */
static void call_untyped(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    finish(context, ((const function *)sqlite3_user_data(context))->spec->function(context, argv));
}

/* ---- registration -------------------------------------------------------------------------------------------------------- */

static void function_free(void *pointer)
{
    function *f = pointer;
    nd_workspace_release(f->workspace);
    sqlite3_free(f);
}

int nd_register_scalar(sqlite3 *db, nd_workspace *workspace, const nd_scalar_spec *spec)
{
    const int flags = SQLITE_UTF8 | (spec->reads ? SQLITE_DIRECTONLY : SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS);
    function *f = sqlite3_malloc64(sizeof *f);
    if (f == NULL)
        return SQLITE_NOMEM;
    *f = (function){spec, workspace};
    workspace->references++; /* given back by SQLite even where registration fails */
    return sqlite3_create_function_v2(db, spec->name, (int)strlen(spec->types), flags, f,
        spec->types[0] == '*' ? call_untyped : call, NULL, NULL, function_free);
}
