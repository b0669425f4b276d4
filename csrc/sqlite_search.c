/* sqlite_search.c: neardup_search(index, text [, threshold [, max_results [, measure]]]) -> key, similarity, distance, document_id.
 *
 * The near-duplicates of a text among the documents without a group, best first, ties in the order of insertion. threshold and
 * max_results NULL or not given: the threshold of the index, no limit. measure 'containment': documents that hold the text, at
 * least this share of its shingles (0.8 where no threshold is given), and similarity is that share. For an index of codes (BinaryCode) the text is the code
 * in hexadecimal, or the code itself as a blob. A text without shingles has no rows, and so has NULL.
 *
 * The stored value of the text is computed here; the query is the text that Python runs (neardup_db/sql). All rows are collected
 * before the first is given out, so no statement of ours is open while the caller works. DIRECTONLY: it reads the database. */
#include "sqlite_neardup.h"

#include <string.h>
#include <time.h>

#include "sql_texts.h"

static nd_table_spec search_spec = {
    .name = "neardup_search",
    .declaration = "CREATE TABLE x(\"key\", similarity REAL, distance INTEGER, document_id INTEGER, "
                   "index_name HIDDEN, text HIDDEN, threshold HIDDEN, max_results HIDDEN, measure HIDDEN)",
    .innocuous = 0,
    .outputs = 4,
    .required = 2,
    .inputs = 5,
    .rows = 10,
};

typedef struct search_row {
    sqlite3_value *key;
    double similarity;
    int64_t distance; /* -1 where the scheme has none */
    int64_t document_id;
} search_row;

typedef struct search_cursor {
    nd_cursor head;
    search_row *rows;
    size_t capacity;
} search_cursor;

/* What the parameters of the query are bound to. */
typedef struct question {
    const nd_settings *settings;
    const uint8_t *fingerprint;
    size_t fingerprint_size;
    const uint64_t *evidence; /* sorted distinct shingle hashes; NULL unless the scheme verifies by texts */
    size_t evidence_count;
    double slope;     /* similarity = 1 - slope * distance / bits */
    double threshold; /* -1.0: the distance alone decides */
    int64_t limit;    /* -1: none */
    int containment;  /* 1: how much of the text is in a document */
} question;

#define ND_CONTAINMENT_DEFAULT 0.8

static int is_hamming(const nd_scheme *scheme)
{
    return scheme->kind == ND_SCHEME_SIMHASH || scheme->kind == ND_SCHEME_BITSAMPLING || scheme->kind == ND_SCHEME_BINARYCODE;
}

/* ---- the question: bounds, value, evidence --------------------------------------------------------------------------- */

static int has_containment(const nd_scheme *scheme)
{
    return (scheme->kind == ND_SCHEME_BOTTOMK && scheme->containment) ||
           (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence != ND_EVIDENCE_NONE);
}

static int set_measure(search_cursor *cursor, question *q)
{
    sqlite3_vtab *table = cursor->head.base.pVtab;
    if (nd_input_is_null(&cursor->head, 4))
        return SQLITE_OK;
    sqlite3_value *measure = cursor->head.inputs[4];
    const char *name = sqlite3_value_type(measure) == SQLITE_TEXT ? (const char *)sqlite3_value_text(measure) : "";
    if (name == NULL)
        return SQLITE_NOMEM;
    if (strcmp(name, "containment") != 0)
        return nd_table_fail(table, "neardup_search: measure must be 'containment', or NULL for that of the index");
    if (!has_containment(&q->settings->scheme))
        return nd_table_fail(table, "neardup_search: index \"%s\" cannot tell containment: rebuild it as MinHash(exact=True) or "
                                    "BottomK(containment=True)",
                             q->settings->index);
    q->containment = 1;
    return SQLITE_OK;
}

static int set_bounds(search_cursor *cursor, question *q)
{
    sqlite3_vtab *table = cursor->head.base.pVtab;
    const nd_scheme *scheme = &q->settings->scheme;
    double own = scheme->threshold;
    q->slope = scheme->kind == ND_SCHEME_BITSAMPLING ? 2.0 : 1.0;
    q->threshold = own;
    q->limit = -1;
    if (is_hamming(scheme)) {
        own = 1.0 - q->slope * (double)scheme->max_distance / (double)scheme->bits;
        own = own > 0.0 ? own : 0.0;
        q->threshold = -1.0;
    }
    if (q->containment)
        q->threshold = ND_CONTAINMENT_DEFAULT;
    if (!nd_input_is_null(&cursor->head, 3)) {
        int code = nd_input_integer(&cursor->head, 3, "max_results", 0, INT64_MAX, -1, &q->limit);
        if (code != SQLITE_OK)
            return code;
    }
    if (nd_input_is_null(&cursor->head, 2))
        return SQLITE_OK;
    int type = sqlite3_value_type(cursor->head.inputs[2]);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER)
        return nd_table_fail(table, "neardup_search: threshold must be a number, not %s", nd_type_name(cursor->head.inputs[2]));
    q->threshold = sqlite3_value_double(cursor->head.inputs[2]);
    if (q->threshold > 1.0)
        return nd_table_fail(table, "neardup_search: threshold must be at most 1, not %g", q->threshold);
    if (q->containment && !(q->threshold > 0.0))
        return nd_table_fail(table, "neardup_search: threshold must be above 0, not %g", q->threshold);
    if (q->threshold < own && !q->containment)
        return nd_table_fail(table, "neardup_search: threshold %.15g is below %.15g, which index \"%s\" was built for: ask with "
                                    "a higher one, or rebuild the index",
                             q->threshold, own, q->settings->index);
    return SQLITE_OK;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The code that was given in hexadecimal (with or without 0x), or as a blob. */
static int set_code(search_cursor *cursor, question *q, uint8_t *code)
{
    sqlite3_vtab *table = cursor->head.base.pVtab;
    const uint8_t *text;
    size_t size;
    size_t code_size = (size_t)q->settings->scheme.bits / 8;
    if (!nd_value_bytes(cursor->head.inputs[1], &text, &size))
        return nd_table_fail(table, "neardup_search: a code is text in hexadecimal or a blob, not %s",
                             nd_type_name(cursor->head.inputs[1]));
    q->fingerprint = code;
    q->fingerprint_size = code_size;
    if (sqlite3_value_type(cursor->head.inputs[1]) == SQLITE_BLOB) {
        if (size != code_size)
            return nd_table_fail(table, "neardup_search: a code of index \"%s\" has %lld bytes, not %lld", q->settings->index,
                                 (sqlite3_int64)code_size, (sqlite3_int64)size);
        memcpy(code, text, size);
        return SQLITE_OK;
    }
    if (size >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        text += 2;
        size -= 2;
    }
    if (size != 2 * code_size)
        return nd_table_fail(table, "neardup_search: a code of index \"%s\" has %lld hexadecimal digits, not %lld",
                             q->settings->index, (sqlite3_int64)(2 * code_size), (sqlite3_int64)size);
    for (size_t i = 0; i < code_size; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return nd_table_fail(table, "neardup_search: a code must be in hexadecimal digits, 0-9 and a-f");
        code[i] = (uint8_t)(high * 16 + low);
    }
    return SQLITE_OK;
}

/* The stored value of the text, and the evidence; a size of 0 for a text without shingles. */
static int set_text(search_cursor *cursor, question *q)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    nd_workspace *workspace = table->workspace;
    const nd_scheme *scheme = &q->settings->scheme;
    const nd_rules *rules = q->settings->rules;
    const uint8_t *text;
    size_t size;
    if (!nd_value_bytes(cursor->head.inputs[1], &text, &size))
        return nd_table_fail(&table->base, "neardup_search: text (or UTF-8 in a blob) is needed, not %s",
                             nd_type_name(cursor->head.inputs[1]));
    nd_values_clear(workspace->values);
    int status = nd_text_tokenize(workspace->work, rules, text, size);
    if (status == ND_OK)
        status = nd_text_hash(workspace->work, rules);
    if (status == ND_OK)
        status = nd_scheme_append_work(scheme, rules, workspace->work, workspace->values);
    if (status != ND_OK)
        return nd_table_fail_status(&table->base, status);
    q->fingerprint = nd_values_bytes(workspace->values);
    q->fingerprint_size = (size_t)nd_values_ends(workspace->values)[0];
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_TEXT) {
        size_t count = nd_text_shingle_count(workspace->work, rules);
        uint64_t *hashes = nd_workspace_numbers(workspace, 0, count);
        if (hashes == NULL)
            return SQLITE_NOMEM;
        if (count > 0)
            memcpy(hashes, nd_text_hashes(workspace->work), count * sizeof *hashes);
        q->evidence = hashes;
        q->evidence_count = nd_sort_distinct(hashes, count);
    }
    return SQLITE_OK;
}

/* ---- the query ---------------------------------------------------------------------------------------------------------- */

static const char *containment_name(const nd_scheme *scheme)
{
    if (scheme->kind == ND_SCHEME_BOTTOMK)
        return "verify_prefix_containment";
    return scheme->evidence == ND_EVIDENCE_HASHES ? "verify_scan_containment" : "verify_scan_text_containment";
}

/* Which verify_*.sql answers; scan is whether looking at all fingerprints is cheaper than probing. */
static const char *verify_name(const nd_scheme *scheme, int scan)
{
    switch (scheme->plan) {
    case ND_PLAN_BLOCKS:
        return scan ? "verify_scan" : "verify_blocks";
    case ND_PLAN_CHUNKS:
        return scan ? "verify_scan" : "verify_chunks";
    case ND_PLAN_BANDS:
        if (scheme->evidence == ND_EVIDENCE_HASHES)
            return "verify_bands_hashes";
        return scheme->evidence == ND_EVIDENCE_TEXT ? "verify_bands_text" : "verify_bands";
    case ND_PLAN_PREFIX:
        return scheme->measure == ND_MEASURE_ESTIMATE ? "verify_prefix_estimate" : "verify_prefix";
    default:
        return "verify_scan";
    }
}

static const char *find_text(const char *name)
{
    for (size_t i = 0; i < sizeof nd_sql_texts / sizeof nd_sql_texts[0]; i++)
        if (strcmp(name, nd_sql_texts[i].name) == 0)
            return nd_sql_texts[i].text;
    return "";
}

/* Appends a query text with {index} and {verified} replaced. */
static void expand(sqlite3_str *sql, const char *text, const char *index, const char *verified)
{
    while (*text != '\0') {
        const char *brace = strchr(text, '{');
        if (brace == NULL)
            brace = text + strlen(text);
        sqlite3_str_append(sql, text, (int)(brace - text));
        text = brace;
        if (strncmp(text, "{index}", 7) == 0) {
            sqlite3_str_appendall(sql, index);
            text += 7;
        } else if (strncmp(text, "{verified}", 10) == 0 && verified != NULL) {
            expand(sql, verified, index, NULL);
            text += 10;
        } else if (strncmp(text, "{crowd}", 7) == 0) { /* a query looks at all rows of a bucket */
            text += 7;
        } else if (*text != '\0') {
            sqlite3_str_append(sql, text++, 1);
        }
    }
}

/* Takes over the text of `sql` and prepares it. */
static int prepare(nd_table *table, sqlite3_str *sql, sqlite3_stmt **out)
{
    char *text = sqlite3_str_finish(sql);
    if (text == NULL)
        return SQLITE_NOMEM;
    int code = sqlite3_prepare_v2(table->cache.db, text, -1, out, NULL);
    sqlite3_free(text);
    if (code != SQLITE_OK)
        nd_table_fail(&table->base, "neardup_search: %s", sqlite3_errmsg(table->cache.db));
    return code;
}

/* The highest id of a fingerprint: about how many there are. */
static int count_fingerprints(nd_table *table, const char *index, int64_t *count)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_str *sql = sqlite3_str_new(table->cache.db);
    expand(sql, "SELECT max(id) FROM {index}_fingerprint", index, NULL);
    int code = prepare(table, sql, &statement);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *count = sqlite3_column_int64(statement, 0);
    else
        nd_table_fail(&table->base, "neardup_search: %s", sqlite3_errmsg(table->cache.db));
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * 1000 + (int64_t)now.tv_nsec / 1000000;
}

/* Binds those parameters that the query has. */
static int bind_question(sqlite3_stmt *statement, const question *q)
{
    const nd_scheme *scheme = &q->settings->scheme;
    int code = SQLITE_OK;
    for (int i = 1; i <= sqlite3_bind_parameter_count(statement) && code == SQLITE_OK; i++) {
        const char *name = sqlite3_bind_parameter_name(statement, i);
        if (strcmp(name, ":fingerprint") == 0)
            code = sqlite3_bind_blob64(statement, i, q->fingerprint, q->fingerprint_size, SQLITE_STATIC);
        else if (strcmp(name, ":evidence") == 0)
            code = sqlite3_bind_blob64(statement, i, q->evidence, q->evidence_count * sizeof(uint64_t), SQLITE_STATIC);
        else if (strcmp(name, ":threshold") == 0)
            code = sqlite3_bind_double(statement, i, q->threshold);
        else if (strcmp(name, ":max_distance") == 0)
            code = sqlite3_bind_int(statement, i, scheme->max_distance);
        else if (strcmp(name, ":now") == 0)
            code = sqlite3_bind_int64(statement, i, now_ms());
        else if (strcmp(name, ":limit") == 0)
            code = sqlite3_bind_int64(statement, i, q->limit);
        else if (strcmp(name, ":slope") == 0)
            code = sqlite3_bind_double(statement, i, q->slope);
        else if (strcmp(name, ":bits") == 0)
            code = sqlite3_bind_int(statement, i, scheme->bits);
        else if (strcmp(name, ":slot_bits") == 0)
            code = sqlite3_bind_int(statement, i, scheme->slot_bits);
        else if (strcmp(name, ":k") == 0)
            code = sqlite3_bind_int(statement, i, scheme->k);
        else if (strcmp(name, ":group_id") == 0 || strcmp(name, ":after_id") == 0 || strcmp(name, ":except_id") == 0)
            code = sqlite3_bind_int(statement, i, 0);
        else
            code = SQLITE_INTERNAL;
    }
    return code;
}

/* ---- the rows ------------------------------------------------------------------------------------------------------------- */

static void drop_rows(search_cursor *cursor)
{
    for (size_t i = 0; i < cursor->head.count; i++)
        sqlite3_value_free(cursor->rows[i].key);
    cursor->head.count = 0;
}

/* Columns 0 to 3 of matches.sql: key, similarity, distance, document's id. */
static int add_row(search_cursor *cursor, sqlite3_stmt *statement)
{
    if (cursor->head.count == cursor->capacity) {
        size_t capacity = 2 * cursor->capacity + 16;
        search_row *grown = sqlite3_realloc64(cursor->rows, capacity * sizeof *grown);
        if (grown == NULL)
            return SQLITE_NOMEM;
        cursor->rows = grown;
        cursor->capacity = capacity;
    }
    search_row *row = &cursor->rows[cursor->head.count];
    row->key = sqlite3_value_dup(sqlite3_column_value(statement, 0));
    if (row->key == NULL)
        return SQLITE_NOMEM;
    row->similarity = sqlite3_column_double(statement, 1);
    row->distance = sqlite3_column_type(statement, 2) == SQLITE_NULL ? -1 : sqlite3_column_int64(statement, 2);
    row->document_id = sqlite3_column_int64(statement, 3);
    cursor->head.count++;
    return SQLITE_OK;
}

static int run_query(search_cursor *cursor, const question *q)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    const nd_scheme *scheme = &q->settings->scheme;
    const char *index = q->settings->index;
    sqlite3_stmt *statement = NULL;
    int64_t fingerprints = 0;
    int code = SQLITE_OK;
    if (is_hamming(scheme) && scheme->plan != ND_PLAN_SCAN)
        code = count_fingerprints(table, index, &fingerprints);
    if (code != SQLITE_OK)
        return code;
    const char *verified = find_text(q->containment ? containment_name(scheme)
                                                    : verify_name(scheme, nd_scheme_prefers_scan(scheme, fingerprints)));
    sqlite3_str *sql = sqlite3_str_new(table->cache.db);
    expand(sql, find_text("matches"), index, verified);
    code = prepare(table, sql, &statement);
    if (code != SQLITE_OK)
        return code;
    code = bind_question(statement, q);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        code = add_row(cursor, statement);
    if (code != SQLITE_DONE)
        nd_table_fail(&table->base, "neardup_search: %s", sqlite3_errmsg(table->cache.db));
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int answer(search_cursor *cursor)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    question q;
    uint8_t code_bytes[512];
    memset(&q, 0, sizeof q);
    q.settings = &table->cache.settings;
    if (q.settings->scheme.bits < 0 || (size_t)q.settings->scheme.bits / 8 > sizeof code_bytes)
        return nd_table_fail(&table->base, "neardup_search: codes of index \"%s\" are too wide", q.settings->index);
    int code = set_measure(cursor, &q);
    if (code == SQLITE_OK)
        code = set_bounds(cursor, &q);
    if (code != SQLITE_OK || nd_input_is_null(&cursor->head, 1))
        return code;
    code = q.settings->scheme.kind == ND_SCHEME_BINARYCODE ? set_code(cursor, &q, code_bytes) : set_text(cursor, &q);
    if (code != SQLITE_OK || q.fingerprint_size == 0)
        return code;
    return run_query(cursor, &q);
}

/* ---- the table-valued function ----------------------------------------------------------------------------------------- */

static int search_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    nd_table *table = (nd_table *)base;
    table->cache.with_rules = 1;
    if (table->workspace == NULL)
        table->workspace = nd_workspace_new();
    if (table->workspace == NULL)
        return SQLITE_NOMEM;
    return nd_cursor_open(sizeof(search_cursor), out);
}

static int search_close(sqlite3_vtab_cursor *base)
{
    search_cursor *cursor = (search_cursor *)base;
    drop_rows(cursor);
    sqlite3_free(cursor->rows);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

static int search_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    search_cursor *cursor = (search_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    char *message = NULL;
    drop_rows(cursor);
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code != SQLITE_OK)
        return code;
    code = nd_cache_open(&table->cache, cursor->head.inputs[0], &message);
    if (code == SQLITE_OK)
        code = answer(cursor);
    else
        nd_table_fail_message(&table->base, code, message);
    nd_cache_release(&table->cache);
    return code;
}

static int search_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    search_cursor *cursor = (search_cursor *)base;
    const search_row *row = &cursor->rows[cursor->head.row];
    if (column == 0)
        sqlite3_result_value(context, row->key);
    else if (column == 1)
        sqlite3_result_double(context, row->similarity);
    else if (column == 3)
        sqlite3_result_int64(context, row->document_id);
    else if (column > 3)
        return nd_cursor_input(&cursor->head, context, column);
    else if (row->distance >= 0)
        sqlite3_result_int64(context, row->distance);
    return SQLITE_OK;
}

static const sqlite3_module search_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = search_open,
    .xClose = search_close,
    .xFilter = search_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = search_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_search(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, search_spec.name, &search_module, &search_spec, NULL);
}
