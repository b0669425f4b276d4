/* neardup.h: what the files of the SQLite extension share. Every file includes this first; entry.c alone
 * defines ND_SQLITE_ENTRY and with it the pointer to SQLite's functions.
 *
 * The extension holds no algorithm: it checks arguments, calls the core and returns. Functions here that can fail return an
 * SQLite result code and put a sentence from sqlite3_mprintf into *message, which the caller frees. */
#ifndef ND_SQLITE_NEARDUP_H
#define ND_SQLITE_NEARDUP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3ext.h>

#include "neardup_abi.h"
#include "neardup_limits.h"
#include "neardup_try.h"

/* Hidden like everything but the entry point, so a second copy of the library in the process has its own. */
#ifdef ND_SQLITE_ENTRY
SQLITE_EXTENSION_INIT1
#else
SQLITE_EXTENSION_INIT3
#endif

#define ND_INDEX_NAME_MAX 40
#define ND_INPUTS_MAX 9
#define ND_ARGUMENTS_MAX 5 /* of a scalar function */
#define ND_DEFAULT_SHINGLE 3

/* ---- arguments and errors of scalar functions (arguments.c) --------------------------------------------------------------- */

const char *nd_type_name(sqlite3_value *value);
/* TEXT (as UTF-8) or BLOB; 0 for anything else. *bytes is never NULL. */
int nd_value_bytes(sqlite3_value *value, const uint8_t **bytes, size_t *size);
/* "NAME: SENTENCE"; NULL if memory is out. */
char *nd_message(const char *name, const char *format, va_list arguments);
/* Sets a formatted error, behind the function's name; its code. */
int nd_fail(sqlite3_context *context, const char *format, ...);
/* The same for a core status; SQLITE_OK for ND_OK. */
int nd_fail_status(sqlite3_context *context, int status);
/* What a core status is to SQLite: SQLITE_ERROR for all but memory and interruption, and what it then says. */
int nd_status_code(int status);
const char *nd_status_sentence(int status);
/* An integer within bounds; *out stays what it is if `value` is NULL, for an argument that was not given. */
int nd_argument_integer(sqlite3_context *context, const char *name, sqlite3_value *value, int64_t low, int64_t high,
    int64_t *out);

/* ---- statements (statements.c) ---------------------------------------------------------------------------------------------- */

/* Whether a connection was interrupted: what nd_text_watch takes. */
int nd_is_interrupted(void *db);
/* Prepares SQL in which {index} is the name of the index, as in neardup_db/sql. */
int nd_prepare(sqlite3 *db, const char *text, const char *index, sqlite3_stmt **out);
/* Whether the statement has another row, unless *code is an error; there is one while *code stays SQLITE_OK. */
static inline int nd_has_row(sqlite3_stmt *statement, int *code)
{
    if (*code == SQLITE_OK)
        *code = sqlite3_step(statement);
    const int found = *code == SQLITE_ROW;
    *code = found ? SQLITE_OK : *code;
    return found;
}

/* Binds the first two parameters. */
int nd_bind_two(sqlite3_stmt *statement, int64_t first, int64_t second);
/* Whether the blob in column `value` is the one that the hash in the next column was made of. */
int nd_column_is_intact(sqlite3_stmt *statement, int value);

/* ---- workspace (workspace.c) ------------------------------------------------------------------------------------------------ */

/* Buffers that grow and are used again by every call on one connection. */
typedef struct nd_workspace {
    int references;
    sqlite3 *db;
    int32_t shingle; /* of rules */
    nd_rules *rules;
    nd_text *work;
    nd_values *values;
    nd_outlines *outlines;
    int outlined; /* whether the statement that asked last has candidates enough to add to them */
    uint64_t *numbers[2];
    size_t capacity[2]; /* of numbers, in elements */
} nd_workspace;

nd_workspace *nd_workspace_new(sqlite3 *db);
void nd_workspace_release(nd_workspace *workspace); /* drops one reference; NULL: nothing */
/* Sets the rules that SQL functions have without an index: words, NFKC, fold, xxh3_64, `shingle` tokens a shingle. */
int nd_workspace_rules(nd_workspace *workspace, int32_t shingle);
/* The workspace that the scalar functions of a connection share. */
nd_workspace *nd_function_workspace(sqlite3_context *context);
/* Grows a buffer of items to hold so many; SQLITE_NOMEM leaves it as it was. */
int nd_buffer_reserve(void **buffer, size_t *capacity, size_t needed, size_t item_size);
/* Room for `count` numbers in buffer 0 or 1; NULL if memory is out. */
uint64_t *nd_workspace_numbers(nd_workspace *workspace, int which, size_t count);
/* A blob as aligned, strictly ascending numbers; ND_ERROR_DAMAGED if it is none. */
int nd_ascending_numbers(nd_workspace *workspace, int which, sqlite3_value *blob, const uint64_t **numbers, size_t *count);

/* ---- settings of an index (settings.c) ------------------------------------------------------------------------ */

typedef struct nd_settings {
    char index[ND_INDEX_NAME_MAX + 1];
    nd_scheme scheme; /* checked by nd_scheme_check */
    nd_rules *rules;  /* NULL unless asked for, and for BinaryCode */
    int has_parts;    /* whether documents may have several codes, in {index}_part */
    int allows;       /* whether texts may be allowed, in {index}_allowed */
} nd_settings;

/* A value as the name of an index; NULL if it is not text without NUL. */
const char *nd_index_name(sqlite3_value *value);
/* Only names that pass this go into SQL. */
int nd_index_name_check(const char *name, char **message);
/* Reads and checks all settings of an index, in a transaction that the caller holds. */
int nd_settings_load(sqlite3 *db, const char *index, int with_rules, nd_settings *out, char **message);
void nd_settings_clear(nd_settings *settings);

/* The statements that a table keeps. */
enum nd_kept_statement {
    ND_VALUES,              /* of nd_filing_collect: first and last id -> id, group_id, value, value_hash, crowd */
    ND_PARTS,               /* of neardup_buckets, taking out and filing: first and last row -> id, group_id, entries */
    ND_ROWS = ND_PARTS + 2, /* of neardup_candidates: of a key, and of a crowd of it */
    ND_QUERY = ND_ROWS + 2, /* of neardup_search */
    ND_STATEMENTS
};

/* (cache.c) The settings of the index that was asked for last. `watch` reads the two settings that tell whether they
 * still hold; its count of recompilations tells of every change of the schema, so an index dropped and made again is noticed
 * too. It lives in a virtual table, whose xDisconnect finalises it, so it does not keep the connection from closing. */
#define ND_SEEN 3
typedef struct nd_settings_cache {
    sqlite3 *db;
    int with_rules;
    sqlite3_stmt *watch;               /* NULL = nothing is held */
    sqlite3_stmt *kept[ND_STATEMENTS]; /* NULL until needed, or while a cursor has it */
    const char *query_name;            /* the verify_*.sql that is in ND_QUERY */
    int64_t seen[ND_SEEN];             /* generation, created_at, recompilations */
    int64_t serial;                    /* of this content; never used twice */
    nd_settings settings;
} nd_settings_cache;

/* The settings of an index into cache->settings. On SQLITE_OK the read transaction stays open until `watch` is reset. */
int nd_cache_open(nd_settings_cache *cache, sqlite3_value *index, char **message);
void nd_cache_clear(nd_settings_cache *cache);

/* ---- table-valued functions (vtab.c) --------------------------------------------------------------------------- */

typedef struct nd_table nd_table;

typedef struct nd_cursor {
    sqlite3_vtab_cursor base;
    sqlite3_value *inputs[ND_INPUTS_MAX]; /* copies; NULL where not given */
    const void *pointer;                  /* the first input of a function that takes a pointer; NULL for anything else */
    int64_t serial;                       /* of the settings that the table's cache had at last */
    size_t row;
    size_t count; /* the rows end here */
} nd_cursor;

typedef enum nd_reads {
    ND_READS_NOTHING,  /* but its inputs: innocuous; else it is for direct use only, */
    ND_READS_INDEX,    /* the first input names an index, and `fill` finds its settings in the table's cache */
    ND_READS_SETTINGS, /* and nothing else: a cursor looks once whether they still hold, for a statement sees one state */
} nd_reads;

typedef struct nd_table_spec {
    const char *name;
    const char *declaration;
    struct {
        int outputs, required, inputs; /* the output columns, then the inputs as hidden columns, the required ones first */
        int rows;                      /* as estimated for the planner */
    } columns;
    nd_reads reads;
    int with_rules;      /* whether it reads texts: the settings include the text rules, and there is a workspace */
    const char *pointer; /* the type of the first input where that is a pointer; else NULL */
    struct {
        size_t size; /* it begins with an nd_cursor; the rest is zeros until `fill` has made it */
        void (*close)(nd_cursor *cursor);
        int (*fill)(nd_cursor *cursor); /* makes the answer, of cursor->count rows */
        int (*next)(nd_cursor *cursor); /* NULL: to count the row is all */
        void (*column)(nd_cursor *cursor, sqlite3_context *context, int column);
    } cursor;
} nd_table_spec;

struct nd_table {
    sqlite3_vtab base;
    const nd_table_spec *spec;
    nd_settings_cache cache;
    nd_keys *spare_keys;     /* a closed cursor's, for the next one */
    nd_workspace *workspace; /* NULL unless it reads texts */
};

static inline nd_table *nd_table_of(const nd_cursor *cursor)
{
    return (nd_table *)cursor->base.pVtab;
}

/* Keys for a cursor that has none yet, which gives them back; they hold the coefficients that they drew. */
int nd_table_take_keys(nd_table *table, nd_keys **keys);
void nd_table_give_keys(nd_table *table, nd_keys *keys);
/* 1 where input `which` was not given or is NULL. */
int nd_input_is_null(const nd_cursor *cursor, int which);
/* Sets the table's error message, behind the name of the function; returns SQLITE_ERROR. */
int nd_table_fail(nd_table *table, const char *format, ...);
/* The same with SQLite's message, unless there is one; returns the code. */
int nd_table_fail_database(nd_table *table, int code);
/* The same for a core status; returns SQLITE_OK for ND_OK, else SQLITE_NOMEM, SQLITE_INTERRUPT or SQLITE_ERROR. */
int nd_table_fail_status(nd_table *table, int status);
/* The same of a stored value of `size` bytes that was read. */
int nd_table_fail_value(nd_table *table, int status, size_t size);
/* The same of a fingerprint that is damaged. */
int nd_fail_fingerprint(nd_table *table, int64_t id);
/* An input that must be a blob, which `name` names. */
int nd_input_blob(nd_cursor *cursor, int which, const char *name, const uint8_t **bytes, size_t *size);
/* An integer input within bounds, `fallback` where it was not given. */
int nd_input_integer(nd_cursor *cursor, int which, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out);

/* (statements.c) Prepares SQL on the index in the table's cache. */
int nd_table_prepare(nd_table *table, const char *text, sqlite3_stmt **out);
/* Resets a statement after its last step, which gave `code`: SQLITE_OK for a row or the end, else the code, with a message. */
int nd_table_end(nd_table *table, sqlite3_stmt *statement, int code);
/* The entries in a column of {index}_code_bucket. */
int nd_column_entries(nd_table *table, sqlite3_stmt *statement, int column, size_t code_size, nd_entries *entries);

/* Adds the fingerprints from first_id to last_id of the index in the table's cache to a filing that was begun, and sorts it.
 * (vtab_filing.c) */
int nd_filing_collect(nd_table *table, nd_filing *filing, int64_t first_id, int64_t last_id);

/* From now on a forked child finds none of the open files that it has inherited. (fork.c) */
int nd_enter_files_anew(void);

/* ---- registration ------------------------------------------------------------------------------------------------------ */

typedef struct nd_scalar_spec {
    const char *name;
    const char *types; /* a letter an argument: a blob, an integer, a number, text (perhaps in a blob); *: anything, NULL too */
    int reads;         /* 1: the database, so it is for direct use only; else it is innocuous and deterministic */
    /* NULL in place of an argument that was not given; returns SQLITE_OK, or what nd_fail returns */
    int (*function)(sqlite3_context *context, sqlite3_value **argv);
} nd_scalar_spec;

int nd_register_scalar(sqlite3 *db, nd_workspace *workspace, const nd_scalar_spec *spec);
int nd_register_table(sqlite3 *db, const nd_table_spec *spec);

/* Lists, each with a last one without a name. */
extern const nd_scalar_spec nd_pure_scalars[], nd_stored_scalars[], nd_near_scalars[], nd_outline_scalars[], nd_passage_scalars[];
extern const nd_table_spec nd_shingles_function, nd_bands_function, nd_values_function; /* vtab_pure.c */
extern const nd_table_spec nd_probe_function, nd_keys_function;                         /* vtab_probe.c */
extern const nd_table_spec nd_filing_function, nd_buckets_function;                     /* vtab_filing.c, buckets.c */
extern const nd_table_spec nd_candidates_function;                                      /* vtab_candidates.c */
extern const nd_table_spec nd_nearest_function;                                         /* vtab_nearest.c */
extern const nd_table_spec nd_entries_function;                                         /* vtab_entries.c */
extern const nd_table_spec nd_join_function, nd_sought_function;                        /* vtab_join.c */
extern const nd_table_spec nd_search_function;                                          /* vtab_search.c */
extern const nd_table_spec nd_passages_function;                                        /* vtab_passages.c */

#endif
