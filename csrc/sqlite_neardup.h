/* sqlite_neardup.h: what the files of the SQLite extension share. Every file includes this first; sqlite_neardup.c alone
 * defines ND_SQLITE_ENTRY and with it the pointer to SQLite's functions.
 *
 * The extension holds no algorithm: it checks arguments, calls the core and returns. Functions here that can fail return an
 * SQLite result code and put a sentence from sqlite3_mprintf into *message, which the caller frees. */
#ifndef ND_SQLITE_NEARDUP_H
#define ND_SQLITE_NEARDUP_H

#include <stddef.h>
#include <stdint.h>

#include <sqlite3ext.h>

#include "neardup_abi.h"
#include "neardup_limits.h"

#ifndef ND_SQLITE_ENTRY
SQLITE_EXTENSION_INIT3
#endif

#define ND_INDEX_NAME_MAX 40
#define ND_INPUTS_MAX 6
#define ND_DEFAULT_SHINGLE 3

/* ---- arguments (sqlite_scalars.c) ---------------------------------------------------------------------------------- */

const char *nd_type_name(sqlite3_value *value);
/* Ends the function with a formatted error. */
void nd_fail(sqlite3_context *context, const char *format, ...);
/* Ends the function with the error of a core status that is not ND_OK. */
void nd_fail_status(sqlite3_context *context, const char *function, int status);
/* TEXT (as UTF-8) or BLOB; 0 for anything else. *bytes is never NULL. */
int nd_value_bytes(sqlite3_value *value, const uint8_t **bytes, size_t *size);
/* Whether a connection was interrupted: what nd_text_watch takes. */
int nd_is_interrupted(void *db);
/* The rules that SQL functions have without an index: words, NFKC, fold, xxh3_64, `shingle` tokens a shingle. */
int nd_default_rules(int32_t shingle, nd_rules **out);

/* Buffers that grow and are used again by every call on one connection. */
typedef struct nd_workspace {
    int references;
    sqlite3 *db;
    int32_t shingle; /* of rules */
    nd_rules *rules;
    nd_text *work;
    nd_values *values;
    uint64_t *numbers[2];
    size_t capacity[2]; /* of numbers, in elements */
} nd_workspace;

nd_workspace *nd_workspace_new(sqlite3 *db);
void nd_workspace_release(void *workspace); /* drops one reference */
/* Room for `count` numbers in buffer 0 or 1; NULL if memory is out. */
uint64_t *nd_workspace_numbers(nd_workspace *workspace, int which, size_t count);
/* A blob as aligned, strictly ascending numbers; ND_ERROR_DAMAGED if it is none. */
int nd_ascending_numbers(nd_workspace *workspace, int which, sqlite3_value *blob, const uint64_t **numbers, size_t *count);

/* ---- settings of an index (sqlite_settings.c) ------------------------------------------------------------------------ */

typedef struct nd_settings {
    char index[ND_INDEX_NAME_MAX + 1];
    nd_scheme scheme; /* checked by nd_scheme_check */
    nd_rules *rules;  /* NULL unless asked for, and for BinaryCode */
} nd_settings;

/* Only names that pass this go into SQL. */
int nd_index_name_check(const char *name, char **message);
/* Reads and checks all settings of an index, its name included. */
int nd_settings_load(sqlite3 *db, const char *index, int with_rules, nd_settings *out, char **message);
void nd_settings_clear(nd_settings *settings);

/* (sqlite_cache.c) The settings of the index that was asked for last. `watch` reads the two settings that tell whether they
 * still hold; its count of recompilations tells of every change of the schema, so an index dropped and made again is noticed
 * too. It lives in a virtual table, whose xDisconnect finalises it, so it does not keep the connection from closing. */
typedef struct nd_settings_cache {
    sqlite3 *db;
    int with_rules;
    sqlite3_stmt *watch; /* NULL = nothing is held */
    sqlite3_stmt *values; /* of nd_filing_collect: first and last id -> id, group_id, value, crowd, value_hash; NULL until it is needed */
    sqlite3_stmt *parts[2]; /* of neardup_buckets, taking out and filing: first and last row -> id, group_id, entries */
    sqlite3_stmt *query; /* of neardup_search; NULL while it runs, and until it is needed */
    const char *query_name; /* the verify_*.sql that is in it */
    int recompiled;
    int64_t generation;
    int64_t created_at;
    int64_t serial; /* of this content; never used twice */
    nd_settings settings;
} nd_settings_cache;

/* The settings of an index into cache->settings. On SQLITE_OK the read transaction stays open until nd_cache_release. */
int nd_cache_open(nd_settings_cache *cache, sqlite3_value *index, char **message);
void nd_cache_release(nd_settings_cache *cache);
void nd_cache_clear(nd_settings_cache *cache);

/* ---- table-valued functions (sqlite_vtab.c) --------------------------------------------------------------------------- */

/* A function with `outputs` columns, then its inputs as hidden columns, the first `required` of them required. */
typedef struct nd_table_spec {
    const char *name;
    const char *declaration;
    int innocuous; /* 0: it reads the database, direct use only */
    int outputs;
    int required;
    int inputs;
    int rows; /* as estimated for the planner */
} nd_table_spec;

typedef struct nd_table {
    sqlite3_vtab base;
    const nd_table_spec *spec;
    nd_settings_cache cache;
    nd_keys *spare_keys; /* a closed cursor's, for the next one: it holds the coefficients that it drew */
    nd_workspace *workspace; /* of neardup_search */
} nd_table;

typedef struct nd_cursor {
    sqlite3_vtab_cursor base;
    sqlite3_value *inputs[ND_INPUTS_MAX]; /* copies; NULL where not given */
    size_t row;
    size_t count;
} nd_cursor;

int nd_table_connect(sqlite3 *db, void *spec, int argc, const char *const *argv, sqlite3_vtab **out, char **message);
int nd_table_disconnect(sqlite3_vtab *table);
int nd_table_best_index(sqlite3_vtab *table, sqlite3_index_info *info);
/* Grows a buffer of items to hold so many; SQLITE_NOMEM leaves it as it was. */
int nd_table_reserve(void **buffer, size_t *capacity, size_t needed, size_t item_size);
/* A zeroed cursor of `size` bytes that begins with an nd_cursor. */
int nd_cursor_open(size_t size, sqlite3_vtab_cursor **out);
/* Empties the cursor and copies the inputs that nd_table_best_index found. */
int nd_cursor_begin(nd_cursor *cursor, int given, int argc, sqlite3_value **argv);
void nd_cursor_free(nd_cursor *cursor);
int nd_cursor_next(sqlite3_vtab_cursor *cursor);
int nd_cursor_eof(sqlite3_vtab_cursor *cursor);
int nd_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);
/* The value of hidden column `column`. */
int nd_cursor_input(nd_cursor *cursor, sqlite3_context *context, int column);
/* 1 where input `which` was not given or is NULL. */
int nd_input_is_null(const nd_cursor *cursor, int which);
/* Sets the table's error message; returns SQLITE_ERROR. */
int nd_table_fail(sqlite3_vtab *table, const char *format, ...);
/* The same for a core status; returns SQLITE_NOMEM or SQLITE_ERROR. */
int nd_table_fail_status(sqlite3_vtab *table, int status);
/* Takes over a message (or NULL) and returns the code. */
int nd_table_fail_message(sqlite3_vtab *table, int code, char *message);
/* An integer input within bounds, `fallback` where it was not given. */
int nd_input_integer(nd_cursor *cursor, int which, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out);

/* Adds the fingerprints from first_id to last_id of the index in the table's cache to a filing that was begun, and sorts it.
 * (sqlite_filing.c) */
int nd_filing_collect(nd_table *table, nd_filing *filing, int64_t first_id, int64_t last_id);

/* ---- registration ------------------------------------------------------------------------------------------------------ */

int nd_register_scalars(sqlite3 *db, nd_workspace *workspace);   /* sqlite_scalars.c: pure functions */
int nd_register_stored(sqlite3 *db);                         /* sqlite_stored.c: neardup_similarity, neardup_text_* */
int nd_register_tables(sqlite3 *db);                         /* sqlite_tables.c: neardup_shingles, neardup_bands */
int nd_register_probe(sqlite3 *db);                          /* sqlite_probe.c: neardup_probe, neardup_keys */
int nd_register_filing(sqlite3 *db);                         /* sqlite_filing.c: neardup_filing */
int nd_register_buckets(sqlite3 *db);                        /* sqlite_buckets.c: neardup_buckets */
int nd_register_entries(sqlite3 *db);                        /* sqlite_entries.c: neardup_entries, neardup_near */
int nd_register_join(sqlite3 *db);                           /* sqlite_join.c: neardup_join */
int nd_register_search(sqlite3 *db);                         /* sqlite_search.c: neardup_search */

#endif
