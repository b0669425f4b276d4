/* fuzz_sql.c: the SQL functions with any values, on an index whose settings and tables are damaged in any way, with memory that may
 * run out: an answer or an error, and nothing left behind. Each input is a list of steps, taken from its end. */
#include <sqlite3.h>

#include "fuzz.h"
#include "fuzz_texts.h"

#define STEPS_MAX 12
#define VALUE_MAX 600

size_t fuzz_stored_value(sqlite3 *db, const char *text, uint8_t *out, size_t room);
int sqlite3_neardup_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

/* ---- SQLite's own memory ---------------------------------------------------------------------------------------------------- */

static sqlite3_mem_methods usual;

static void *refusing_malloc(int size)
{
    return fuzz_allocation_fails() ? NULL : usual.xMalloc(size);
}

static void *refusing_realloc(void *block, int size)
{
    return fuzz_allocation_fails() ? NULL : usual.xRealloc(block, size);
}

static void set_up(void)
{
    static int done;
    if (done)
        return;
    done = 1;
    sqlite3_mem_methods methods;
    PROMISE(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual) == SQLITE_OK);
    methods = usual;
    methods.xMalloc = refusing_malloc;
    methods.xRealloc = refusing_realloc;
    PROMISE(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK);
    PROMISE(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
    PROMISE(sqlite3_initialize() == SQLITE_OK);
    PROMISE(sqlite3_auto_extension((void (*)(void))sqlite3_neardup_init) == SQLITE_OK);
}

/* ---- an index, as migrations/ has it -------------------------------------------------------------------------------------------- */

typedef struct preset {
    const char *table, *keys, *settings;
} preset;

#define TEXT_RULES                                                                                                               \
    "('text.normalize','NFKC'),('text.case','fold'),('text.tokens','words'),('text.shingle',2),('text.joiner',NULL),"            \
    "('text.nonword','space'),('text.short','whole'),('text.stopwords','[\"the\",\"a\"]'),('text.filter',NULL),"                 \
    "('text.strip_accents',0),('text.hash','xxh3_64'),('text.hash_seed',0),('text.min_tokens',0)"

static const preset presets[] = {
    {"0002_code_bucket", "keys_code_bucket",
        "('scheme','simhash'),('plan','blocks'),('bits',64),('max_distance',3),('blocks',5)"},
    {"0002_code_bucket", "keys_code_bucket",
        "('scheme','bitsampling'),('plan','blocks'),('bits',128),('max_distance',2),('blocks',4),"
        "('seed',1),('family','affine32')"},
    {"0002_code_bucket", "keys_code_bucket",
        "('scheme','bitsampling'),('plan','chunks'),('bits',256),('max_distance',37),('chunks',16),('seed',1)"},
    {"0002_code_bucket", NULL, "('scheme','binarycode'),('plan','scan'),('bits',64),('max_distance',8)"},
    {"0002_minhash_band", "keys_minhash_band",
        "('scheme','minhash'),('plan','bands'),('num_perm',16),('bands',8),('rows',2),('slot_bits',16),"
        "('seed',1),('threshold',0.5)"},
    {"0002_minhash_band", "keys_minhash_band",
        "('scheme','minhash'),('plan','bands'),('num_perm',33),('bands',33),('rows',1),('slot_bits',32),"
        "('seed',1),('threshold',0.5),('evidence','packed')"},
    {"0002_bottomk_prefix", "keys_bottomk_prefix",
        "('scheme','bottomk'),('plan','prefix'),('k',20),('threshold',0.5),('measure','fingerprint')"},
    {"0002_bottomk_prefix", "keys_bottomk_prefix",
        "('scheme','bottomk'),('plan','prefix'),('k',20),('threshold',0.5),('measure','estimate')"},
};
#define PRESETS (sizeof presets / sizeof presets[0])

static const char *const tables[] = {
    "i_setting",
    "i_document",
    "i_fingerprint",
    "i_code_bucket",
    "i_minhash_band",
    "i_bottomk_prefix",
    "i_match",
    "i_group",
};
#define TABLES (sizeof tables / sizeof tables[0])

static const char *const texts[] = {
    "the quick brown fox jumps over the lazy dog",
    "The quick brown fox jumps over the lazy dog, twice",
    "one",
    "",
    "Съешь же ещё этих мягких булок",
};
#define TEXTS (sizeof texts / sizeof texts[0])

static int parameter(const char *name)
{
    return strcmp(name, ":last_id") == 0 ? 100 : strcmp(name, ":filed") == 0;
}

/* A text of migrations/ or neardup_db/sql with {index} replaced by i, behind `before`. */
static void execute_text(sqlite3 *db, const char *before, const char *name)
{
    char *sql = sqlite3_mprintf("%s", before), *expanded = NULL;
    for (size_t i = 0; i < sizeof nd_sql_texts / sizeof nd_sql_texts[0]; i++)
        if (strcmp(name, nd_sql_texts[i].name) == 0)
            expanded = sqlite3_mprintf("%z%s", sql, nd_sql_texts[i].text);
    PROMISE(expanded != NULL);
    char *out = expanded;
    for (const char *in = expanded; *in != '\0';) {
        const int brace = strncmp(in, "{index}", 7) == 0;
        *out++ = brace ? 'i' : *in;
        in += brace ? 7 : 1;
    }
    *out = '\0';
    sqlite3_stmt *statement = NULL;
    for (const char *rest = expanded; *rest != '\0';) {
        PROMISE(sqlite3_prepare_v2(db, rest, -1, &statement, &rest) == SQLITE_OK);
        if (statement == NULL)
            break;
        for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++)
            sqlite3_bind_int(statement, i, parameter(sqlite3_bind_parameter_name(statement, i)));
        while (sqlite3_step(statement) == SQLITE_ROW)
            continue;
        PROMISE(sqlite3_finalize(statement) == SQLITE_OK);
    }
    sqlite3_free(expanded);
}

static void execute(sqlite3 *db, const char *sql)
{
    const int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    PROMISE(code == SQLITE_OK);
}

/* Some texts as documents, two of them near each other. */
static void add_documents(sqlite3 *db, const preset *of)
{
    static const char insert[] = "INSERT INTO i_document (key, group_id, fingerprint_id, added_at, last_seen, times_seen, text) "
                                 "VALUES ('k' || ?1, 0, ?1, 0, 0, 1, ?2)";
    sqlite3_stmt *statement;
    for (size_t i = 0; i < TEXTS; i++) {
        uint8_t value[VALUE_MAX];
        const size_t size = fuzz_stored_value(db, texts[i], value, sizeof value);
        PROMISE(sqlite3_prepare_v2(db, "INSERT INTO i_fingerprint VALUES (?1, 0, ?2, ?3, 0)", -1, &statement, NULL) == SQLITE_OK);
        sqlite3_bind_int64(statement, 1, (int64_t)i + 1);
        sqlite3_bind_blob64(statement, 2, value, size, SQLITE_TRANSIENT);
        sqlite3_bind_int64(statement, 3, (int64_t)nd_xxh3_64(value, size, 0));
        PROMISE(size == 0 || sqlite3_step(statement) == SQLITE_DONE);
        PROMISE(sqlite3_finalize(statement) == SQLITE_OK);
        PROMISE(sqlite3_prepare_v2(db, insert, -1, &statement, NULL) == SQLITE_OK);
        sqlite3_bind_int64(statement, 1, (int64_t)i + 1);
        sqlite3_bind_text(statement, 2, texts[i], -1, SQLITE_STATIC);
        PROMISE(sqlite3_step(statement) == SQLITE_DONE && sqlite3_finalize(statement) == SQLITE_OK);
    }
    if (of->keys != NULL) {
        char *file = sqlite3_mprintf("INSERT INTO i_%s ", of->table + 5);
        execute_text(db, file, of->keys);
        sqlite3_free(file);
    }
}

static sqlite3 *make_index(const preset *of)
{
    sqlite3 *db;
    PROMISE(sqlite3_open(":memory:", &db) == SQLITE_OK);
    execute_text(db, "", "0002_index");
    execute_text(db, "", of->table);
    execute(db, "INSERT INTO i_setting VALUES "
                "('schema_version',2),('algorithm_version',1),('generation',1),('created_at',5),('crowds',1)," TEXT_RULES);
    char *sql = sqlite3_mprintf("INSERT INTO i_setting VALUES %s", of->settings);
    execute(db, sql);
    sqlite3_free(sql);
    add_documents(db, of);
    return db;
}

/* A copy of it: each is made once. */
static sqlite3 *open_index(size_t number)
{
    static uint8_t *files[PRESETS];
    static sqlite3_int64 sizes[PRESETS];
    sqlite3 *db;
    if (files[number] == NULL) {
        db = make_index(&presets[number]);
        files[number] = sqlite3_serialize(db, "main", &sizes[number], 0);
        PROMISE(files[number] != NULL && sqlite3_close(db) == SQLITE_OK);
    }
    uint8_t *copy = sqlite3_malloc64((sqlite3_uint64)sizes[number]);
    PROMISE(copy != NULL && sqlite3_open(":memory:", &db) == SQLITE_OK);
    memcpy(copy, files[number], (size_t)sizes[number]);
    const unsigned flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE;
    PROMISE(sqlite3_deserialize(db, "main", copy, sizes[number], sizes[number], flags) == SQLITE_OK);
    return db;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------ */

static const char *const setting_names[] = {
    "schema_version",
    "algorithm_version",
    "scheme",
    "plan",
    "bits",
    "max_distance",
    "blocks",
    "chunks",
    "num_perm",
    "bands",
    "rows",
    "slot_bits",
    "k",
    "seed",
    "family",
    "evidence",
    "measure",
    "threshold",
    "text.normalize",
    "text.case",
    "text.tokens",
    "text.shingle",
    "text.joiner",
    "text.nonword",
    "text.short",
    "text.stopwords",
    "text.filter",
    "text.strip_accents",
    "text.hash",
    "text.hash_seed",
    "text.min_tokens",
    "generation",
    "created_at",
};
static const char *const words[] = {
    "i",
    "simhash",
    "minhash",
    "bottomk",
    "bitsampling",
    "binarycode",
    "scan",
    "blocks",
    "chunks",
    "bands",
    "prefix",
    "affine32",
    "java32",
    "none",
    "hashes",
    "text",
    "packed",
    "fingerprint",
    "estimate",
    "NFC",
    "NFKC",
    "fold",
    "lower",
    "words",
    "chars",
    "space",
    "keep",
    "drop",
    "whole",
    "xxh3_64",
    "md5",
    "fnv1a_32",
    "sha256",
    "callable:a:b",
    "[\"x\",\"the\"]",
    "[1]",
    "{}",
    "[",
    "0x0123456789abcdef",
    "k1",
    "the quick brown fox jumps over the lazy dog",
};
static const int64_t integers[] = {
    0,
    1,
    2,
    3,
    5,
    8,
    16,
    32,
    33,
    64,
    128,
    256,
    1000,
    4096,
    65536,
    65537,
    -1,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    (int64_t)1 << 32,
    20,
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int compare(const void *a, const void *b)
{
    const uint64_t left = nd_load64(a), right = nd_load64(b);
    return left < right ? -1 : left > right;
}

static void bind_bytes(sqlite3_stmt *statement, int to, input *from, size_t kind)
{
    static uint8_t bytes[VALUE_MAX];
    size_t size = take_byte(from);
    if (size > 200)
        size = 8 * (size - 200);
    for (size_t i = 0; i < size; i++)
        bytes[i] = i < 200 && from->size > 0 ? take_byte(from) : (uint8_t)(3 * i);
    if (kind == 2)
        qsort(bytes, size / 8, 8, compare);
    if (kind == 0)
        sqlite3_bind_text64(statement, to, (const char *)bytes, size, SQLITE_TRANSIENT, SQLITE_UTF8);
    else if (kind == 3)
        sqlite3_bind_text64(statement, to, (const char *)bytes, size / 2 * 2, SQLITE_TRANSIENT, SQLITE_UTF16LE);
    else
        sqlite3_bind_blob64(statement, to, bytes, size, SQLITE_TRANSIENT);
}

static void bind_any(sqlite3_stmt *statement, int to, input *from)
{
    double number;
    uint64_t pattern;
    switch (take_choice(from, 12)) {
    case 0:
        sqlite3_bind_null(statement, to);
        break;
    case 1:
    case 2:
        sqlite3_bind_int64(statement, to, integers[take_choice(from, COUNT(integers))]);
        break;
    case 3:
        sqlite3_bind_int64(statement, to, (int64_t)take_number(from, take_choice(from, 2) ? 8 : 1));
        break;
    case 4:
        pattern = take_number(from, 8);
        memcpy(&number, &pattern, sizeof number);
        sqlite3_bind_double(statement, to, take_choice(from, 2) ? number : (double)(pattern % 11) / 10);
        break;
    case 5:
        sqlite3_bind_zeroblob(statement, to, (int)(take_number(from, 2) % 5000));
        break;
    case 6:
    case 7:
        sqlite3_bind_text(statement, to, words[take_choice(from, COUNT(words))], -1, SQLITE_STATIC);
        break;
    case 8:
        bind_bytes(statement, to, from, 0);
        break;
    case 9:
        bind_bytes(statement, to, from, 1);
        break;
    case 10:
        bind_bytes(statement, to, from, 2);
        break;
    default:
        bind_bytes(statement, to, from, 3);
        break;
    }
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------------------- */

static const char *const questions[] = {
    "SELECT neardup_hamming(?1, ?2)",
    "SELECT neardup_jaccard(?1, ?2), neardup_jaccard(?2, ?1, ?3)",
    "SELECT neardup_jaccard_estimate(?1, ?2, ?3)",
    "SELECT neardup_slot_share(?1, ?2, ?3)",
    "SELECT neardup_simhash(?1), neardup_simhash(?1, ?2), neardup_simhash(?1, ?2, ?3)",
    "SELECT neardup_minhash(?1), neardup_minhash(?1, ?2), neardup_minhash(?1, ?2, ?3, ?4)",
    "SELECT neardup_version(), neardup_isa(), neardup_minhash(?1, 16, ?3, ?2)",
    "SELECT shingle, hash, position, text, k FROM neardup_shingles(?1, ?2) LIMIT 500",
    "SELECT * FROM neardup_shingles(?1)",
    "SELECT band, bucket, fingerprint, bands, rows, slot_bits FROM neardup_bands(?1, ?2, ?3, ?4)",
    "SELECT * FROM neardup_bands(?1, ?2, ?3)",
    "SELECT * FROM neardup_bands WHERE fingerprint = ?1 AND bands = ?2 AND rows IN (?3, ?4, 1)",
    "SELECT *, index_name, fingerprint FROM neardup_probe('i', ?1) LIMIT 3000",
    "SELECT *, index_name, fingerprint FROM neardup_keys('i', ?1) LIMIT 3000",
    "SELECT * FROM neardup_probe(?1, ?2) LIMIT 100",
    "SELECT * FROM neardup_keys(?1, ?2) LIMIT 100",
    "SELECT f.id, k.* FROM i_fingerprint AS f, neardup_keys('i', f.value) AS k LIMIT 3000",
    "SELECT f.id, k.* FROM i_fingerprint AS f, neardup_probe('i', f.value) AS k LIMIT 3000",
    "SELECT k.low, p.low FROM neardup_keys('i', ?1) AS k JOIN neardup_probe('i', ?2) AS p ON p.table_no = k.table_no LIMIT 500",
    "SELECT neardup_number(?1, ?2), neardup_number(?2, 1)",
    "SELECT neardup_containment(?1, ?2), neardup_containment_estimate(?1, ?2, ?3)",
    "SELECT hex(neardup_hashes(?1)), (SELECT count(neardup_hashes(value)) FROM i_fingerprint)",
    "SELECT * FROM neardup_probe('i', ?1, ?2) LIMIT 100",
    "SELECT *, index_name, first_id, last_id FROM neardup_filing('i', 0, 1000) LIMIT 3000",
    "SELECT * FROM neardup_filing(?1, ?2, ?3) LIMIT 3000",
    "SELECT *, index_name, first_id, last_id, filed FROM neardup_buckets('i', 0, 1000, 0) LIMIT 3000",
    "SELECT * FROM neardup_buckets('i', 0, ?1, 1) LIMIT 3000",
    "SELECT * FROM neardup_buckets(?1, ?2, ?3, ?4) LIMIT 3000",
    "INSERT OR REPLACE INTO i_code_bucket SELECT * FROM neardup_buckets('i', 0, 1000, 1)",
    "INSERT OR REPLACE INTO i_code_bucket SELECT id, group_id, ifnull(entries, x'') FROM neardup_buckets('i', ?1, ?1 + 1, 0)",
    "SELECT b.id, e.* FROM i_code_bucket AS b, neardup_entries(b.entries, ?1) AS e LIMIT 3000",
    "SELECT *, entries, code_bytes FROM neardup_entries(?1, ?2) LIMIT 3000",
    "SELECT neardup_near(?1, ?2, ?3), neardup_near(?1, ?2, 1000)",
    "SELECT neardup_near(b.entries, f.value, 5), neardup_near(b.entries, ?1, ?2) FROM i_code_bucket AS b, i_fingerprint AS f",
    "SELECT * FROM neardup_probe('i', ?1, NULL, ?2) LIMIT 100",
    "SELECT * FROM neardup_keys('i', ?1, ?2) LIMIT 100",
    "SELECT *, crowd, max_distance FROM neardup_candidates('i', ?1, ?2, ?3, ?4) LIMIT 100",
    "SELECT f.id, c.* FROM i_fingerprint AS f, neardup_candidates('i', f.value, 0, ?1, 5) AS c LIMIT 3000",
    "SELECT *, index_name, fingerprint, group_id, count FROM neardup_nearest('i', ?1, ?2, ?3) LIMIT 100",
    "SELECT f.id, n.* FROM i_fingerprint AS f, neardup_nearest('i', f.value, 0, ?1) AS n LIMIT 3000",
    "SELECT *, keys FROM neardup_filing('i', ?1, ?2, ?3) LIMIT 3000",
    "SELECT * FROM neardup_filing('i', 1, 3, randomblob(24 * (SELECT 1 + value FROM i_setting WHERE name = 'bands'))) LIMIT 3000",
    "SELECT neardup_may_match(?1, f.id, ?2, ?3, 7), neardup_met(f.id, f.value, ?2, 7, ?4) FROM i_fingerprint AS f, i_fingerprint",
    "SELECT neardup_may_match(?1, ?2, 16, ?3, ?4), neardup_met(?2, ?1, 16, ?4, ?3) FROM i_fingerprint",
    "SELECT neardup_intact(?1, ?2), (SELECT count(*) FROM i_fingerprint WHERE neardup_intact(value, value_hash))",
    "SELECT *, index_name, first_id, last_id, complete, now FROM neardup_join('i', 0, 1000, 0, ?1)",
    "SELECT * FROM neardup_join('i', 0, 1000, 1, 0)",
    "SELECT * FROM neardup_join('i', ?1, ?2, ?3, ?4)",
    "SELECT j.* FROM i_fingerprint AS f, neardup_join('i', f.id, f.id, 1, 0) AS j",
    "SELECT neardup_similarity('i', ?1, ?2)",
    "SELECT neardup_similarity(?1, ?2, ?3)",
    "SELECT neardup_similarity('i', a.value, b.value) FROM i_fingerprint AS a, i_fingerprint AS b",
    "SELECT *, index_name, text, threshold, max_results FROM neardup_search('i', ?1)",
    "SELECT * FROM neardup_search('i', ?1, ?2)",
    "SELECT * FROM neardup_search('i', ?1, ?2, ?3)",
    "SELECT * FROM neardup_search(?1, ?2, ?3, ?4)",
    "SELECT d.key, s.* FROM i_document AS d, neardup_search('i', d.text) AS s",
    "SELECT * FROM neardup_search WHERE text = ?1",
    "SELECT count(*) FROM neardup_search('i', (SELECT key FROM neardup_search('i', ?1) LIMIT 1))",
    "SELECT *, measure, group_name FROM neardup_search('i', ?1, NULL, NULL, ?2, ?3)",
    "SELECT s.*, c.* FROM neardup_search('i', ?1) AS s, neardup_search('i', ?1, 0.5, 3, 'containment') AS c",
    "SELECT neardup_similarity('i', a.text, b.text), neardup_similarity('i', a.text, ?1) FROM i_document AS a, i_document AS b",
};

/* What the columns of a similarity may hold. */
static void check_row(sqlite3_stmt *statement)
{
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);
        (void)sqlite3_column_blob(statement, i);
        if (name == NULL || sqlite3_column_type(statement, i) == SQLITE_NULL)
            continue;
        if (strcmp(name, "similarity") == 0 || strncmp(name, "neardup_similarity", 18) == 0 ||
            strncmp(name, "neardup_slot", 12) == 0 || strncmp(name, "neardup_jaccard", 15) == 0 ||
            strncmp(name, "neardup_text", 12) == 0)
            PROMISE(sqlite3_column_double(statement, i) >= 0 && sqlite3_column_double(statement, i) <= 1);
    }
}

static void run_statement(sqlite3 *db, const char *sql, input *from, unsigned fail_after)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    PROMISE(code == SQLITE_OK || statement == NULL);
    for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++)
        bind_any(statement, i, from);
    if (fail_after > 0)
        fuzz_fail_allocations(fail_after - 1, fail_after % 2 == 0);
    while (statement != NULL && (code = sqlite3_step(statement)) == SQLITE_ROW)
        check_row(statement);
    fuzz_allow_allocations();
    PROMISE(code != SQLITE_MISUSE && code != SQLITE_INTERNAL && code != SQLITE_RANGE);
    PROMISE(fail_after > 0 || code != SQLITE_NOMEM);
    sqlite3_finalize(statement);
}

/* One of the ways to leave the tables otherwise than they are made. */
static void damage(sqlite3 *db, input *from)
{
    static const char *const statements[] = {
        "UPDATE %s SET rowid = rowid",
        "DROP TABLE %s",
        "ALTER TABLE %s RENAME TO i_other",
        "DELETE FROM %s",
        "INSERT OR REPLACE INTO %s VALUES (?1, ?2, ?3)",
        "INSERT OR REPLACE INTO %s VALUES (?1, ?2, ?3, ?4)",
        "INSERT OR REPLACE INTO %s VALUES (?1, ?2)",
        "UPDATE i_fingerprint SET value = ?1 WHERE id = 1 /* %s */",
        "UPDATE i_fingerprint SET value = substr(value, 1, length(value) - 8) /* %s */",
        "INSERT OR IGNORE INTO i_fingerprint VALUES (?1, 0, ?2, 0, ?3) /* %s */",
        "UPDATE i_code_bucket SET entries = ?1 WHERE id %% 3 = 1 /* %s */",
        "UPDATE i_code_bucket SET entries = substr(entries, 1, length(entries) - 1) /* %s */",
        "UPDATE i_code_bucket SET entries = CAST(entries || substr(entries, 2) AS BLOB) /* %s */",
        "UPDATE i_code_bucket SET entries = CAST(?1 || substr(entries, 2) AS BLOB) /* %s */",
        "UPDATE OR IGNORE i_code_bucket SET id = id + ?1, group_id = ?2 /* %s */",
        "UPDATE OR IGNORE i_code_bucket SET id = id | 1048575 /* %s */",
        "UPDATE i_document SET text = ?1, expires_at = ?2 /* %s */",
        "UPDATE OR IGNORE i_document SET key = ?1 /* %s */",
        "CREATE TABLE %s (a, b, c, d, e)",
        "CREATE TABLE %s (name, value)",
        "CREATE TABLE %s (id, group_id, value, value_hash, fingerprint_id, bucket, hash, entries, code)",
        "CREATE VIEW %s AS SELECT 1 AS id, 0 AS group_id, x'00' AS value, 'scheme' AS name, 1 AS fingerprint_id, 7 AS bucket",
        "CREATE VIEW %s AS SELECT * FROM neardup_search('i', 'the quick brown fox jumps over the lazy dog')",
        "CREATE VIEW %s AS SELECT name, value FROM %s",
        "BEGIN /* %s */",
        "ROLLBACK /* %s */",
    };
    const char *table = tables[take_choice(from, TABLES)];
    char *sql = sqlite3_mprintf(statements[take_choice(from, COUNT(statements))], table, table);
    run_statement(db, sql, from, 0);
    sqlite3_free(sql);
}

static void set_setting(sqlite3 *db, input *from)
{
    const char *name = setting_names[take_choice(from, COUNT(setting_names))];
    char *sql = take_choice(from, 6) == 0 ? sqlite3_mprintf("DELETE FROM i_setting WHERE name = '%s'", name)
                                          : sqlite3_mprintf("INSERT OR REPLACE INTO i_setting VALUES ('%s', ?1)", name);
    run_statement(db, sql, from, 0);
    sqlite3_free(sql);
}

/* Statements that would go on for long end with SQLITE_INTERRUPT. */
static int too_long(void *left)
{
    return --*(int *)left < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {data, size};
    int left = 300;
    set_up();
    sqlite3 *db = open_index(take_choice(&from, PRESETS));
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1000000);
    sqlite3_progress_handler(db, 1000, too_long, &left);
    for (size_t i = 0; i < STEPS_MAX && from.size > 0; i++) {
        const size_t kind = take_choice(&from, 8);
        if (kind < 5) {
            const unsigned fail_after = kind == 4 ? 1 + take_byte(&from) * 4u : 0;
            run_statement(db, questions[take_choice(&from, COUNT(questions))], &from, fail_after);
        } else if (kind < 7) {
            set_setting(db, &from);
        } else {
            damage(db, &from);
        }
    }
    PROMISE(sqlite3_close(db) == SQLITE_OK);
    return 0;
}
