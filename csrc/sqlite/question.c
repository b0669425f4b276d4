/* question.c: what a call of neardup_search asks: its inputs, checked, and the stored value of its text. */
#include "sqlite/search.h"

#include <string.h>

static int set_measure(nd_cursor *cursor, nd_question *q)
{
    nd_table *table = nd_table_of(cursor);
    if (nd_input_is_null(cursor, ND_SEARCH_MEASURE))
        return SQLITE_OK;
    sqlite3_value *measure = cursor->inputs[ND_SEARCH_MEASURE];
    const char *name = sqlite3_value_type(measure) == SQLITE_TEXT ? (const char *)sqlite3_value_text(measure) : "";
    if (name == NULL)
        return SQLITE_NOMEM;
    if (strcmp(name, "containment") != 0)
        return nd_table_fail(table, "measure must be 'containment', or NULL for that of the index");
    if (nd_scheme_query(&q->settings->scheme, 1) == NULL)
        return nd_table_fail(table,
            "index \"%s\" cannot tell containment: rebuild it as MinHash(exact=True) or "
            "BottomK(containment=True)",
            q->settings->index);
    q->containment = 1;
    return SQLITE_OK;
}

static int set_bounds(nd_cursor *cursor, nd_question *q)
{
    nd_table *table = nd_table_of(cursor);
    const nd_scheme *scheme = &q->settings->scheme;
    nd_bounds bounds;
    nd_scheme_bounds(scheme, q->containment, &bounds);
    q->slope = nd_scheme_slope(scheme);
    q->threshold = bounds.threshold;
    q->limit = -1;
    if (!nd_input_is_null(cursor, ND_SEARCH_LIMIT))
        ND_TRY(nd_input_integer(cursor, ND_SEARCH_LIMIT, "max_results", 0, INT64_MAX, -1, &q->limit));
    if (nd_input_is_null(cursor, ND_SEARCH_THRESHOLD))
        return SQLITE_OK;
    int type = sqlite3_value_type(cursor->inputs[ND_SEARCH_THRESHOLD]);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
        return nd_table_fail(table, "threshold must be a number, not %s", nd_type_name(cursor->inputs[ND_SEARCH_THRESHOLD]));
    q->threshold = sqlite3_value_double(cursor->inputs[ND_SEARCH_THRESHOLD]);
    if (q->threshold > 1.0)
        return nd_table_fail(table, "threshold must be at most 1, not %g", q->threshold);
    if (q->containment && !(q->threshold > 0.0))
        return nd_table_fail(table, "threshold must be above 0, not %g", q->threshold);
    if (q->threshold < bounds.lowest)
        return nd_table_fail(table,
            "threshold %.15g is below %.15g, which index \"%s\" was built for: ask with "
            "a higher one, or rebuild the index",
            q->threshold, bounds.lowest, q->settings->index);
    return SQLITE_OK;
}

/* -1: it is none. */
static int hex_digit(uint8_t c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *const found = memchr(digits, c, sizeof digits - 1);
    return found == NULL ? -1 : (int)(found - digits) % 16;
}

/* The code that was given in hexadecimal (with or without 0x), or as a blob. */
static int set_code(nd_cursor *cursor, nd_question *q)
{
    nd_table *table = nd_table_of(cursor);
    const uint8_t *text;
    size_t size;
    size_t code_size = (size_t)q->settings->scheme.bits / 8;
    if (!nd_value_bytes(cursor->inputs[ND_SEARCH_TEXT], &text, &size))
        return nd_table_fail(table, "a code is text in hexadecimal or a blob, not %s",
            nd_type_name(cursor->inputs[ND_SEARCH_TEXT]));
    q->fingerprint = q->code;
    q->fingerprint_size = code_size;
    if (sqlite3_value_type(cursor->inputs[ND_SEARCH_TEXT]) == SQLITE_BLOB) {
        if (size != code_size)
            return nd_table_fail(table, "a code of index \"%s\" has %lld bytes, not %lld", q->settings->index,
                (sqlite3_int64)code_size, (sqlite3_int64)size);
        memcpy(q->code, text, size);
        return SQLITE_OK;
    }
    if (size >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        text += 2;
        size -= 2;
    }
    if (size != 2 * code_size)
        return nd_table_fail(table, "a code of index \"%s\" has %lld hexadecimal digits, not %lld", q->settings->index,
            (sqlite3_int64)(2 * code_size), (sqlite3_int64)size);
    for (size_t i = 0; i < code_size; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return nd_table_fail(table, "a code must be in hexadecimal digits, 0-9 and a-f");
        q->code[i] = (uint8_t)(high * 16 + low);
    }
    return SQLITE_OK;
}

/* The stored value of the text; a size of 0 for a text without shingles. */
static int set_text(nd_cursor *cursor, nd_question *q)
{
    nd_table *table = nd_table_of(cursor);
    nd_workspace *workspace = table->workspace;
    const nd_scheme *scheme = &q->settings->scheme;
    const nd_rules *rules = q->settings->rules;
    const uint8_t *text;
    size_t size;
    if (!nd_value_bytes(cursor->inputs[ND_SEARCH_TEXT], &text, &size))
        return nd_table_fail(table, "text (or UTF-8 in a blob) is needed, not %s", nd_type_name(cursor->inputs[ND_SEARCH_TEXT]));
    nd_values_clear(workspace->values);
    ND_TRY(nd_table_fail_status(table, nd_text_to_hashes(workspace->work, rules, text, size)));
    ND_TRY(nd_table_fail_status(table, nd_scheme_append_work(scheme, rules, workspace->work, workspace->values)));
    q->fingerprint = workspace->values->bytes;
    q->fingerprint_size = (size_t)workspace->values->ends[0];
    return SQLITE_OK;
}

int nd_question_read(nd_cursor *cursor, nd_question *q)
{
    memset(q, 0, sizeof *q);
    q->settings = &nd_table_of(cursor)->cache.settings;
    ND_TRY(set_measure(cursor, q));
    ND_TRY(set_bounds(cursor, q));
    if (nd_input_is_null(cursor, ND_SEARCH_TEXT))
        return SQLITE_OK;
    return q->settings->scheme.kind == ND_SCHEME_BINARYCODE ? set_code(cursor, q) : set_text(cursor, q);
}
