/* sqlite_buckets.c: the candidate table of codes, {index}_code_bucket, whose rows hold the entries of many fingerprints.
 *
 * neardup_buckets(index, first_id, last_id, filed) -> id, group_id, entries: the rows that change when the fingerprints from first_id
 * to last_id are filed (filed = 1) or taken out (0), as they are to be; entries is NULL where nothing is left. In the order of the
 * table. DIRECTONLY: it reads the index. A row is given out after the statements that it took are reset, so it may feed an INSERT into
 * the table itself. */
#include "sqlite_neardup.h"

#include <string.h>

/* ---- neardup_buckets -------------------------------------------------------------------------------------------------------- */

static nd_table_spec buckets_spec = {
    .name = "neardup_buckets",
    .declaration = "CREATE TABLE x(id INTEGER, group_id INTEGER, entries BLOB, "
                   "index_name HIDDEN, first_id HIDDEN, last_id HIDDEN, filed HIDDEN)",
    .innocuous = 0,
    .outputs = 3,
    .required = 4,
    .inputs = 4,
    .rows = 1000,
};

/* A row that changes: entries from `first` to `end` of the cursor's list; none = it goes. */
typedef struct bucket_row {
    int64_t id;
    int64_t group_id;
    size_t first, end;
    int changed;
} bucket_row;

typedef struct buckets_cursor {
    nd_cursor head;
    nd_filing *filing;
    size_t code_size;
    int64_t filed;
    int64_t serial; /* of the settings that this was begun with */
    nd_filed next; /* the first key of the next bucket */
    int ended;     /* there is none */
    nd_filed *members; /* keys of the present bucket; those dealt with have item = SIZE_MAX */
    size_t member_count, members_capacity;
    /* Entries of the present bucket, those of its rows before and behind those that come. */
    int64_t *ids;
    size_t entry_count, ids_capacity;
    uint8_t *codes;
    size_t codes_capacity;
    bucket_row *rows;
    size_t row, row_count, rows_capacity;
    uint8_t *bytes; /* the present row's entries */
    size_t bytes_size, bytes_capacity;
} buckets_cursor;

static int buckets_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    int code = nd_cursor_open(sizeof(buckets_cursor), out);
    if (code != SQLITE_OK)
        return code;
    buckets_cursor *cursor = (buckets_cursor *)*out;
    cursor->filing = nd_filing_new();
    if (cursor->filing == NULL) {
        nd_cursor_free(&cursor->head);
        return SQLITE_NOMEM;
    }
    return SQLITE_OK;
}

static int buckets_close(sqlite3_vtab_cursor *base)
{
    buckets_cursor *cursor = (buckets_cursor *)base;
    nd_filing_free(cursor->filing);
    sqlite3_free(cursor->members);
    sqlite3_free(cursor->ids);
    sqlite3_free(cursor->codes);
    sqlite3_free(cursor->rows);
    sqlite3_free(cursor->bytes);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

static int add_entry(buckets_cursor *cursor, int64_t id, const uint8_t *code)
{
    int status = nd_table_reserve((void **)&cursor->ids, &cursor->ids_capacity, cursor->entry_count + 1, sizeof *cursor->ids);
    if (status == SQLITE_OK)
        status = nd_table_reserve((void **)&cursor->codes, &cursor->codes_capacity, cursor->entry_count + 1, cursor->code_size);
    if (status != SQLITE_OK)
        return status;
    cursor->ids[cursor->entry_count] = id;
    memcpy(cursor->codes + cursor->entry_count * cursor->code_size, code, cursor->code_size);
    cursor->entry_count++;
    return SQLITE_OK;
}

static int add_row(buckets_cursor *cursor, int64_t id, int64_t group_id, size_t first, size_t end)
{
    int code = nd_table_reserve((void **)&cursor->rows, &cursor->rows_capacity, cursor->row_count + 1, sizeof *cursor->rows);
    if (code == SQLITE_OK)
        cursor->rows[cursor->row_count++] = (bucket_row){id, group_id, first, end, 1};
    return code;
}

/* How many of the entries from `first` on fit into a row. */
static size_t fitting(const buckets_cursor *cursor, size_t first, size_t end)
{
    size_t count = end - first < ND_PART_BYTES ? end - first : ND_PART_BYTES;
    size_t size = nd_entries_size(cursor->ids + first, count, cursor->code_size);
    if (size <= ND_PART_BYTES)
        return count;
    size_t head = nd_entries_size(NULL, 0, cursor->code_size);
    size_t most = (ND_PART_BYTES - head) / ((size - head) / count); /* as if every id were as wide as the widest */
    return most == 0 ? 1 : most;
}

/* The parts with ids from `low` to `high`, when filing the last one first; id, group_id, entries. */
static int begin_parts(buckets_cursor *cursor, int64_t low, int64_t high, sqlite3_stmt **out)
{
    nd_settings_cache *cache = &((nd_table *)cursor->head.base.pVtab)->cache;
    sqlite3_stmt **statement = &cache->parts[cursor->filed];
    int code = SQLITE_OK;
    *out = NULL;
    if (cache->serial != cursor->serial)
        return nd_table_fail(cursor->head.base.pVtab, "neardup_buckets: one statement asks for two indexes");
    if (*statement == NULL) {
        char *sql = sqlite3_mprintf("SELECT id, group_id, entries FROM %s_code_bucket WHERE id BETWEEN ? AND ? ORDER BY id%s",
                                    cache->settings.index, cursor->filed ? " DESC" : "");
        if (sql == NULL)
            return SQLITE_NOMEM;
        code = sqlite3_prepare_v3(cache->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
        sqlite3_free(sql);
    }
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(*statement, 1, low);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(*statement, 2, high);
    *out = *statement;
    return code;
}

/* Ends with the statement's error unless it only has come to its end. */
static int end_parts(buckets_cursor *cursor, sqlite3_stmt *statement, int code)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE && code != SQLITE_NOMEM && table->base.zErrMsg == NULL)
        nd_table_fail(&table->base, "neardup_buckets: %s", sqlite3_errmsg(table->cache.db));
    sqlite3_reset(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

static int read_entries(buckets_cursor *cursor, sqlite3_stmt *statement, nd_entries *entries)
{
    nd_table *table = (nd_table *)cursor->head.base.pVtab;
    const uint8_t *bytes = sqlite3_column_blob(statement, 2);
    size_t size = (size_t)sqlite3_column_bytes(statement, 2);
    if (bytes != NULL && nd_entries_read(bytes, size, cursor->code_size, entries) == ND_OK)
        return SQLITE_OK;
    return nd_table_fail(&table->base, "neardup_buckets: row %lld of %s_code_bucket is damaged", sqlite3_column_int64(statement, 0),
                         table->cache.settings.index);
}

/* Where a bucket has room for parts. */
typedef struct bucket_room {
    int64_t part; /* no part but the last one has this number or a higher one */
    int taken;    /* the last number, which the latest entries of the group that has it stand under */
} bucket_room;

/* Reads the last part of a group, *part < 0 where it has none: its entries go behind the others. Leaves the statement where it is. */
static int read_last(buckets_cursor *cursor, sqlite3_stmt *statement, const nd_filed *key, bucket_room *room, int64_t *part)
{
    nd_entries entries = {0};
    int code = SQLITE_OK;
    *part = -1;
    while (code == SQLITE_OK && *part < 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
        if (id == key->high)
            room->taken = 1;
        else if (id >= room->part)
            room->part = id + 1;
        if (sqlite3_column_int64(statement, 1) != key->group_id)
            continue;
        *part = id;
        code = read_entries(cursor, statement, &entries);
        for (size_t i = 0; i < entries.count && code == SQLITE_OK; i++)
            code = add_entry(cursor, nd_entries_id(&entries, i), entries.codes + i * entries.code_size);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Puts the entries of a group behind those of its last part. What does not fit there goes into new parts, and the last one of them
 * gets the bucket's last number, unless another group has it: most buckets are this one part, which is found by its number alone. */
static int file_group(buckets_cursor *cursor, const nd_filed *key, bucket_room *room)
{
    sqlite3_stmt *statement;
    size_t first = cursor->entry_count;
    int64_t last = -1;
    int code = begin_parts(cursor, key->low, key->high, &statement);
    if (code == SQLITE_OK)
        code = read_last(cursor, statement, key, room, &last);
    size_t held = cursor->entry_count - first;
    for (size_t i = 0; i < cursor->member_count && code == SQLITE_OK; i++) {
        nd_filed *member = &cursor->members[i];
        if (member->item == SIZE_MAX || member->group_id != key->group_id)
            continue;
        code = add_entry(cursor, member->id, nd_filing_code(cursor->filing, member->item));
        member->item = SIZE_MAX;
    }
    size_t end = code == SQLITE_OK ? first + fitting(cursor, first, cursor->entry_count) : first;
    if (code == SQLITE_OK && last == key->high && end < cursor->entry_count) { /* its entries move to the number after the others' */
        last = -1;
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW && sqlite3_column_int64(statement, 0) >= room->part)
            room->part = sqlite3_column_int64(statement, 0) + 1;
        room->taken = held = 0;
    }
    code = end_parts(cursor, statement, code);
    for (; first < cursor->entry_count && code == SQLITE_OK; first = end, held = 0, last = -1) {
        end = first + fitting(cursor, first, cursor->entry_count);
        if (last >= 0 && end <= first + held) { /* it is full */
            end = first + held;
            continue;
        }
        if (last < 0 && end == cursor->entry_count && !room->taken) {
            last = key->high;
            room->taken = 1;
        } else if (last < 0) {
            last = room->part++;
            if (last >= key->high)
                return nd_table_fail(cursor->head.base.pVtab,
                                     "neardup_buckets: a bucket of index \"%s\" is full: rebuild the index with a larger `expected`",
                                     ((nd_table *)cursor->head.base.pVtab)->cache.settings.index);
        }
        code = add_row(cursor, last, key->group_id, first, end);
    }
    return code;
}

/* Whether a member of the group has this id; members come in the order of their ids. */
static int is_member(const buckets_cursor *cursor, int64_t group_id, int64_t id)
{
    size_t low = 0, high = cursor->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cursor->members[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < cursor->member_count && cursor->members[low].id == id && cursor->members[low].group_id == group_id;
}

/* The first of the group's parts from `low` to `high`, with the id of its first entry; *part above `high` where there is none. */
static int next_part(buckets_cursor *cursor, int64_t group_id, int64_t low, int64_t high, int64_t *part, int64_t *first_id)
{
    sqlite3_stmt *statement;
    int code = begin_parts(cursor, low, high, &statement);
    *part = high + 1;
    while (code == SQLITE_OK && *part > high && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        nd_entries entries;
        code = SQLITE_OK;
        if (sqlite3_column_int64(statement, 1) != group_id)
            continue;
        code = read_entries(cursor, statement, &entries);
        if (code == SQLITE_OK) {
            *part = sqlite3_column_int64(statement, 0);
            *first_id = nd_entries_id(&entries, 0);
        }
    }
    return end_parts(cursor, statement, code);
}

/* From which part on an entry stands, if there is one: a group's entries are filed in the order of their ids. */
static int find_part(buckets_cursor *cursor, const nd_filed *key, int64_t id, int64_t *out)
{
    int64_t low = key->low, high = key->high; /* the part is one of these, or the first one */
    int64_t middle = high;                    /* which most often is the only one */
    *out = key->low;
    while (low <= high) {
        int64_t part, first_id = 0;
        int code = next_part(cursor, key->group_id, middle, high, &part, &first_id);
        if (code != SQLITE_OK)
            return code;
        if (part > high || first_id > id) {
            high = middle - 1;
        } else {
            *out = part;
            low = part + 1;
        }
        middle = low + (high - low) / 2;
    }
    return SQLITE_OK;
}

/* The highest id among the members of a group. */
static int64_t last_member(const buckets_cursor *cursor, int64_t group_id)
{
    size_t i = cursor->member_count;
    while (i > 0 && cursor->members[i - 1].group_id != group_id)
        i--;
    return i == 0 ? -1 : cursor->members[i - 1].id;
}

/* Writes the entries from `first` on, which fill `needed` rows, into the last ones from `row` on; the others go. */
static void pack_rows(buckets_cursor *cursor, size_t row, size_t first, size_t needed)
{
    for (; row < cursor->row_count; row++) {
        cursor->rows[row].first = first;
        if (cursor->row_count - row <= needed)
            first += fitting(cursor, first, cursor->entry_count);
        cursor->rows[row].end = first;
        cursor->rows[row].changed = 1;
    }
}

/* Keeps, of the rows from `row` on, those that change. */
static void keep_changed(buckets_cursor *cursor, size_t row)
{
    size_t kept = row;
    for (; row < cursor->row_count; row++)
        if (cursor->rows[row].changed)
            cursor->rows[kept++] = cursor->rows[row];
    cursor->row_count = kept;
}

/* Takes the members of a group out of its parts. These and the part behind them are packed anew if they fit into half as many. */
static int unfile_group(buckets_cursor *cursor, const nd_filed *key)
{
    sqlite3_stmt *statement;
    size_t first = cursor->entry_count, first_row = cursor->row_count, needed = 0, changed = 0;
    int64_t last = last_member(cursor, key->group_id), begin_part;
    int behind = 0;
    int code = find_part(cursor, key, key->id, &begin_part);
    if (code != SQLITE_OK)
        return code;
    code = begin_parts(cursor, begin_part, key->high, &statement);
    while (code == SQLITE_OK && !behind && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        nd_entries entries = {0};
        size_t begin = cursor->entry_count;
        int64_t id = sqlite3_column_int64(statement, 0);
        code = SQLITE_OK;
        if (sqlite3_column_int64(statement, 1) != key->group_id)
            continue;
        code = read_entries(cursor, statement, &entries);
        behind = code == SQLITE_OK && nd_entries_id(&entries, 0) > last;
        for (size_t i = 0; i < entries.count && code == SQLITE_OK; i++)
            if (!is_member(cursor, key->group_id, nd_entries_id(&entries, i)))
                code = add_entry(cursor, nd_entries_id(&entries, i), entries.codes + i * entries.code_size);
        if (code == SQLITE_OK)
            code = add_row(cursor, id, key->group_id, begin, cursor->entry_count);
        if (code == SQLITE_OK && cursor->entry_count - begin == entries.count)
            cursor->rows[cursor->row_count - 1].changed = 0;
        else
            changed++;
    }
    code = end_parts(cursor, statement, code);
    for (size_t i = 0; i < cursor->member_count; i++)
        if (cursor->members[i].group_id == key->group_id)
            cursor->members[i].item = SIZE_MAX;
    for (size_t at = first; at < cursor->entry_count; needed++)
        at += fitting(cursor, at, cursor->entry_count);
    if (changed > 0 && 2 * needed <= cursor->row_count - first_row)
        pack_rows(cursor, first_row, first, needed);
    keep_changed(cursor, first_row);
    return code;
}

/* Reads the members of the next bucket and makes the rows that change; none where the filing has ended. */
static int next_bucket(buckets_cursor *cursor)
{
    int code = SQLITE_OK, status = ND_OK;
    cursor->member_count = cursor->entry_count = cursor->row = cursor->row_count = 0;
    if (cursor->ended)
        return SQLITE_OK;
    nd_filed first = cursor->next;
    do {
        code = nd_table_reserve((void **)&cursor->members, &cursor->members_capacity, cursor->member_count + 1,
                                sizeof *cursor->members);
        if (code != SQLITE_OK)
            return code;
        cursor->members[cursor->member_count++] = cursor->next;
        status = nd_filing_next(cursor->filing, &cursor->next);
    } while (status == ND_OK && cursor->next.low == first.low);
    cursor->ended = status != ND_OK;
    if (status != ND_OK && status != ND_DONE)
        return nd_table_fail_status(cursor->head.base.pVtab, status);
    bucket_room room = {first.low, 0};
    for (size_t i = 0; i < cursor->member_count && code == SQLITE_OK; i++)
        if (cursor->members[i].item != SIZE_MAX) {
            nd_filed key = cursor->members[i];
            code = cursor->filed ? file_group(cursor, &key, &room) : unfile_group(cursor, &key);
        }
    return code;
}

/* Goes to the next row that changes, and makes its entries. */
static int buckets_next(sqlite3_vtab_cursor *base)
{
    buckets_cursor *cursor = (buckets_cursor *)base;
    int code = SQLITE_OK;
    cursor->head.row++;
    cursor->row++;
    while (code == SQLITE_OK && cursor->row >= cursor->row_count && !cursor->ended)
        code = next_bucket(cursor);
    if (code != SQLITE_OK || cursor->row >= cursor->row_count)
        return code;
    const bucket_row *row = &cursor->rows[cursor->row];
    cursor->bytes_size = 0;
    if (row->end == row->first)
        return SQLITE_OK;
    cursor->bytes_size = nd_entries_size(cursor->ids + row->first, row->end - row->first, cursor->code_size);
    code = nd_table_reserve((void **)&cursor->bytes, &cursor->bytes_capacity, cursor->bytes_size, 1);
    if (code == SQLITE_OK)
        nd_entries_write(cursor->ids + row->first, cursor->codes + row->first * cursor->code_size, row->end - row->first,
                         cursor->code_size, cursor->bytes);
    return code;
}

static int buckets_eof(sqlite3_vtab_cursor *base)
{
    const buckets_cursor *cursor = (const buckets_cursor *)base;
    return cursor->row >= cursor->row_count && cursor->ended;
}

static int buckets_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    buckets_cursor *cursor = (buckets_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    char *message = NULL;
    int64_t first_id, last_id;
    cursor->row = cursor->row_count = 0;
    cursor->ended = 1;
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 1, "first_id", INT64_MIN, INT64_MAX, 0, &first_id);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 2, "last_id", INT64_MIN, INT64_MAX, 0, &last_id);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 3, "filed", 0, 1, 0, &cursor->filed);
    if (code != SQLITE_OK)
        return code;
    code = nd_cache_open(&table->cache, cursor->head.inputs[0], &message);
    if (code != SQLITE_OK)
        return nd_table_fail_message(base->pVtab, code, message);
    const nd_scheme *scheme = &table->cache.settings.scheme;
    if (!nd_scheme_has_buckets(scheme))
        code = nd_table_fail(base->pVtab, "neardup_buckets: index \"%s\" has no buckets of codes", table->cache.settings.index);
    cursor->code_size = (size_t)scheme->bits / 8;
    cursor->serial = table->cache.serial;
    nd_filing_begin(cursor->filing, scheme, 0);
    if (code == SQLITE_OK)
        code = nd_filing_collect(table, cursor->filing, first_id, last_id);
    nd_cache_release(&table->cache);
    if (code != SQLITE_OK)
        return code;
    int status = nd_filing_next(cursor->filing, &cursor->next);
    cursor->ended = status != ND_OK;
    if (status != ND_OK)
        return status == ND_DONE ? SQLITE_OK : nd_table_fail_status(base->pVtab, status);
    return buckets_next(base);
}

static int buckets_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    buckets_cursor *cursor = (buckets_cursor *)base;
    if (column == 0)
        sqlite3_result_int64(context, cursor->rows[cursor->row].id);
    else if (column == 1)
        sqlite3_result_int64(context, cursor->rows[cursor->row].group_id);
    else if (column > 2)
        return nd_cursor_input(&cursor->head, context, column);
    else if (cursor->bytes_size > 0)
        sqlite3_result_blob64(context, cursor->bytes, cursor->bytes_size, SQLITE_TRANSIENT);
    return SQLITE_OK;
}

static const sqlite3_module buckets_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = buckets_open,
    .xClose = buckets_close,
    .xFilter = buckets_filter,
    .xNext = buckets_next,
    .xEof = buckets_eof,
    .xColumn = buckets_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_buckets(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, buckets_spec.name, &buckets_module, &buckets_spec, NULL);
}
