/* settings.c: the settings of an index, from its table {index}_setting into the structures of the core.
 *
 * What a file says is checked before it is used: types here, ranges by nd_scheme_check and nd_rules_new. Settings that are not
 * named below are ignored. */
#include "sqlite/neardup.h"

#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

typedef struct setting_rows {
    sqlite3 *db;
    const char *index;
    sqlite3_stmt *statement; /* name -> value */
    sqlite3_value *value;    /* found last */
    char *message;           /* the first thing found wrong */
    int code;                /* SQLITE_OK until then */
} setting_rows;

static void rows_fail(setting_rows *rows, char *message)
{
    if (rows->code != SQLITE_OK) {
        sqlite3_free(message);
        return;
    }
    rows->code = message == NULL ? SQLITE_NOMEM : SQLITE_ERROR;
    rows->message = message;
}

/* The code of an SQLite call that failed, with its own message. */
static int database_error(sqlite3 *db, int code, char **message)
{
    if (code != SQLITE_NOMEM)
        *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    return code;
}

const char *nd_index_name(sqlite3_value *value)
{
    const char *name = sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    return name != NULL && strlen(name) == (size_t)sqlite3_value_bytes(value) ? name : NULL;
}

int nd_index_name_check(const char *name, char **message)
{
    size_t size = strlen(name);
    int valid = size >= 1 && size <= ND_INDEX_NAME_MAX;
    for (size_t i = 0; valid && i < size; i++) {
        char c = name[i];
        int letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        int inside = (c >= '0' && c <= '9') || c == '_';
        valid = letter || (inside && i > 0);
    }
    if (valid)
        return SQLITE_OK;
    *message = sqlite3_mprintf("\"%.60s\" is no name of an index: a letter, then up to 39 letters, digits or _", name);
    return SQLITE_ERROR;
}

/* Whether the index has the table, with this column. */
static int has_table(sqlite3 *db, const char *index, const char *part, const char *column)
{
    char table[ND_INDEX_NAME_MAX + 16];
    sqlite3_snprintf(sizeof table, table, "%s_%s", index, part);
    return sqlite3_table_column_metadata(db, NULL, table, column, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

/* The setting's value, valid until the next one; NULL: there is none. */
static sqlite3_value *find_value(setting_rows *rows, const char *name)
{
    sqlite3_value_free(rows->value);
    rows->value = NULL;
    if (rows->code != SQLITE_OK)
        return NULL;
    int code = sqlite3_bind_text(rows->statement, 1, name, -1, SQLITE_STATIC);
    if (nd_has_row(rows->statement, &code)) {
        rows->value = sqlite3_value_dup(sqlite3_column_value(rows->statement, 0));
        rows->code = rows->value == NULL ? SQLITE_NOMEM : SQLITE_OK;
    } else if (code != SQLITE_DONE)
        rows->code = database_error(rows->db, code, &rows->message);
    sqlite3_reset(rows->statement);
    return rows->value;
}

/* ---- typed access: a wrong value is noted in rows, once, and the getter gives something harmless -------------------------- */

static void wrong_value(setting_rows *rows, const char *name, sqlite3_value *value)
{
    const char *text = value == NULL ? NULL : (const char *)sqlite3_value_text(value);
    if (value == NULL)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" is damaged: setting '%s' is missing", rows->index, name));
    else
        rows_fail(rows, sqlite3_mprintf("index \"%s\" is damaged: setting '%s' cannot be %.80s", rows->index, name,
                            text == NULL ? "NULL" : text));
}

/* Whether a scheme may be without a setting: missing or NULL, it is 0 then. */
enum presence { NEEDED, OPTIONAL };

static int is_absent(enum presence presence, sqlite3_value *value)
{
    return presence == OPTIONAL && (value == NULL || sqlite3_value_type(value) == SQLITE_NULL);
}

static int64_t get_integer(setting_rows *rows, const char *name, enum presence presence, int64_t low, int64_t high)
{
    sqlite3_value *value = find_value(rows, name);
    if (is_absent(presence, value))
        return 0;
    if (value != NULL && sqlite3_value_type(value) == SQLITE_INTEGER) {
        int64_t number = sqlite3_value_int64(value);
        if (number >= low && number <= high)
            return number;
    }
    wrong_value(rows, name, value);
    return low;
}

/* The number of a word. A callable of Python is none. */
static int32_t get_word(setting_rows *rows, const char *name, enum presence presence)
{
    sqlite3_value *value = find_value(rows, name);
    if (is_absent(presence, value))
        return 0;
    const char *text = value != NULL && sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    const int32_t number = text == NULL ? -1 : nd_setting_number(name, text);
    if (text == NULL)
        wrong_value(rows, name, value);
    else if (strncmp(text, "callable:", 9) == 0)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" has %s = %.200s, a function that only Python can call: "
                                        "ask the index from Python instead",
                            rows->index, name, text + 9));
    else if (number < 0)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" has the setting '%s' = %.80s, which neardup %s does not know: "
                                        "install a newer one, or restore a backup",
                            rows->index, name, text, nd_version()));
    return number < 0 ? 0 : number;
}

/* ---- scheme ------------------------------------------------------------------------------------------------------------ */

static void check_versions(setting_rows *rows)
{
    int64_t schema = get_integer(rows, "schema_version", NEEDED, 1, INT32_MAX);
    int64_t algorithm = get_integer(rows, "algorithm_version", NEEDED, 1, INT32_MAX);
    if (schema < ND_SCHEMA_VERSION)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" has schema version %lld, which only prereleases of neardup_db read: make a "
                                        "new index from the texts",
                            rows->index, schema));
    if (schema > ND_SCHEMA_VERSION)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" has schema version %lld, written by a newer neardup_db; this is %s, which "
                                        "knows version %d: update it",
                            rows->index, schema, nd_version(), ND_SCHEMA_VERSION));
    if (algorithm != ND_ALGORITHM_VERSION)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" has algorithm version %lld, this neardup_db (%s) has %d: rebuild the index "
                                        "or use the matching version",
                            rows->index, algorithm, nd_version(), ND_ALGORITHM_VERSION));
}

static void build_scheme(setting_rows *rows, nd_scheme *scheme)
{
    char message[256];
    memset(scheme, 0, sizeof *scheme);
    scheme->kind = get_word(rows, "scheme", NEEDED);
    scheme->plan = get_word(rows, "plan", NEEDED);
    scheme->bits = (int32_t)get_integer(rows, "bits", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->max_distance = (int32_t)get_integer(rows, "max_distance", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->blocks = (int32_t)get_integer(rows, "blocks", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->chunks = (int32_t)get_integer(rows, "chunks", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->num_perm = (int32_t)get_integer(rows, "num_perm", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->bands = (int32_t)get_integer(rows, "bands", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->rows = (int32_t)get_integer(rows, "rows", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->slot_bits = (int32_t)get_integer(rows, "slot_bits", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->k = (int32_t)get_integer(rows, "k", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->shortest = (int32_t)get_integer(rows, "shortest", OPTIONAL, INT32_MIN, INT32_MAX);
    scheme->seed = (uint64_t)get_integer(rows, "seed", OPTIONAL, 0, INT64_MAX);
    scheme->family = get_word(rows, "family", OPTIONAL);
    scheme->evidence = get_word(rows, "evidence", OPTIONAL);
    scheme->measure = get_word(rows, "measure", OPTIONAL);
    scheme->containment = (int32_t)get_integer(rows, "containment", OPTIONAL, 0, 1);
    sqlite3_value *threshold = find_value(rows, "threshold");
    if (threshold != NULL && sqlite3_value_type(threshold) != SQLITE_NULL) {
        if (sqlite3_value_numeric_type(threshold) != SQLITE_FLOAT && sqlite3_value_type(threshold) != SQLITE_INTEGER)
            wrong_value(rows, "threshold", threshold);
        else
            scheme->threshold = sqlite3_value_double(threshold);
    }
    if (rows->code == SQLITE_OK && nd_scheme_check(scheme, message, sizeof message) != ND_OK)
        rows_fail(rows, sqlite3_mprintf("index \"%s\" is damaged: %s", rows->index, message));
}

/* ---- text rules ---------------------------------------------------------------------------------------------------------- */

typedef struct stopwords {
    sqlite3_str *text; /* one after another */
    size_t *sizes;
    size_t count, capacity;
} stopwords;

static int add_stopword(stopwords *words, const char *text, int size)
{
    ND_TRY(nd_buffer_reserve((void **)&words->sizes, &words->capacity, words->count + 1, sizeof *words->sizes));
    words->sizes[words->count++] = (size_t)size;
    sqlite3_str_append(words->text, text, size);
    return sqlite3_str_errcode(words->text);
}

static void read_stopwords(setting_rows *rows, stopwords *words)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_value *json = find_value(rows, "text.stopwords");
    if (json != NULL && sqlite3_value_type(json) == SQLITE_NULL)
        return;
    if (json == NULL || sqlite3_value_type(json) != SQLITE_TEXT) {
        wrong_value(rows, "text.stopwords", json);
        return;
    }
    int code = sqlite3_prepare_v2(rows->db, "SELECT value, type FROM json_each(?)", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_value(statement, 1, json);
    while (nd_has_row(statement, &code)) {
        const char *type = (const char *)sqlite3_column_text(statement, 1);
        if (type == NULL || strcmp(type, "text") != 0) {
            wrong_value(rows, "text.stopwords", json);
            break;
        }
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        code = text == NULL ? SQLITE_NOMEM : add_stopword(words, text, sqlite3_column_bytes(statement, 0));
    }
    if (code == SQLITE_ERROR)
        wrong_value(rows, "text.stopwords", json);
    else if (code != SQLITE_DONE && rows->code == SQLITE_OK)
        rows->code = database_error(rows->db, code, &rows->message);
    sqlite3_finalize(statement);
}

/* The joiner's own text, or by default one space between words and nothing between characters. */
static void set_joiner(setting_rows *rows, nd_rules_spec *spec)
{
    sqlite3_value *joiner = find_value(rows, "text.joiner");
    if (joiner == NULL || sqlite3_value_type(joiner) == SQLITE_NULL) {
        spec->joiner = (const uint8_t *)" ";
        spec->joiner_size = spec->tokens == ND_TOKENS_WORDS ? 1 : 0;
    } else if (sqlite3_value_type(joiner) != SQLITE_TEXT || !nd_value_bytes(joiner, &spec->joiner, &spec->joiner_size)) {
        wrong_value(rows, "text.joiner", joiner);
    }
}

/* of_tokens: a scheme whose shingles are the tokens. */
static void build_rules(setting_rows *rows, int of_tokens, nd_rules **out)
{
    nd_rules_spec spec;
    stopwords words = {.text = sqlite3_str_new(rows->db)};
    memset(&spec, 0, sizeof spec);
    spec.normalize = get_word(rows, "text.normalize", NEEDED);
    spec.fold = get_word(rows, "text.case", NEEDED);
    spec.tokens = get_word(rows, "text.tokens", NEEDED);
    spec.nonword = get_word(rows, "text.nonword", NEEDED);
    spec.short_text = get_word(rows, "text.short", NEEDED);
    spec.strip_accents = (int32_t)get_integer(rows, "text.strip_accents", NEEDED, 0, 1);
    spec.hash = get_word(rows, "text.hash", NEEDED);
    spec.shingle = (int32_t)get_integer(rows, "text.shingle", NEEDED, 1, 1000);
    if (of_tokens)
        spec.shingle = 1;
    spec.min_tokens = (int32_t)get_integer(rows, "text.min_tokens", NEEDED, 0, 1000000);
    spec.hash_seed = (uint64_t)get_integer(rows, "text.hash_seed", NEEDED, 0, INT64_MAX);
    (void)get_word(rows, "text.filter", OPTIONAL);
    read_stopwords(rows, &words);
    set_joiner(rows, &spec); /* the last one: its text stays as it is */
    if (rows->code == SQLITE_OK) {
        spec.stopwords = (const uint8_t *)sqlite3_str_value(words.text);
        spec.stopword_sizes = words.sizes;
        spec.stopword_count = words.count;
        int status = nd_rules_new(&spec, out);
        if (status == ND_ERROR_MEMORY)
            rows->code = SQLITE_NOMEM;
        else if (status != ND_OK)
            rows_fail(rows, sqlite3_mprintf("index \"%s\" is damaged: its text rules are out of range", rows->index));
    }
    sqlite3_free(sqlite3_str_finish(words.text));
    sqlite3_free(words.sizes);
}

/* ---- all of them --------------------------------------------------------------------------------------------------------- */

int nd_settings_load(sqlite3 *db, const char *index, int with_rules, nd_settings *out, char **message)
{
    setting_rows rows = {.db = db, .index = out->index};
    memset(out, 0, sizeof *out);
    memcpy(out->index, index, strlen(index) + 1);
    rows.code = nd_prepare(db, "SELECT value FROM {index}_setting WHERE name = ?1", index, &rows.statement);
    if (rows.code != SQLITE_OK)
        (void)database_error(db, rows.code, &rows.message);
    if (rows.code == SQLITE_ERROR && !has_table(db, index, "setting", "value")) {
        sqlite3_free(rows.message);
        rows.message = sqlite3_mprintf("no index named \"%s\" in this database", index);
    }
    if (rows.code == SQLITE_OK)
        check_versions(&rows);
    if (rows.code == SQLITE_OK)
        build_scheme(&rows, &out->scheme);
    out->has_parts = has_table(db, index, "part", "fingerprint_id");
    out->allows = has_table(db, index, "allowed", "allowed_at");
    if (rows.code == SQLITE_OK && with_rules && out->scheme.kind != ND_SCHEME_BINARYCODE)
        build_rules(&rows, out->scheme.kind == ND_SCHEME_PASSAGES, &out->rules);
    sqlite3_value_free(rows.value);
    sqlite3_finalize(rows.statement);
    *message = rows.message;
    return rows.code;
}

void nd_settings_clear(nd_settings *settings)
{
    nd_rules_free(settings->rules);
    memset(settings, 0, sizeof *settings);
}
