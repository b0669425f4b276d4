/* sqlite_join_read.c: the statements of neardup_join, and what they read. */
#include "sqlite_join.h"

#include <string.h>

#define WALKED 8.0
#define PROBE_BYTES ((size_t)64) /* of a page from the candidate table: what one probe takes, sorting included */

int nd_join_fail(join_reader *reader, int code)
{
    if (reader->table->base.zErrMsg == NULL && code != SQLITE_NOMEM)
        nd_table_fail(&reader->table->base, "neardup_join: %s", sqlite3_errmsg(reader->table->cache.db));
    return code;
}

/* ---- statements -------------------------------------------------------------------------------------------------------- */

static const char *const common_sql[] = {
    [JOIN_PAGE] = "SELECT id, group_id, value, value_hash FROM %s_fingerprint WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    [JOIN_VALUE] = "SELECT value, value_hash FROM %s_fingerprint WHERE id = ?1",
    [JOIN_TEXT] = "SELECT text FROM %s_document WHERE fingerprint_id = ?1 LIMIT 1",
    [JOIN_VISIBLE] = "SELECT 1 FROM %s_document WHERE fingerprint_id = ?1 AND (expires_at IS NULL OR expires_at > ?2) LIMIT 1",
};

/* What stands under a probe: ?1 group, ?2 low, ?3 high. The second of each pair leaves crowds out. */
#define ENTRIES_OF_BUCKET "SELECT entries FROM %s_code_bucket WHERE id BETWEEN ?2 AND ?3 AND group_id = ?1"
static const char *const range_sql[][2] = {
    [ND_PLAN_SCAN] = {ENTRIES_OF_BUCKET, ENTRIES_OF_BUCKET},
    [ND_PLAN_BLOCKS] = {ENTRIES_OF_BUCKET, ENTRIES_OF_BUCKET},
    [ND_PLAN_CHUNKS] = {ENTRIES_OF_BUCKET, ENTRIES_OF_BUCKET},
    [ND_PLAN_BANDS] = {"SELECT fingerprint_id FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2",
                       "SELECT fingerprint_id FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2 AND crowd = 0"},
    [ND_PLAN_PREFIX] = {"SELECT fingerprint_id FROM %s_bottomk_prefix WHERE group_id = ?1 AND hash = ?2",
                        "SELECT fingerprint_id FROM %s_bottomk_prefix WHERE group_id = ?1 AND hash = ?2 AND crowd = 0"},
};

static const char *const walk_sql[] = {
    [ND_PLAN_BANDS] = "SELECT group_id, bucket, fingerprint_id, crowd FROM %s_minhash_band ORDER BY bucket, group_id, crowd, fingerprint_id",
    [ND_PLAN_PREFIX] = "SELECT group_id, hash, fingerprint_id, crowd FROM %s_bottomk_prefix ORDER BY hash, group_id, crowd, fingerprint_id",
};

static int prepare(join_reader *reader, enum join_statement which, const char *format)
{
    char *sql = sqlite3_mprintf(format, reader->settings->index);
    if (sql == NULL)
        return SQLITE_NOMEM;
    int code = sqlite3_prepare_v2(reader->table->cache.db, sql, -1, &reader->statements[which], NULL);
    sqlite3_free(sql);
    return code == SQLITE_OK ? code : nd_join_fail(reader, code);
}

static int prepare_crowds(join_reader *reader)
{
    int bands = reader->settings->scheme.plan == ND_PLAN_BANDS;
    int code = prepare(reader, JOIN_LABEL,
                       bands ? "SELECT min(crowd) FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2 AND crowd > ?3"
                             : "SELECT min(crowd) FROM %s_bottomk_prefix WHERE group_id = ?1 AND hash = ?2 AND crowd > ?3");
    if (code == SQLITE_OK)
        code = prepare(reader, JOIN_CROWD,
                       bands ? "SELECT fingerprint_id FROM %s_minhash_band WHERE group_id = ?1 AND bucket = ?2 AND crowd = ?3 "
                               "ORDER BY fingerprint_id DESC"
                             : "SELECT fingerprint_id FROM %s_bottomk_prefix WHERE group_id = ?1 AND hash = ?2 AND crowd = ?3 "
                               "ORDER BY fingerprint_id DESC");
    return code;
}

/* The first column of the first row as a number, 0 where there is none. */
static int ask_number(join_reader *reader, const char *format, int64_t *out)
{
    int code = prepare(reader, JOIN_LABEL, format);
    if (code != SQLITE_OK)
        return code;
    sqlite3_stmt *statement = reader->statements[JOIN_LABEL];
    code = sqlite3_step(statement);
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        nd_join_fail(reader, code);
    sqlite3_finalize(statement);
    reader->statements[JOIN_LABEL] = NULL;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

int nd_join_reader_open(join_reader *reader, nd_table *table, int mode, int64_t now)
{
    int64_t found = 0;
    memset(reader, 0, sizeof *reader);
    reader->table = table;
    reader->settings = &table->cache.settings;
    reader->complete = mode > 0;
    reader->foreign = mode == 2;
    reader->rule = reader->settings->scheme;
    reader->now = now;
    if (reader->rule.evidence == ND_EVIDENCE_TEXT) {
        reader->rule.evidence = ND_EVIDENCE_HASHES;
        reader->work = nd_text_new();
        if (reader->work == NULL)
            return SQLITE_NOMEM;
        nd_text_watch(reader->work, nd_is_interrupted, table->cache.db);
    }
    int code = ask_number(reader, "SELECT 1 FROM %s_document WHERE expires_at IS NOT NULL LIMIT 1", &found);
    reader->expiring = found != 0;
    if (code == SQLITE_OK)
        code = ask_number(reader, "SELECT value FROM %s_setting WHERE name = 'crowds'", &found);
    if (code == SQLITE_OK)
        code = ask_number(reader, "SELECT max(id) FROM %s_fingerprint", &reader->last_id);
    int plan = reader->settings->scheme.plan, keyed = plan == ND_PLAN_BANDS || plan == ND_PLAN_PREFIX;
    reader->crowds = found != 0 && keyed;
    for (int i = JOIN_PAGE; i <= JOIN_VISIBLE && code == SQLITE_OK; i++)
        code = prepare(reader, (enum join_statement)i, common_sql[i]);
    if (code == SQLITE_OK)
        code = prepare(reader, JOIN_RANGE, range_sql[plan][!reader->complete]);
    if (code == SQLITE_OK && keyed)
        code = prepare(reader, JOIN_WALK, walk_sql[plan]);
    if (code == SQLITE_OK && reader->crowds && !reader->complete)
        code = prepare_crowds(reader);
    return code;
}

void nd_join_reader_close(join_reader *reader)
{
    for (int i = 0; i < JOIN_STATEMENTS; i++)
        sqlite3_finalize(reader->statements[i]);
    sqlite3_free(reader->kept.ids);
    sqlite3_free(reader->kept.offsets);
    sqlite3_free(reader->kept.sizes);
    sqlite3_free(reader->kept.arena);
    sqlite3_free(reader->numbers);
    nd_text_free(reader->work);
}

int nd_join_bind(sqlite3_stmt *statement, const nd_filed *probe)
{
    int code = sqlite3_bind_int64(statement, 1, probe->group_id);
    int wanted = sqlite3_bind_parameter_count(statement);
    if (code == SQLITE_OK && wanted >= 2)
        code = sqlite3_bind_int64(statement, 2, probe->low);
    if (code == SQLITE_OK && wanted >= 3)
        code = sqlite3_bind_int64(statement, 3, probe->high);
    return code;
}

/* The probes of a page are about those of the newest fingerprint for each item; looking one up takes as long as reading WALKED rows. */
int nd_join_prefers_walk(join_reader *reader, int64_t count, int *walk)
{
    *walk = 0;
    if (reader->statements[JOIN_WALK] == NULL || count <= 0)
        return SQLITE_OK;
    nd_keys *keys = nd_keys_new();
    if (keys == NULL)
        return SQLITE_NOMEM;
    sqlite3_stmt *statement = reader->statements[JOIN_VALUE];
    int code = sqlite3_bind_int64(statement, 1, reader->last_id);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const uint8_t *value = sqlite3_column_blob(statement, 0);
        size_t size = (size_t)sqlite3_column_bytes(statement, 0);
        double filed = 0, probed = 0;
        if (value != NULL && nd_scheme_file_keys(&reader->settings->scheme, 0, value, size, keys) == ND_OK)
            filed = (double)nd_keys_count(keys);
        if (value != NULL && nd_scheme_probe_keys(&reader->settings->scheme, 0, value, size, keys) == ND_OK)
            probed = (double)nd_keys_count(keys);
        *walk = filed * (double)reader->last_id < WALKED * probed * (double)count;
    }
    sqlite3_reset(statement);
    nd_keys_free(keys);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : nd_join_fail(reader, code);
}

/* ---- items -------------------------------------------------------------------------------------------------------------- */

/* The sorted distinct shingle hashes of a text in reader->numbers. */
static int hash_text(join_reader *reader, sqlite3_stmt *statement, size_t *size)
{
    const nd_rules *rules = reader->settings->rules;
    const uint8_t *text = sqlite3_column_text(statement, 0);
    *size = 0;
    if (text == NULL)
        return SQLITE_OK;
    int status = nd_text_tokenize(reader->work, rules, text, (size_t)sqlite3_column_bytes(statement, 0));
    if (status == ND_OK)
        status = nd_text_hash(reader->work, rules);
    if (status != ND_OK)
        return nd_table_fail_status(&reader->table->base, status);
    size_t count = nd_text_shingle_count(reader->work, rules);
    int code = nd_table_reserve((void **)&reader->numbers, &reader->numbers_capacity, count, sizeof(uint64_t));
    if (code != SQLITE_OK)
        return code;
    if (count > 0)
        memcpy(reader->numbers, nd_text_hashes(reader->work), count * sizeof(uint64_t));
    *size = nd_sort_distinct(reader->numbers, count) * sizeof(uint64_t);
    return SQLITE_OK;
}

static int read_text(join_reader *reader, int64_t id, size_t *size)
{
    sqlite3_stmt *statement = reader->statements[JOIN_TEXT];
    *size = 0;
    int code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        code = hash_text(reader, statement, size);
    else if (code == SQLITE_DONE)
        code = SQLITE_OK;
    else
        nd_join_fail(reader, code);
    sqlite3_reset(statement);
    return code;
}

static int damaged(join_reader *reader, int64_t id)
{
    return nd_table_fail(&reader->table->base, "neardup_join: fingerprint %lld of index \"%s\" is damaged: wrong hash, length or order",
                         (sqlite3_int64)id, reader->settings->index);
}

/* Whether the blob in column `value` is the one that the hash in column `hash` was made of. */
static int is_intact(sqlite3_stmt *statement, int value, int hash)
{
    const uint8_t *bytes = sqlite3_column_blob(statement, value);
    size_t size = (size_t)sqlite3_column_bytes(statement, value);
    return bytes != NULL && nd_xxh3_64(bytes, size, 0) == (uint64_t)sqlite3_column_int64(statement, hash);
}

/* ---- values kept --------------------------------------------------------------------------------------------------------- */

static size_t kept_place(const join_reader *reader, int64_t id)
{
    size_t place = (size_t)((uint64_t)id * 0x9E3779B97F4A7C15u >> 40) & (ND_KEPT_MAX - 1);
    while (reader->kept.ids[place] >= 0 && reader->kept.ids[place] != id)
        place = (place + 1) & (ND_KEPT_MAX - 1);
    return place;
}

static void forget_kept(join_reader *reader)
{
    for (size_t i = 0; i < ND_KEPT_MAX; i++)
        reader->kept.ids[i] = -1;
    reader->kept.used = reader->kept.count = 0;
}

static int begin_keeping(join_reader *reader)
{
    if (reader->kept.arena != NULL)
        return SQLITE_OK;
    reader->kept.ids = sqlite3_malloc64(ND_KEPT_MAX * sizeof *reader->kept.ids);
    reader->kept.offsets = sqlite3_malloc64(ND_KEPT_MAX * sizeof *reader->kept.offsets);
    reader->kept.sizes = sqlite3_malloc64(ND_KEPT_MAX * sizeof *reader->kept.sizes);
    reader->kept.arena = sqlite3_malloc64(ND_KEPT_BYTES);
    if (reader->kept.ids == NULL || reader->kept.offsets == NULL || reader->kept.sizes == NULL || reader->kept.arena == NULL)
        return SQLITE_NOMEM;
    forget_kept(reader);
    return SQLITE_OK;
}

int nd_join_keep_value(join_reader *reader, int64_t id, const uint8_t **bytes, size_t *size)
{
    int code = begin_keeping(reader);
    if (code != SQLITE_OK)
        return code;
    size_t place = kept_place(reader, id);
    if (reader->kept.ids[place] == id) {
        *bytes = reader->kept.arena + reader->kept.offsets[place];
        *size = reader->kept.sizes[place];
        return SQLITE_OK;
    }
    code = nd_join_read_value(reader, id, bytes, size);
    if (code != SQLITE_OK || *size + 8 > ND_KEPT_BYTES)
        return code;
    if (reader->kept.used + *size + 8 > ND_KEPT_BYTES || 2 * (reader->kept.count + 1) > ND_KEPT_MAX) {
        forget_kept(reader);
        place = kept_place(reader, id);
    }
    reader->kept.ids[place] = id;
    reader->kept.offsets[place] = reader->kept.used;
    reader->kept.sizes[place] = *size;
    if (*size > 0)
        memcpy(reader->kept.arena + reader->kept.used, *bytes, *size);
    *bytes = reader->kept.arena + reader->kept.used;
    reader->kept.used += (*size + 7) / 8 * 8;
    reader->kept.count++;
    return SQLITE_OK;
}

int nd_join_read_value(join_reader *reader, int64_t id, const uint8_t **bytes, size_t *size)
{
    if (reader->work != NULL) {
        int code = read_text(reader, id, size);
        *bytes = (const uint8_t *)reader->numbers;
        return code;
    }
    sqlite3_stmt *statement = reader->statements[JOIN_VALUE];
    int code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *size = 0;
    if (code == SQLITE_ROW) {
        const void *value = sqlite3_column_blob(statement, 0);
        *size = (size_t)sqlite3_column_bytes(statement, 0);
        code = nd_table_reserve((void **)&reader->numbers, &reader->numbers_capacity, *size / 8 + 1, sizeof(uint64_t));
        if (code == SQLITE_OK && (!is_intact(statement, 0, 1) || nd_scheme_value_check(&reader->rule, value, *size) != ND_OK))
            code = damaged(reader, id);
        if (code == SQLITE_OK)
            memcpy(reader->numbers, value, *size);
    } else {
        code = code == SQLITE_DONE ? SQLITE_OK : nd_join_fail(reader, code);
    }
    *bytes = (const uint8_t *)reader->numbers;
    sqlite3_reset(statement);
    return code;
}

int nd_join_is_visible(join_reader *reader, int64_t id, int *visible)
{
    *visible = 1;
    if (!reader->expiring)
        return SQLITE_OK;
    sqlite3_stmt *statement = reader->statements[JOIN_VISIBLE];
    int code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, reader->now);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    *visible = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        nd_join_fail(reader, code);
    sqlite3_reset(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Appends a fingerprint to the page, whose item holds `bytes`: the value itself or what is compared in its place. */
static int add_item(join_reader *reader, join_page *page, int64_t id, int64_t group_id, const uint8_t *bytes, size_t size)
{
    int code = nd_table_reserve((void **)&page->items, &page->items_capacity, page->count + 1, sizeof *page->items);
    if (code == SQLITE_OK)
        code = nd_table_reserve((void **)&page->arena, &page->arena_capacity, page->arena_size + size + 8, 1);
    if (code != SQLITE_OK)
        return code;
    join_item *item = &page->items[page->count];
    *item = (join_item){.id = id, .group_id = group_id, .offset = page->arena_size, .size = size, .loaded = 1, .visible = 1};
    if (!reader->complete)
        code = nd_join_is_visible(reader, id, &item->visible);
    if (size > 0)
        memcpy(page->arena + item->offset, bytes, size);
    page->arena_size += (size + 7) / 8 * 8;
    page->count++;
    return code;
}

static int add_probes(join_reader *reader, join_page *page, int64_t id, int64_t group_id, const uint8_t *value, size_t size)
{
    int status = nd_filing_add(page->probes, group_id, id, 0, value, size);
    if (status == ND_ERROR_DAMAGED)
        return damaged(reader, id);
    return status == ND_OK ? SQLITE_OK : nd_table_fail_status(&reader->table->base, status);
}

/* Appends the fingerprint of the statement's row to the page. */
static int take_item(join_reader *reader, join_page *page, sqlite3_stmt *statement)
{
    int64_t id = sqlite3_column_int64(statement, 0), group_id = sqlite3_column_int64(statement, 1);
    const uint8_t *bytes = sqlite3_column_blob(statement, 2);
    size_t size = (size_t)sqlite3_column_bytes(statement, 2);
    if (!is_intact(statement, 2, 3))
        return damaged(reader, id);
    int code = add_probes(reader, page, id, group_id, bytes, size);
    if (code == SQLITE_OK && reader->work != NULL) {
        code = read_text(reader, id, &size);
        bytes = (const uint8_t *)reader->numbers;
    }
    return code == SQLITE_OK ? add_item(reader, page, id, group_id, bytes, size) : code;
}

static int is_full(const join_page *page)
{
    return nd_filing_memory(page->probes) + page->arena_size >= ND_PAGE_BYTES || page->count >= ND_PAGE_ITEMS;
}

static int read_values(join_reader *reader, join_page *page, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_PAGE];
    int full = 0;
    int code = sqlite3_bind_int64(statement, 1, first_id);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, last_id);
    while (code == SQLITE_OK && !full && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        code = take_item(reader, page, statement);
        full = is_full(page);
    }
    *next_id = full ? page->items[page->count - 1].id + 1 : last_id + 1;
    if (code != SQLITE_OK && code != SQLITE_DONE)
        nd_join_fail(reader, code);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* The next fingerprint of another index, which must be one from first_id to last_id. */
static int take_asked(join_reader *reader, join_page *page, int64_t first_id, int64_t last_id)
{
    int64_t head[4]; /* id, group_id, size of the value, size of the evidence or -1 */
    const uint8_t *bytes = reader->asked + reader->asked_at;
    size_t rest = reader->asked_size - reader->asked_at;
    memcpy(head, bytes, rest < sizeof head ? 0 : sizeof head);
    rest = rest < sizeof head ? 0 : rest - sizeof head;
    if (rest == 0 || head[0] < first_id || head[0] > last_id || head[2] < 1 || (uint64_t)head[2] > rest || head[3] < -1 ||
        (head[3] > 0 && (uint64_t)head[3] > rest - (uint64_t)head[2]))
        return nd_table_fail(&reader->table->base, "neardup_join: asked must hold fingerprints with ids that ascend from %lld to "
                             "%lld: id, group, size of the value and of the evidence or -1, value, evidence", first_id, last_id);
    const uint8_t *value = bytes + sizeof head, *evidence = value + head[2];
    size_t value_size = (size_t)head[2], size = head[3] < 0 ? 0 : (size_t)head[3];
    reader->asked_at += sizeof head + value_size + size;
    if (head[3] < 0 ? reader->work != NULL : nd_scheme_value_check(&reader->rule, evidence, size) != ND_OK)
        return damaged(reader, head[0]);
    int code = add_probes(reader, page, head[0], head[1], value, value_size);
    if (code != SQLITE_OK)
        return code;
    return head[3] < 0 ? add_item(reader, page, head[0], head[1], value, value_size)
                       : add_item(reader, page, head[0], head[1], evidence, size);
}

static int read_asked(join_reader *reader, join_page *page, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    int code = SQLITE_OK;
    *next_id = first_id;
    while (code == SQLITE_OK && reader->asked_at < reader->asked_size && !is_full(page)) {
        code = take_asked(reader, page, *next_id, last_id);
        if (code == SQLITE_OK)
            *next_id = page->items[page->count - 1].id + 1;
    }
    if (code == SQLITE_OK && reader->asked_at == reader->asked_size)
        *next_id = last_id + 1;
    return code;
}

/* ---- pages from the candidate table ---------------------------------------------------------------------------------------- */

/* A bucket of a band table: what its fingerprints from first_id to last_id look up is where they are filed. */
typedef struct join_bucket_ids {
    int64_t key, group_id;
    size_t rows;
    uint64_t *ids; /* of the range */
    size_t count, capacity;
} join_bucket_ids;

/* Who is alone in a bucket has nothing to ask there. Ids ascend, in the place of crowd and id. */
static int take_bucket(join_reader *reader, join_page *page, join_bucket_ids *bucket)
{
    size_t count = bucket->rows > 1 ? nd_sort_distinct(bucket->ids, bucket->count) : 0;
    int code = SQLITE_OK;
    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        int status = nd_filing_add_keys(page->probes, bucket->group_id, (int64_t)bucket->ids[i], 0, &bucket->key, 1);
        if (status != ND_OK)
            return nd_table_fail_status(&reader->table->base, status);
        code = nd_table_reserve((void **)&page->ids, &page->ids_capacity, page->id_count + 1, sizeof *page->ids);
        if (code == SQLITE_OK)
            page->ids[page->id_count++] = bucket->ids[i];
    }
    bucket->rows = bucket->count = 0;
    return code;
}

/* The ids that share a bucket, as items without their values. */
static int make_items(join_reader *reader, join_page *page)
{
    page->id_count = nd_sort_distinct(page->ids, page->id_count);
    int code = nd_table_reserve((void **)&page->items, &page->items_capacity, page->id_count, sizeof *page->items);
    for (size_t i = 0; i < page->id_count && code == SQLITE_OK; i++) {
        join_item *item = &page->items[page->count++];
        *item = (join_item){.id = (int64_t)page->ids[i], .visible = 1};
        if (!reader->complete)
            code = nd_join_is_visible(reader, item->id, &item->visible);
    }
    return code;
}

/* The table is walked from end to end; *next_id is the first fingerprint behind the page that has a row there. */
static int read_table(join_reader *reader, join_page *page, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    sqlite3_stmt *statement = reader->statements[JOIN_WALK];
    join_bucket_ids bucket = {0};
    int64_t most = (int64_t)(ND_PAGE_BYTES / (PROBE_BYTES * (size_t)reader->rule.bands)), end = last_id;
    most = most < (int64_t)ND_PAGE_ITEMS ? most : (int64_t)ND_PAGE_ITEMS;
    if (last_id - first_id >= most)
        end = first_id + most - 1;
    *next_id = last_id + 1;
    page->id_count = 0;
    int code = SQLITE_OK;
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t group_id = sqlite3_column_int64(statement, 0), key = sqlite3_column_int64(statement, 1);
        int64_t id = sqlite3_column_int64(statement, 2);
        code = SQLITE_OK;
        if (key != bucket.key || group_id != bucket.group_id)
            code = take_bucket(reader, page, &bucket);
        bucket.key = key;
        bucket.group_id = group_id;
        bucket.rows++;
        if (id > end && id < *next_id)
            *next_id = id;
        if (code != SQLITE_OK || id < first_id || id > end)
            continue;
        code = nd_table_reserve((void **)&bucket.ids, &bucket.capacity, bucket.count + 1, sizeof *bucket.ids);
        if (code == SQLITE_OK)
            bucket.ids[bucket.count++] = (uint64_t)id;
    }
    if (code != SQLITE_OK && code != SQLITE_DONE)
        nd_join_fail(reader, code);
    sqlite3_reset(statement);
    code = code == SQLITE_DONE ? take_bucket(reader, page, &bucket) : code;
    sqlite3_free(bucket.ids);
    return code == SQLITE_OK ? make_items(reader, page) : code;
}

int nd_join_load_item(join_reader *reader, join_page *page, join_item *item)
{
    const uint8_t *bytes;
    size_t size;
    if (item->loaded)
        return SQLITE_OK;
    int code = nd_join_read_value(reader, item->id, &bytes, &size);
    if (code == SQLITE_OK)
        code = nd_table_reserve((void **)&page->arena, &page->arena_capacity, page->arena_size + size + 8, 1);
    if (code != SQLITE_OK)
        return code;
    item->offset = page->arena_size;
    item->size = size;
    item->loaded = 1;
    if (size > 0)
        memcpy(page->arena + item->offset, bytes, size);
    page->arena_size += (size + 7) / 8 * 8;
    return SQLITE_OK;
}

int nd_join_is_full(const join_page *page)
{
    return page->listed && page->arena_size >= ND_PAGE_BYTES;
}

void nd_join_forget_items(join_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        page->items[i].loaded = 0;
    page->arena_size = 0;
}

join_item *nd_join_find_item(const join_page *page, int64_t id)
{
    size_t low = 0, high = page->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (page->items[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < page->count && page->items[low].id == id ? &page->items[low] : NULL;
}

int nd_join_read_page(join_reader *reader, join_page *page, int64_t first_id, int64_t last_id, int64_t *next_id)
{
    int code = SQLITE_OK;
    page->count = page->arena_size = 0;
    page->listed = 0;
    nd_filing_begin(page->probes, &reader->settings->scheme, 1);
    if (reader->rule.plan == ND_PLAN_BANDS && !reader->foreign) {
        int64_t end = last_id < reader->last_id ? last_id : reader->last_id;
        code = nd_join_prefers_walk(reader, end - first_id + 1, &page->listed);
    }
    if (code == SQLITE_OK)
        code = (reader->foreign ? read_asked : page->listed ? read_table : read_values)(reader, page, first_id, last_id, next_id);
    if (code != SQLITE_OK)
        return code;
    int status = nd_filing_sort(page->probes);
    return status == ND_OK ? SQLITE_OK : nd_table_fail_status(&reader->table->base, status);
}

int nd_join_compare(const join_reader *reader, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, double *similarity,
                    int64_t *distance)
{
    const nd_scheme *rule = &reader->rule;
    *distance = -1;
    if (a_size == 0 || b_size == 0)
        return 0;
    int set = rule->kind == ND_SCHEME_BOTTOMK || (rule->kind == ND_SCHEME_MINHASH && rule->evidence == ND_EVIDENCE_HASHES);
    if (set && rule->measure == ND_MEASURE_FINGERPRINT) {
        *similarity = nd_jaccard((const uint64_t *)(const void *)a, a_size / 8, (const uint64_t *)(const void *)b, b_size / 8,
                                 rule->threshold);
        return *similarity >= rule->threshold;
    }
    if (nd_scheme_similarity(rule, a, a_size, b, b_size, similarity, distance) != ND_OK)
        return 0;
    return *distance >= 0 ? *distance <= rule->max_distance : *similarity >= rule->threshold;
}
