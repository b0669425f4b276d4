/* vtab_passages.c: what two texts share, of an index of passages.
 *
 * neardup_passage_share(value, fingerprint, shortest) -> the share of the shorter text's tokens that lie in common passages, and
 * neardup_passage_containment(value, fingerprint, shortest) -> that of the fingerprint's tokens, each of two stored values; 0.0
 * where they share no passage. The fingerprint is indexed once a statement.
 *
 * neardup_passages(index, text [, threshold [, max_results [, measure [, group]]]]) -> key, start, end, other_start, other_end,
 * tokens, document_id: the passages that the text shares with each document that neardup_search finds, the longest first. start and
 * end are in the text, other_start and other_end in the document's, in characters as substr() counts them, from 0, or in tokens
 * where the index stores no texts. document_id, fingerprint and shortest are for Python: this document alone; the value of the text
 * where that is NULL; a longer shortest passage. */
#include "sqlite/search.h"

#include <stdlib.h>
#include <string.h>

/* ---- shares ---------------------------------------------------------------------------------------------------------------- */

/* The fingerprint of a statement. */
typedef struct asked {
    nd_passages *passages;
    int64_t shortest;
    size_t size;
    uint8_t bytes[];
} asked;

static void asked_free(void *data)
{
    asked *question = data;
    nd_passages_free(question->passages);
    sqlite3_free(question);
}

static int begin(sqlite3_context *context, sqlite3_value *value, int64_t shortest, asked **out)
{
    const uint8_t *bytes;
    size_t size;
    (void)nd_value_bytes(value, &bytes, &size);
    asked *question = sqlite3_malloc64(sizeof *question + size);
    if (question == NULL)
        return SQLITE_NOMEM;
    *question = (asked){.passages = nd_passages_new(), .shortest = shortest, .size = size};
    memcpy(question->bytes, bytes, size);
    int status = question->passages == NULL ? ND_ERROR_MEMORY
                                            : nd_passages_begin(question->passages, question->bytes, size, (size_t)shortest);
    if (status != ND_OK) {
        asked_free(question);
        return nd_fail_status(context, status);
    }
    sqlite3_set_auxdata(context, 1, question, asked_free);
    *out = sqlite3_get_auxdata(context, 1);
    return *out == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

static int share(sqlite3_context *context, sqlite3_value **argv, int containment)
{
    const uint8_t *bytes;
    size_t size;
    int64_t shortest;
    uint64_t own, others;
    ND_TRY(nd_argument_integer(context, "shortest", argv[2], ND_SHORTEST_MIN, ND_SHORTEST_MAX, &shortest));
    asked *question = sqlite3_get_auxdata(context, 1);
    if (question == NULL || question->shortest != shortest)
        ND_TRY(begin(context, argv[1], shortest, &question));
    (void)nd_value_bytes(argv[0], &bytes, &size);
    const int status = nd_passages_compare(question->passages, bytes, size, &own, &others);
    const size_t tokens = question->size / 4;
    if (status == ND_ERROR_DAMAGED)
        return nd_fail(context, "a blob of %d bytes does not hold token hashes of 4 bytes", sqlite3_value_bytes(argv[0]));
    ND_TRY(nd_fail_status(context, status));
    sqlite3_result_double(context, own == 0      ? 0.0
                                   : containment ? (double)own / (double)tokens
                                                 : nd_passage_share(own, tokens, others, size / 4));
    return SQLITE_OK;
}

static int sql_share(sqlite3_context *context, sqlite3_value **argv)
{
    return share(context, argv, 0);
}

static int sql_containment(sqlite3_context *context, sqlite3_value **argv)
{
    return share(context, argv, 1);
}

const nd_scalar_spec nd_passage_scalars[] = {
    {"neardup_passage_share", "bbi", 0, sql_share},
    {"neardup_passage_containment", "bbi", 0, sql_containment},
    {NULL, NULL, 0, NULL},
};

/* ---- passages ---------------------------------------------------------------------------------------------------------------- */

enum { DOCUMENT_ID = ND_SEARCH_INPUTS, FINGERPRINT, SHORTEST, INPUTS };

typedef struct passage_row {
    sqlite3_int64 document_id;
    size_t key; /* of the cursor's */
    uint64_t start, end, other_start, other_end, tokens;
} passage_row;

/* Where tokens begin and end in a text, in characters. */
typedef struct located {
    uint64_t *starts, *ends; /* in one buffer */
    size_t capacity;
} located;

typedef struct passages_cursor {
    nd_cursor head;
    nd_passages *passages;
    passage_row *rows;
    size_t row_count, row_capacity;
    sqlite3_value **keys;
    size_t key_count, key_capacity;
    located own, other;
} passages_cursor;

static void drop_rows(passages_cursor *cursor)
{
    for (size_t i = 0; i < cursor->key_count; i++)
        sqlite3_value_free(cursor->keys[i]);
    cursor->row_count = cursor->key_count = 0;
}

/* Turns ascending places in bytes into places in characters. */
static void count_characters(const uint8_t *text, uint64_t *places, size_t count)
{
    uint64_t at = 0, characters = 0;
    for (size_t i = 0; i < count; i++) {
        for (; at < places[i]; at++)
            characters += (text[at] & 0xC0) != 0x80;
        places[i] = characters;
    }
}

static int locate(nd_table *table, const uint8_t *text, size_t size, size_t tokens, located *out)
{
    size_t count;
    ND_TRY(nd_buffer_reserve((void **)&out->starts, &out->capacity, 2 * tokens, sizeof(uint64_t)));
    out->ends = out->starts + tokens;
    const int status = nd_text_locate(table->workspace->work, table->cache.settings.rules, text, size, out->starts, out->ends,
        tokens, &count);
    if (status == ND_ERROR_CAPACITY || (status == ND_OK && count != tokens))
        return nd_table_fail(table, "a stored text is not the one that its fingerprint was made of");
    ND_TRY(nd_table_fail_status(table, status));
    count_characters(text, out->starts, tokens);
    count_characters(text, out->ends, tokens);
    return SQLITE_OK;
}

static void place(const located *where, uint64_t first, uint64_t tokens, uint64_t *start, uint64_t *end)
{
    *start = where == NULL ? first : where->starts[first];
    *end = where == NULL ? first + tokens : where->ends[first + tokens - 1];
}

/* The passages of one document: key, id, value, value_hash, text. */
static int add_document(passages_cursor *cursor, const nd_question *q, const located *own, sqlite3_stmt *statement)
{
    nd_table *table = nd_table_of(&cursor->head);
    const nd_passage *found;
    size_t count;
    if (!nd_column_is_intact(statement, 2))
        return nd_table_fail(table, "a fingerprint is damaged: it is not the one that its hash was made of");
    const size_t size = (size_t)sqlite3_column_bytes(statement, 2);
    ND_TRY(
        nd_table_fail_status(table, nd_passages_find(cursor->passages, sqlite3_column_blob(statement, 2), size, &found, &count)));
    if (count == 0)
        return SQLITE_OK;
    const located *other = NULL;
    if (sqlite3_column_type(statement, 4) == SQLITE_TEXT && q->settings->rules != NULL) {
        const uint8_t *text = sqlite3_column_text(statement, 4);
        if (text == NULL)
            return SQLITE_NOMEM;
        ND_TRY(locate(table, text, (size_t)sqlite3_column_bytes(statement, 4), size / 4, &cursor->other));
        other = &cursor->other;
    }
    ND_TRY(nd_buffer_reserve((void **)&cursor->rows, &cursor->row_capacity, cursor->row_count + count, sizeof(passage_row)));
    ND_TRY(nd_buffer_reserve((void **)&cursor->keys, &cursor->key_capacity, cursor->key_count + 1, sizeof(sqlite3_value *)));
    sqlite3_value *key = sqlite3_value_dup(sqlite3_column_value(statement, 0));
    if (key == NULL)
        return SQLITE_NOMEM;
    cursor->keys[cursor->key_count] = key;
    for (size_t i = 0; i < count; i++) {
        passage_row *row = &cursor->rows[cursor->row_count++];
        *row = (passage_row){.document_id = sqlite3_column_int64(statement, 1), .key = cursor->key_count};
        row->tokens = found[i].tokens;
        place(own, found[i].start, found[i].tokens, &row->start, &row->end);
        place(other, found[i].other_start, found[i].tokens, &row->other_start, &row->other_end);
    }
    cursor->key_count++;
    return SQLITE_OK;
}

static int longest_first(const void *a, const void *b)
{
    const passage_row *one = a, *other = b;
    if (one->tokens != other->tokens)
        return one->tokens > other->tokens ? -1 : 1;
    if (one->document_id != other->document_id)
        return one->document_id < other->document_id ? -1 : 1;
    return one->start < other->start ? -1 : one->start > other->start;
}

/* The documents to compare with: one, or all that a search finds. */
#define DOCUMENT "SELECT d.key, d.id, f.value, f.value_hash, d.text FROM "
#define BOTH "{index}_document AS d CROSS JOIN {index}_fingerprint AS f WHERE f.id = d.fingerprint_id AND d.id = "
static const char one_sql[] = DOCUMENT BOTH "?1";
static const char found_sql[] = DOCUMENT "neardup_search(?1, ?2, ?3, NULL, ?5, ?6) AS s CROSS JOIN " BOTH "s.document_id";

static int prepare(passages_cursor *cursor, sqlite3_stmt **out)
{
    const int alone = !nd_input_is_null(&cursor->head, DOCUMENT_ID);
    int code = SQLITE_OK;
    ND_TRY(nd_table_prepare(nd_table_of(&cursor->head), alone ? one_sql : found_sql, out));
    if (alone)
        return sqlite3_bind_value(*out, 1, cursor->head.inputs[DOCUMENT_ID]);
    for (int i = 0; i < ND_SEARCH_INPUTS && code == SQLITE_OK; i++)
        if (i != ND_SEARCH_LIMIT && !nd_input_is_null(&cursor->head, i))
            code = sqlite3_bind_value(*out, i + 1, cursor->head.inputs[i]);
    return code;
}

/* The value that is compared, and where its tokens stand if the text was given. */
static int read_question(passages_cursor *cursor, nd_question *q, const located **own)
{
    nd_cursor *base = &cursor->head;
    nd_table *table = nd_table_of(base);
    int64_t shortest;
    *own = NULL;
    ND_TRY(nd_question_read(base, q));
    const nd_scheme *scheme = &q->settings->scheme;
    if (scheme->kind != ND_SCHEME_PASSAGES)
        return nd_table_fail(table, "index \"%s\" does not file passages: make it with Passages()", q->settings->index);
    shortest = scheme->shortest;
    if (!nd_input_is_null(base, SHORTEST))
        ND_TRY(nd_input_integer(base, SHORTEST, "shortest", scheme->shortest, ND_SHORTEST_MAX, shortest, &shortest));
    if (!nd_input_is_null(base, FINGERPRINT)) {
        ND_TRY(nd_input_blob(base, FINGERPRINT, "a fingerprint", &q->fingerprint, &q->fingerprint_size));
    } else if (q->fingerprint_size > 0) {
        const uint8_t *text;
        size_t size;
        (void)nd_value_bytes(base->inputs[ND_SEARCH_TEXT], &text, &size);
        ND_TRY(locate(table, text, size, q->fingerprint_size / 4, &cursor->own));
        *own = &cursor->own;
    }
    return nd_table_fail_status(table,
        nd_passages_begin(cursor->passages, q->fingerprint, q->fingerprint_size, (size_t)shortest));
}

static int passages_fill(nd_cursor *base)
{
    passages_cursor *cursor = (passages_cursor *)base;
    nd_table *table = nd_table_of(base);
    nd_question q;
    const located *own;
    sqlite3_stmt *statement = NULL;
    drop_rows(cursor);
    if (cursor->passages == NULL && (cursor->passages = nd_passages_new()) == NULL)
        return SQLITE_NOMEM;
    int code = read_question(cursor, &q, &own);
    if (code != SQLITE_OK || q.fingerprint_size == 0)
        return code;
    code = prepare(cursor, &statement);
    while (nd_has_row(statement, &code))
        code = add_document(cursor, &q, own, statement);
    code = nd_table_end(table, statement, code);
    sqlite3_finalize(statement);
    if (code != SQLITE_OK)
        return code;
    if (cursor->row_count > 1)
        qsort(cursor->rows, cursor->row_count, sizeof(passage_row), longest_first);
    base->count = q.limit >= 0 && (uint64_t)q.limit < cursor->row_count ? (size_t)q.limit : cursor->row_count;
    return SQLITE_OK;
}

static void passages_close(nd_cursor *base)
{
    passages_cursor *cursor = (passages_cursor *)base;
    drop_rows(cursor);
    nd_passages_free(cursor->passages);
    sqlite3_free(cursor->rows);
    sqlite3_free(cursor->keys);
    sqlite3_free(cursor->own.starts);
    sqlite3_free(cursor->other.starts);
}

static void passages_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const passages_cursor *cursor = (const passages_cursor *)base;
    const passage_row *row = &cursor->rows[base->row];
    const uint64_t numbers[] = {row->start, row->end, row->other_start, row->other_end, row->tokens, (uint64_t)row->document_id};
    if (column == 0)
        sqlite3_result_value(context, cursor->keys[row->key]);
    else
        sqlite3_result_int64(context, (int64_t)numbers[column - 1]);
}

const nd_table_spec nd_passages_function = {
    .name = "neardup_passages",
    .declaration = "CREATE TABLE x(\"key\", start INTEGER, \"end\" INTEGER, other_start INTEGER, other_end INTEGER, "
                   "tokens INTEGER, document_id INTEGER, index_name HIDDEN, text HIDDEN, threshold HIDDEN, max_results HIDDEN, "
                   "measure HIDDEN, group_name HIDDEN, of_document HIDDEN, fingerprint HIDDEN, shortest HIDDEN)",
    .columns = {7, 2, INPUTS, 10},
    .reads = ND_READS_INDEX,
    .with_rules = 1,
    .cursor = {sizeof(passages_cursor), passages_close, passages_fill, NULL, passages_column},
};
