/* buckets.c: the candidate table of codes, {index}_code_bucket, whose rows hold the entries of many fingerprints.
 *
 * neardup_buckets(index, first_id, last_id, filed) -> id, group_id, entries: the rows that change when the fingerprints from first_id
 * to last_id are filed (filed = 1) or taken out (0), as they are to be; entries is NULL where nothing is left. In the order of the
 * table. DIRECTONLY: it reads the index. A row is given out after the statements that it took are reset, so it may feed an INSERT into
 * the table itself. */
#include "sqlite/neardup.h"
#include "neardup_buckets.h"

typedef struct buckets_cursor {
    nd_cursor head;
    nd_filing *filing;
    size_t code_size;
    int64_t filed;
    nd_filed next;     /* the first key of the next bucket */
    int ended;         /* there is none */
    nd_filed *members; /* keys of the present bucket; those dealt with have item = SIZE_MAX */
    size_t member_count, members_capacity;
    nd_packing *packing; /* of the present bucket */
    nd_packed row;       /* the present row */
} buckets_cursor;

static void buckets_close(nd_cursor *base)
{
    buckets_cursor *cursor = (buckets_cursor *)base;
    nd_filing_free(cursor->filing);
    nd_packing_free(cursor->packing);
    sqlite3_free(cursor->members);
}

static const char *const parts_sql[] = {
    "SELECT id, group_id, entries FROM {index}_code_bucket WHERE id BETWEEN ? AND ? ORDER BY id",
    "SELECT id, group_id, entries FROM {index}_code_bucket WHERE id BETWEEN ? AND ? ORDER BY id DESC",
};

/* The parts with ids from `low` to `high`, when filing the last one first; id, group_id, entries. */
static int begin_parts(buckets_cursor *cursor, int64_t low, int64_t high, sqlite3_stmt **out)
{
    nd_table *table = nd_table_of(&cursor->head);
    sqlite3_stmt **statement = &table->cache.kept[ND_PARTS + cursor->filed];
    if (table->cache.serial != cursor->head.serial)
        return nd_table_fail(table, "one statement asks for two indexes");
    if (*statement == NULL)
        ND_TRY(nd_table_prepare(table, parts_sql[cursor->filed], statement));
    *out = *statement;
    return nd_bind_two(*statement, low, high);
}

static int add_entry(buckets_cursor *cursor, int64_t id, const uint8_t *code)
{
    return nd_packing_add(cursor->packing, id, code) == ND_OK ? SQLITE_OK : SQLITE_NOMEM;
}

/* Reads the last part of a group, *part < 0 where it has none: its entries go behind the others. Leaves the statement where it is. */
static int read_last(buckets_cursor *cursor, sqlite3_stmt *statement, const nd_filed *key, nd_bucket_room *room, int64_t *part)
{
    nd_entries entries = {0};
    int code = SQLITE_OK;
    *part = -1;
    while (*part < 0 && nd_has_row(statement, &code)) {
        int64_t id = sqlite3_column_int64(statement, 0);
        if (id == key->high)
            room->taken = 1;
        else if (id >= room->part)
            room->part = id + 1;
        if (sqlite3_column_int64(statement, 1) != key->group_id)
            continue;
        *part = id;
        code = nd_column_entries(nd_table_of(&cursor->head), statement, 2, cursor->code_size, &entries);
        for (size_t i = 0; i < entries.count && code == SQLITE_OK; i++)
            code = add_entry(cursor, nd_entries_id(&entries, i), entries.codes + i * entries.code_size);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Puts the members of a group behind the entries of its last part. */
static int file_group(buckets_cursor *cursor, const nd_filed *key, nd_bucket_room *room)
{
    nd_table *table = nd_table_of(&cursor->head);
    sqlite3_stmt *statement;
    int64_t last = -1;
    ND_TRY(begin_parts(cursor, key->low, key->high, &statement));
    int code = read_last(cursor, statement, key, room, &last);
    size_t held = nd_packing_count(cursor->packing);
    for (size_t i = 0; i < cursor->member_count && code == SQLITE_OK; i++) {
        nd_filed *member = &cursor->members[i];
        if (member->item == SIZE_MAX || member->group_id != key->group_id)
            continue;
        code = add_entry(cursor, member->id, nd_filing_code(cursor->filing, member->item));
        member->item = SIZE_MAX;
    }
    if (code == SQLITE_OK && last == key->high &&
        !nd_packing_fits(cursor->packing)) { /* its entries move to the number after the others' */
        last = -1;
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW && sqlite3_column_int64(statement, 0) >= room->part)
            room->part = sqlite3_column_int64(statement, 0) + 1;
        room->taken = 0;
        held = 0;
    }
    ND_TRY(nd_table_end(table, statement, code));
    int status = nd_packing_file(cursor->packing, key->group_id, last, held, key->high, room);
    if (status == ND_ERROR_CAPACITY)
        return nd_table_fail(table, "a bucket of index \"%s\" is full: rebuild the index with a larger `expected`",
            table->cache.settings.index);
    return nd_table_fail_status(table, status);
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
    int code = SQLITE_OK;
    ND_TRY(begin_parts(cursor, low, high, &statement));
    *part = high + 1;
    while (*part > high && nd_has_row(statement, &code)) {
        nd_entries entries;
        if (sqlite3_column_int64(statement, 1) != group_id)
            continue;
        code = nd_column_entries(nd_table_of(&cursor->head), statement, 2, cursor->code_size, &entries);
        if (code == SQLITE_OK) {
            *part = sqlite3_column_int64(statement, 0);
            *first_id = nd_entries_id(&entries, 0);
        }
    }
    return nd_table_end(nd_table_of(&cursor->head), statement, code);
}

/* From which part on an entry stands, if there is one: a group's entries are filed in the order of their ids. */
static int find_part(buckets_cursor *cursor, const nd_filed *key, int64_t id, int64_t *out)
{
    int64_t low = key->low, high = key->high; /* the part is one of these, or the first one */
    int64_t middle = high;                    /* which most often is the only one */
    *out = key->low;
    while (low <= high) {
        int64_t part, first_id = 0;
        ND_TRY(next_part(cursor, key->group_id, middle, high, &part, &first_id));
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

/* Takes the members of a group out of its parts. These and the part behind them are packed anew if they fit into half as many. */
static int unfile_group(buckets_cursor *cursor, const nd_filed *key)
{
    sqlite3_stmt *statement;
    int64_t last = last_member(cursor, key->group_id), begin_part;
    int code = SQLITE_OK, behind = 0;
    ND_TRY(find_part(cursor, key, key->id, &begin_part));
    ND_TRY(begin_parts(cursor, begin_part, key->high, &statement));
    while (!behind && nd_has_row(statement, &code)) {
        nd_entries entries = {0};
        if (sqlite3_column_int64(statement, 1) != key->group_id)
            continue;
        code = nd_column_entries(nd_table_of(&cursor->head), statement, 2, cursor->code_size, &entries);
        behind = code == SQLITE_OK && nd_entries_id(&entries, 0) > last;
        for (size_t i = 0; i < entries.count && code == SQLITE_OK; i++)
            if (!is_member(cursor, key->group_id, nd_entries_id(&entries, i)))
                code = add_entry(cursor, nd_entries_id(&entries, i), entries.codes + i * entries.code_size);
        if (code == SQLITE_OK &&
            nd_packing_keep(cursor->packing, sqlite3_column_int64(statement, 0), key->group_id, entries.count) != ND_OK)
            code = SQLITE_NOMEM;
    }
    code = nd_table_end(nd_table_of(&cursor->head), statement, code);
    for (size_t i = 0; i < cursor->member_count; i++)
        if (cursor->members[i].group_id == key->group_id)
            cursor->members[i].item = SIZE_MAX;
    nd_packing_take_out(cursor->packing);
    return code;
}

/* Reads the members of the next bucket and makes the rows that change. */
static int next_bucket(buckets_cursor *cursor)
{
    int code = SQLITE_OK, status = ND_OK;
    cursor->member_count = 0;
    nd_packing_begin(cursor->packing, cursor->code_size);
    nd_filed first = cursor->next;
    do {
        ND_TRY(nd_buffer_reserve((void **)&cursor->members, &cursor->members_capacity, cursor->member_count + 1,
            sizeof *cursor->members));
        cursor->members[cursor->member_count++] = cursor->next;
        status = nd_filing_next(cursor->filing, &cursor->next);
    } while (status == ND_OK && cursor->next.low == first.low);
    cursor->ended = status != ND_OK;
    if (status != ND_OK && status != ND_DONE)
        return nd_table_fail_status(nd_table_of(&cursor->head), status);
    nd_bucket_room room = {first.low, 0};
    for (size_t i = 0; i < cursor->member_count && code == SQLITE_OK; i++)
        if (cursor->members[i].item != SIZE_MAX) {
            nd_filed key = cursor->members[i];
            nd_packing_begin_group(cursor->packing);
            code = cursor->filed ? file_group(cursor, &key, &room) : unfile_group(cursor, &key);
        }
    return code;
}

/* Goes to the next row that changes. */
static int buckets_next(nd_cursor *base)
{
    buckets_cursor *cursor = (buckets_cursor *)base;
    int status;
    base->count = 0;
    while ((status = nd_packing_next(cursor->packing, &cursor->row)) == ND_DONE && !cursor->ended)
        ND_TRY(next_bucket(cursor));
    base->count = status == ND_OK ? SIZE_MAX : 0;
    return status == ND_OK || status == ND_DONE ? SQLITE_OK : nd_table_fail_status(nd_table_of(base), status);
}

static int buckets_fill(nd_cursor *base)
{
    buckets_cursor *cursor = (buckets_cursor *)base;
    nd_table *table = nd_table_of(base);
    const nd_scheme *scheme = &table->cache.settings.scheme;
    int64_t first_id, last_id;
    ND_TRY(nd_input_integer(base, 1, "first_id", INT64_MIN, INT64_MAX, 0, &first_id));
    ND_TRY(nd_input_integer(base, 2, "last_id", INT64_MIN, INT64_MAX, 0, &last_id));
    ND_TRY(nd_input_integer(base, 3, "filed", 0, 1, 0, &cursor->filed));
    if (!nd_scheme_has_buckets(scheme))
        return nd_table_fail(table, "index \"%s\" has no buckets of codes", table->cache.settings.index);
    cursor->code_size = (size_t)scheme->bits / 8;
    if ((cursor->filing == NULL && (cursor->filing = nd_filing_new()) == NULL) ||
        (cursor->packing == NULL && (cursor->packing = nd_packing_new()) == NULL))
        return SQLITE_NOMEM;
    nd_packing_begin(cursor->packing, cursor->code_size);
    nd_filing_begin(cursor->filing, scheme, 0);
    ND_TRY(nd_filing_collect(table, cursor->filing, first_id, last_id));
    int status = nd_filing_next(cursor->filing, &cursor->next);
    cursor->ended = status != ND_OK;
    if (status != ND_OK)
        return status == ND_DONE ? SQLITE_OK : nd_table_fail_status(table, status);
    return buckets_next(base);
}

static void buckets_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const nd_packed *row = &((const buckets_cursor *)base)->row;
    if (column < 2)
        sqlite3_result_int64(context, column == 0 ? row->id : row->group_id);
    else if (row->entries != NULL)
        sqlite3_result_blob64(context, row->entries, row->size, SQLITE_TRANSIENT);
}

const nd_table_spec nd_buckets_function = {
    .name = "neardup_buckets",
    .declaration = "CREATE TABLE x(id INTEGER, group_id INTEGER, entries BLOB, "
                   "index_name HIDDEN, first_id HIDDEN, last_id HIDDEN, filed HIDDEN)",
    .columns = {3, 4, 4, 1000},
    .reads = ND_READS_INDEX,
    .cursor = {sizeof(buckets_cursor), buckets_close, buckets_fill, buckets_next, buckets_column},
};
