/* arguments.c: what scalar functions have in common: their arguments, their errors, and how they are registered. */
#include "sqlite/neardup.h"

#include <stdarg.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------------------------------- */

const char *nd_type_name(sqlite3_value *value)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
        return "an integer";
    case SQLITE_FLOAT:
        return "a real number";
    case SQLITE_TEXT:
        return "text";
    case SQLITE_BLOB:
        return "a blob";
    default:
        return "NULL";
    }
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

int nd_any_null(int argc, sqlite3_value **argv)
{
    for (int i = 0; i < argc; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return 1;
    return 0;
}

/* ---- errors, behind the name of the function -------------------------------------------------------------------------- */

/* What SQLite hands to a function. */
typedef struct function {
    const char *name;
    nd_workspace *workspace;
} function;

nd_workspace *nd_function_workspace(sqlite3_context *context)
{
    return ((const function *)sqlite3_user_data(context))->workspace;
}

void nd_fail(sqlite3_context *context, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sentence = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    char *message = sentence == NULL ? NULL
                                     : sqlite3_mprintf("%s: %s", ((const function *)sqlite3_user_data(context))->name, sentence);
    sqlite3_free(sentence);
    if (message == NULL)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error(context, message, -1);
    sqlite3_free(message);
}

const char *nd_status_sentence(int status)
{
    if (status == ND_ERROR_PARAMETER)
        return "a parameter is out of its range";
    if (status == ND_ERROR_DAMAGED)
        return "the fingerprint is damaged: wrong length or order";
    return "the answer would be too large";
}

int nd_fail_status(sqlite3_context *context, int status)
{
    if (status == ND_ERROR_MEMORY)
        sqlite3_result_error_nomem(context);
    else if (status == ND_ERROR_STOPPED)
        sqlite3_result_error_code(context, SQLITE_INTERRUPT);
    else if (status != ND_OK)
        nd_fail(context, "%s", nd_status_sentence(status));
    return status == ND_OK;
}

/* ---- arguments: 0 where the function has ended with an error ------------------------------------------------------------ */

int nd_argument_integer(sqlite3_context *context, const char *name, sqlite3_value *value, int64_t low, int64_t high, int64_t *out)
{
    if (sqlite3_value_type(value) != SQLITE_INTEGER) {
        nd_fail(context, "%s must be an integer, not %s", name, nd_type_name(value));
        return 0;
    }
    *out = sqlite3_value_int64(value);
    if (*out >= low && *out <= high)
        return 1;
    nd_fail(context, "%s must be %lld to %lld, not %lld", name, low, high, *out);
    return 0;
}

int nd_argument_threshold(sqlite3_context *context, sqlite3_value *value, double *out)
{
    int type = sqlite3_value_type(value);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) {
        nd_fail(context, "threshold must be a number, not %s", nd_type_name(value));
        return 0;
    }
    *out = sqlite3_value_double(value);
    if (!(*out > 1.0))
        return 1;
    nd_fail(context, "threshold must be at most 1, not %g", *out);
    return 0;
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
    *f = (function){spec->name, workspace};
    workspace->references++; /* given back by SQLite even where registration fails */
    return sqlite3_create_function_v2(db, spec->name, spec->argc, flags, f, spec->function, NULL, NULL, function_free);
}
