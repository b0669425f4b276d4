/* sqlite_join.c: neardup_join(index, first_id, last_id, complete, now [, asked]) -> fingerprint_id, other_id, similarity, distance: pairs of
 * fingerprints that meet the rule of the index, found for many at once by walking the candidate table from one end to the other.
 *
 * complete = 1: all pairs of a fingerprint from first_id to last_id and one of a higher id.
 * complete = 2: all pairs of a fingerprint of another index, given in `asked`, and any of this one. asked: one behind the other, by
 * ids that ascend from first_id to last_id, the id, its group's in this index, the size of the value and that of the evidence or -1,
 * little-endian numbers of 64 bits, then value and evidence: its shingle hashes where these are compared and are not the value.
 * complete = 0: pairs with a lower id, as many as it takes to connect. Of a bucket that many share, a fingerprint is compared with
 * one after another of each part that is connected already, until one of that part matches; so the cost of a bucket in which all
 * are alike grows with its size and not with its square. Fingerprints without a document that is visible at `now` (milliseconds
 * since 1970) are left out.
 *
 * DIRECTONLY: it reads the index. All rows are collected before the first is given out. */
#include "sqlite_join.h"

#include <stdlib.h>
#include <string.h>


static nd_table_spec join_spec = {
    .name = "neardup_join",
    .declaration = "CREATE TABLE x(fingerprint_id INTEGER, other_id INTEGER, similarity REAL, distance INTEGER, "
                   "index_name HIDDEN, first_id HIDDEN, last_id HIDDEN, complete HIDDEN, now HIDDEN, asked HIDDEN)",
    .innocuous = 0,
    .outputs = 4,
    .required = 5,
    .inputs = 6,
    .rows = 1000,
};

typedef struct join_result {
    int64_t id;
    int64_t other;
    double similarity;
    int64_t distance;
} join_result;

/* Members of a bucket that are known to be connected: the ids from `begin` on are chained by next. */
typedef struct join_part {
    size_t head;
    int64_t name; /* any of its ids */
} join_part;

typedef struct join_cursor {
    nd_cursor head;
    join_result *results;
    size_t results_capacity;
} join_cursor;

typedef struct join_run {
    join_reader *reader;
    join_cursor *cursor;
    join_page page;
    nd_components *components;
    int bounded; /* by ND_RESULTS_MAX */
    uint64_t *candidates; /* other id above, number of the item below */
    size_t candidate_count, candidates_capacity;
    int walking; /* the table is read from end to end: row_key is where that stands */
    int walked;  /* to the end */
    int64_t row_key;
    uint64_t *others; /* ids in the range of the present probe, ascending */
    size_t other_count, others_capacity;
    size_t *members; /* items that have the present probe, ascending */
    size_t member_count, members_capacity;
    uint32_t *places; /* of entries of a bucket */
    size_t places_capacity;
    join_part *parts;
    size_t part_count, parts_capacity;
    uint64_t *chain; /* id and the place of the next one, in pairs */
    size_t chain_count, chain_capacity;
    size_t met_pairs;
    uint64_t *met; /* (item, crowd) that are connected, as hashes; open addressing */
    size_t met_count, met_capacity;
} join_run;

/* ---- results ------------------------------------------------------------------------------------------------------------ */

static int add_result(join_run *run, int64_t id, int64_t other, double similarity, int64_t distance)
{
    join_cursor *cursor = run->cursor;
    if (cursor->head.count >= ND_RESULTS_MAX && run->bounded) {
        nd_table_fail(cursor->head.base.pVtab, "neardup_join: more than %lld pairs: ask for fewer fingerprints at once",
                      (sqlite3_int64)ND_RESULTS_MAX);
        return SQLITE_TOOBIG;
    }
    int code = nd_table_reserve((void **)&cursor->results, &cursor->results_capacity, cursor->head.count + 1, sizeof(join_result));
    if (code != SQLITE_OK)
        return code;
    cursor->results[cursor->head.count++] = (join_result){id, other, similarity, distance};
    if (run->reader->complete)
        return SQLITE_OK;
    return nd_components_join(run->components, id, other) == ND_OK ? SQLITE_OK : SQLITE_NOMEM;
}

static int compare_results(const void *a, const void *b)
{
    const join_result *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

/* In order, each pair once. */
static void finish_results(join_cursor *cursor)
{
    size_t kept = 0;
    if (cursor->head.count == 0)
        return;
    qsort(cursor->results, cursor->head.count, sizeof(join_result), compare_results);
    for (size_t i = 0; i < cursor->head.count; i++)
        if (i == 0 || compare_results(&cursor->results[kept - 1], &cursor->results[i]) != 0)
            cursor->results[kept++] = cursor->results[i];
    cursor->head.count = kept;
}

/* ---- single pairs -------------------------------------------------------------------------------------------------------- */

static int bytes_of(join_run *run, int64_t id, int keep, const uint8_t **bytes, size_t *size)
{
    const join_item *item = run->reader->foreign ? NULL : nd_join_find_item(&run->page, id);
    if (item == NULL || !item->loaded)
        return keep ? nd_join_keep_value(run->reader, id, bytes, size) : nd_join_read_value(run->reader, id, bytes, size);
    *bytes = run->page.arena + item->offset;
    *size = item->size;
    return SQLITE_OK;
}

/* Compares an item with another fingerprint; *matched where they meet the rule and the other can be seen. */
static int try_pair(join_run *run, join_item *item, int64_t other, int *matched)
{
    const uint8_t *bytes;
    size_t size;
    double similarity;
    int64_t distance;
    *matched = 0;
    if (nd_join_is_full(&run->page))
        nd_join_forget_items(&run->page);
    int code = nd_join_load_item(run->reader, &run->page, item);
    if (code == SQLITE_OK)
        code = bytes_of(run, other, 1, &bytes, &size);
    if (code != SQLITE_OK ||
        !nd_join_compare(run->reader, run->page.arena + item->offset, item->size, bytes, size, &similarity, &distance))
        return code;
    code = nd_join_is_visible(run->reader, other, matched);
    return code == SQLITE_OK && *matched ? add_result(run, item->id, other, similarity, distance) : code;
}

static join_item *item_of(join_run *run, uint64_t candidate)
{
    return &run->page.items[candidate & (((uint64_t)1 << ND_ITEM_BITS) - 1)];
}

/* Asked of every candidate: whether the connection was interrupted, looked up for one in many. */
static int is_stopped(const join_run *run, size_t number)
{
    return number % ND_CANDIDATES_ASKED == 0 && nd_is_interrupted(run->reader->table->cache.db);
}

/* Compares candidates whose items are loaded. */
static int compare_candidates(join_run *run, const uint64_t *candidates, size_t count)
{
    int complete = run->reader->complete, code = SQLITE_OK, visible = 1;
    int64_t present = -1;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        const join_item *item = item_of(run, candidates[i]);
        int64_t other = (int64_t)(candidates[i] >> ND_ITEM_BITS);
        double similarity;
        int64_t distance;
        if (is_stopped(run, i))
            return SQLITE_INTERRUPT;
        if (other != present) {
            code = bytes_of(run, other, 0, &bytes, &size);
            if (code == SQLITE_OK && !complete)
                code = nd_join_is_visible(run->reader, other, &visible);
            present = other;
        }
        if (code == SQLITE_OK && visible &&
            nd_join_compare(run->reader, run->page.arena + item->offset, item->size, bytes, size, &similarity, &distance))
            code = add_result(run, item->id, other, similarity, distance);
    }
    return code;
}

/* Compares all candidates, each pair once, others in the order of their ids so that each is read once. */
static int drain_candidates(join_run *run)
{
    size_t count = nd_sort_distinct(run->candidates, run->candidate_count), first = 0;
    int code = SQLITE_OK;
    run->candidate_count = 0;
    while (first < count && code == SQLITE_OK) {
        size_t end = first;
        if (nd_join_is_full(&run->page))
            nd_join_forget_items(&run->page);
        for (; end < count && !nd_join_is_full(&run->page) && code == SQLITE_OK; end++)
            code = nd_join_load_item(run->reader, &run->page, item_of(run, run->candidates[end]));
        if (code == SQLITE_OK)
            code = compare_candidates(run, run->candidates + first, end - first);
        first = end;
    }
    return code;
}

static int add_candidate(join_run *run, size_t item, int64_t other)
{
    if (is_stopped(run, run->candidate_count))
        return SQLITE_INTERRUPT;
    if (run->candidate_count == ND_CANDIDATES_MAX) {
        run->candidate_count = nd_sort_distinct(run->candidates, run->candidate_count);
        int code = 2 * run->candidate_count > ND_CANDIDATES_MAX ? drain_candidates(run) : SQLITE_OK;
        if (code != SQLITE_OK)
            return code;
    }
    int code = nd_table_reserve((void **)&run->candidates, &run->candidates_capacity, run->candidate_count + 1, sizeof(uint64_t));
    if (code == SQLITE_OK)
        run->candidates[run->candidate_count++] = (uint64_t)other << ND_ITEM_BITS | item;
    return code;
}

static int add_all_candidates(join_run *run)
{
    int complete = run->reader->complete, code = SQLITE_OK;
    for (size_t i = 0; i < run->member_count && code == SQLITE_OK; i++) {
        const join_item *item = &run->page.items[run->members[i]];
        for (size_t j = 0; j < run->other_count && item->visible && code == SQLITE_OK; j++) {
            int64_t other = (int64_t)run->others[j];
            if (run->reader->foreign || (complete ? other > item->id : other < item->id))
                code = add_candidate(run, run->members[i], other);
        }
    }
    return code;
}

/* ---- buckets that many share ------------------------------------------------------------------------------------------------ */

/* Compares an item with each part that it is not yet connected with, the newest member first. */
static int ask_parts(join_run *run, join_item *item)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < run->part_count && code == SQLITE_OK; i++) {
        int matched = 0;
        if (item->matched &&
            nd_components_find(run->components, run->parts[i].name) == nd_components_find(run->components, item->id))
            continue;
        for (size_t at = run->parts[i].head; at != SIZE_MAX && !matched && code == SQLITE_OK; at = run->chain[2 * at + 1])
            code = try_pair(run, item, (int64_t)run->chain[2 * at], &matched);
        item->matched |= matched;
    }
    return code;
}

/* Puts an id into its part, after joining the parts that have become one. */
static int enter_part(join_run *run, int64_t id)
{
    int64_t name = nd_components_find(run->components, id);
    size_t first = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < run->part_count; i++) {
        join_part part = run->parts[i];
        if (nd_components_find(run->components, part.name) == name) {
            if (first != SIZE_MAX) {
                size_t end = part.head;
                while (run->chain[2 * end + 1] != SIZE_MAX)
                    end = run->chain[2 * end + 1];
                run->chain[2 * end + 1] = run->parts[first].head;
                run->parts[first].head = part.head;
                continue;
            }
            first = kept;
        }
        run->parts[kept++] = part;
    }
    run->part_count = kept;
    int code = nd_table_reserve((void **)&run->chain, &run->chain_capacity, 2 * run->chain_count + 2, sizeof(uint64_t));
    if (code == SQLITE_OK && first == SIZE_MAX) {
        code = nd_table_reserve((void **)&run->parts, &run->parts_capacity, run->part_count + 1, sizeof(join_part));
        if (code == SQLITE_OK) {
            first = run->part_count++;
            run->parts[first] = (join_part){.head = SIZE_MAX, .name = id};
        }
    }
    if (code != SQLITE_OK)
        return code;
    run->chain[2 * run->chain_count] = (uint64_t)id;
    run->chain[2 * run->chain_count + 1] = run->parts[first].head;
    run->parts[first].head = run->chain_count++;
    return SQLITE_OK;
}

/* Members and others in the order of their ids: members ask those that came before them. */
static int connect_bucket(join_run *run)
{
    int code = SQLITE_OK;
    size_t i = 0, j = 0;
    run->part_count = run->chain_count = 0;
    while (code == SQLITE_OK && (i < run->member_count || j < run->other_count)) {
        join_item *item = i < run->member_count ? &run->page.items[run->members[i]] : NULL;
        int64_t other = j < run->other_count ? (int64_t)run->others[j] : INT64_MAX;
        if (item != NULL && item->id <= other) {
            if (item->visible)
                code = ask_parts(run, item);
            i++;
            if (item->id < other || !item->visible) { /* it is not filed here itself, or nobody may find it */
                j += item->id == other;
                continue;
            }
        }
        j++;
        if (code == SQLITE_OK)
            code = enter_part(run, other);
        if (i >= run->member_count)
            break; /* nobody asks any more */
    }
    return code;
}

/* ---- crowds ------------------------------------------------------------------------------------------------------------------ */

/* The finaliser of SplitMix64 over an item and a crowd, whose label is below 2^43 by its size: no two give the same. */
static uint64_t mixed(size_t item, int64_t crowd)
{
    uint64_t hash = ((uint64_t)crowd << ND_ITEM_BITS | item) + 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    return hash ^ hash >> 31;
}

/* Where it stands, or is to stand. */
static size_t met_place(const join_run *run, uint64_t hash)
{
    size_t place = (size_t)(hash >> 16) & (run->met_capacity - 1);
    while (run->met[place] != 0 && run->met[place] != hash)
        place = (place + 1) & (run->met_capacity - 1);
    return place;
}

/* Where (item, crowd) stands among those met, with room for one more. */
static int find_met(join_run *run, size_t item, int64_t crowd, size_t *place)
{
    if (4 * (run->met_count + 1) > 3 * run->met_capacity) {
        size_t capacity = run->met_capacity == 0 ? ND_FIRST_CAPACITY : 2 * run->met_capacity;
        uint64_t *met = sqlite3_malloc64(capacity * sizeof *met);
        if (met == NULL)
            return SQLITE_NOMEM;
        memset(met, 0, capacity * sizeof *met);
        uint64_t *old = run->met;
        size_t old_capacity = run->met_capacity;
        run->met = met;
        run->met_capacity = capacity;
        for (size_t i = 0; i < old_capacity; i++)
            if (old[i] != 0)
                met[met_place(run, old[i])] = old[i];
        sqlite3_free(old);
    }
    *place = met_place(run, mixed(item, crowd));
    return SQLITE_OK;
}

/* One match with the rows of a crowd in the bucket, the newest first. */
static int ask_crowd(join_run *run, size_t number, const nd_filed *probe, int64_t crowd)
{
    join_item *item = &run->page.items[number];
    sqlite3_stmt *statement = run->reader->statements[JOIN_CROWD];
    size_t place;
    int matched = 0;
    int code = find_met(run, number, crowd, &place);
    if (code != SQLITE_OK || run->met[place] != 0 || !item->visible)
        return code;
    code = nd_join_bind(statement, probe);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 3, crowd);
    while (code == SQLITE_OK && !matched && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t other = sqlite3_column_int64(statement, 0);
        code = other < item->id ? try_pair(run, item, other, &matched) : SQLITE_OK;
    }
    if (code != SQLITE_OK && code != SQLITE_DONE)
        nd_join_fail(run->reader, code);
    sqlite3_reset(statement);
    if (matched) {
        run->met[place] = mixed(number, crowd);
        run->met_count++;
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int ask_crowds(join_run *run, const nd_filed *probe)
{
    sqlite3_stmt *statement = run->reader->statements[JOIN_LABEL];
    int64_t crowd = INT64_MIN;
    for (;;) {
        int code = nd_join_bind(statement, probe);
        if (code == SQLITE_OK)
            code = sqlite3_bind_int64(statement, 3, crowd);
        if (code == SQLITE_OK)
            code = sqlite3_step(statement);
        int none = code == SQLITE_DONE || sqlite3_column_type(statement, 0) == SQLITE_NULL;
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            nd_join_fail(run->reader, code);
        crowd = none ? 0 : sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            return code;
        if (none)
            return SQLITE_OK;
        code = SQLITE_OK;
        for (size_t i = 0; i < run->member_count && crowd != 0 && code == SQLITE_OK; i++)
            code = ask_crowd(run, run->members[i], probe, crowd);
        if (code != SQLITE_OK)
            return code;
    }
}

static int add_other(join_run *run, int64_t id)
{
    if (id < 0 || id >= (int64_t)1 << (63 - ND_ITEM_BITS))
        return nd_table_fail(&run->reader->table->base, "neardup_join: fingerprint id %lld is out of range", (sqlite3_int64)id);
    int code = nd_table_reserve((void **)&run->others, &run->others_capacity, run->other_count + 1, sizeof(uint64_t));
    if (code == SQLITE_OK)
        run->others[run->other_count++] = (uint64_t)id;
    return code;
}

/* ---- the table from end to end, beside the probes in the same order -------------------------------------------------------- */

static int walk_on(join_run *run)
{
    sqlite3_stmt *statement = run->reader->statements[JOIN_WALK];
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) { /* the rest of the row is read where its key is one that is asked for */
        run->row_key = sqlite3_column_int64(statement, 1);
        return SQLITE_OK;
    }
    run->walked = 1;
    return code == SQLITE_DONE ? SQLITE_OK : nd_join_fail(run->reader, code);
}

/* Where the row stands: before the place (key, group) of the probe, at it, or behind it. */
static int row_against(const join_run *run, const nd_filed *probe)
{
    if (run->row_key != probe->low)
        return run->row_key < probe->low ? -1 : 1;
    int64_t group_id = sqlite3_column_int64(run->reader->statements[JOIN_WALK], 0);
    return (group_id > probe->group_id) - (group_id < probe->group_id);
}

static int walk_range(join_run *run, const nd_filed *probe)
{
    int code = SQLITE_OK;
    while (code == SQLITE_OK && !run->walked && row_against(run, probe) < 0)
        code = walk_on(run);
    while (code == SQLITE_OK && !run->walked && row_against(run, probe) == 0) {
        sqlite3_stmt *statement = run->reader->statements[JOIN_WALK];
        if (run->reader->complete || sqlite3_column_int64(statement, 3) == 0)
            code = add_other(run, sqlite3_column_int64(statement, 2));
        if (code == SQLITE_OK)
            code = walk_on(run);
    }
    run->other_count = nd_sort_distinct(run->others, run->other_count);
    return code;
}

static int begin_walk(join_run *run)
{
    int code = nd_join_prefers_walk(run->reader, (int64_t)run->page.count, &run->walking);
    run->walked = 0;
    return code == SQLITE_OK && run->walking ? walk_on(run) : code;
}

static void end_walk(join_run *run)
{
    if (run->walking)
        sqlite3_reset(run->reader->statements[JOIN_WALK]);
    run->walking = 0;
}

/* ---- pages -------------------------------------------------------------------------------------------------------------------- */

/* The ids that have the key of the probe. */
static int read_range(join_run *run, const nd_filed *probe)
{
    sqlite3_stmt *statement = run->reader->statements[JOIN_RANGE];
    run->other_count = 0;
    if (run->walking)
        return walk_range(run, probe);
    int code = nd_join_bind(statement, probe);
    while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        code = add_other(run, sqlite3_column_int64(statement, 0));
    if (code != SQLITE_OK && code != SQLITE_DONE)
        nd_join_fail(run->reader, code);
    sqlite3_reset(statement);
    run->other_count = nd_sort_distinct(run->others, run->other_count);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int same_probe(const nd_filed *a, const nd_filed *b)
{
    return a->group_id == b->group_id && a->low == b->low && a->high == b->high;
}

/* ---- buckets of codes: the codes stand beside the ids, so only what is near enough is a candidate ------------------------------ */

typedef int join_meet(join_run *run, size_t item, int64_t other);

static int meet_candidate(join_run *run, size_t item, int64_t other)
{
    return add_candidate(run, item, other);
}

/* Compares the two unless they are connected already. */
static int meet_connecting(join_run *run, size_t number, int64_t other)
{
    join_item *item = &run->page.items[number];
    int matched = 0;
    if (item->matched && nd_components_find(run->components, other) == nd_components_find(run->components, item->id))
        return SQLITE_OK;
    int code = try_pair(run, item, other, &matched);
    item->matched |= matched;
    return code;
}

/* Only counts. */
static int meet_counted(join_run *run, size_t item, int64_t other)
{
    (void)item;
    (void)other;
    run->met_pairs++;
    return run->met_pairs > ND_GROUPED_FROM ? SQLITE_DONE : SQLITE_OK;
}

/* Every visible member with those of the entries that it may match, the newest first. */
static int meet_entries(join_run *run, const nd_entries *entries, join_meet *meet)
{
    int complete = run->reader->complete;
    int code = nd_table_reserve((void **)&run->places, &run->places_capacity, entries->count, sizeof *run->places);
    for (size_t i = 0; i < run->member_count && code == SQLITE_OK; i++) {
        const join_item *item = &run->page.items[run->members[i]];
        if (!item->visible || item->size != entries->code_size)
            continue;
        const uint8_t *value = run->page.arena + item->offset;
        size_t count = nd_entries_near(entries, value, (uint64_t)run->reader->rule.max_distance, run->places);
        while (count > 0 && code == SQLITE_OK) {
            int64_t other = nd_entries_id(entries, run->places[--count]);
            if (other < 0 || other >= (int64_t)1 << (63 - ND_ITEM_BITS))
                return nd_table_fail(&run->reader->table->base, "neardup_join: fingerprint id %lld is out of range", other);
            if (run->reader->foreign || (complete ? other > item->id : other < item->id))
                code = meet(run, run->members[i], other);
        }
    }
    return code;
}

static int meet_bucket(join_run *run, const nd_filed *probe, join_meet *meet)
{
    join_reader *reader = run->reader;
    sqlite3_stmt *statement = reader->statements[JOIN_RANGE];
    int code = nd_join_bind(statement, probe), step = SQLITE_ROW;
    while (code == SQLITE_OK && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        nd_entries entries;
        const uint8_t *bytes = sqlite3_column_blob(statement, 0);
        size_t size = (size_t)sqlite3_column_bytes(statement, 0);
        if (bytes == NULL || nd_entries_read(bytes, size, (size_t)reader->rule.bits / 8, &entries) != ND_OK)
            code = nd_table_fail(&reader->table->base, "neardup_join: a row of %s_code_bucket is damaged", reader->settings->index);
        else
            code = meet_entries(run, &entries, meet);
    }
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        code = nd_join_fail(reader, step);
    sqlite3_reset(statement);
    return code;
}

/* Of a bucket in which very many match, only as many pairs as it takes to connect them. */
static int join_codes(join_run *run, const nd_filed *probe)
{
    if (run->reader->complete)
        return meet_bucket(run, probe, meet_candidate);
    run->met_pairs = 0;
    int code = meet_bucket(run, probe, meet_counted);
    if (code == SQLITE_OK && run->met_pairs == 0)
        return code;
    if (code != SQLITE_OK && code != SQLITE_DONE)
        return code;
    return meet_bucket(run, probe, code == SQLITE_DONE ? meet_connecting : meet_candidate);
}

/* All that the members of one probe have to ask. */
static int join_bucket(join_run *run, const nd_filed *probe)
{
    if (nd_scheme_has_buckets(&run->reader->settings->scheme))
        return join_codes(run, probe);
    int code = read_range(run, probe);
    if (code != SQLITE_OK)
        return code;
    if (run->other_count > 0) {
        int large = run->member_count > ND_GROUPED_FROM / run->other_count;
        code = large && !run->reader->complete ? connect_bucket(run) : add_all_candidates(run);
    }
    if (code == SQLITE_OK && run->reader->statements[JOIN_CROWD] != NULL)
        code = ask_crowds(run, probe);
    return code;
}

/* The item that a probe is of. */
static size_t member_of(const join_run *run, const nd_filed *probe)
{
    return run->page.listed ? (size_t)(nd_join_find_item(&run->page, probe->id) - run->page.items) : probe->item;
}

static int join_probes(join_run *run)
{
    nd_filing *probes = run->page.probes;
    nd_filed probe, next;
    int code = SQLITE_OK, status = nd_filing_next(probes, &next);
    while (code == SQLITE_OK && status == ND_OK) {
        probe = next;
        run->member_count = 0;
        do {
            code = nd_table_reserve((void **)&run->members, &run->members_capacity, run->member_count + 1, sizeof(size_t));
            if (code != SQLITE_OK)
                return code;
            run->members[run->member_count++] = member_of(run, &next);
            status = nd_filing_next(probes, &next);
        } while (status == ND_OK && same_probe(&probe, &next));
        code = join_bucket(run, &probe);
    }
    if (code == SQLITE_OK && status != ND_DONE)
        code = nd_table_fail_status(&run->reader->table->base, status);
    return code;
}

static void run_close(join_run *run)
{
    sqlite3_free(run->page.items);
    sqlite3_free(run->page.ids);
    sqlite3_free(run->page.arena);
    nd_filing_free(run->page.probes);
    nd_components_free(run->components);
    sqlite3_free(run->candidates);
    sqlite3_free(run->others);
    sqlite3_free(run->members);
    sqlite3_free(run->places);
    sqlite3_free(run->parts);
    sqlite3_free(run->chain);
    sqlite3_free(run->met);
}

static int join_all(join_cursor *cursor, join_reader *reader, int64_t first_id, int64_t last_id)
{
    join_run run = {.reader = reader, .cursor = cursor, .bounded = reader->complete && first_id != last_id};
    int code = SQLITE_OK;
    run.components = nd_components_new();
    run.page.probes = nd_filing_new();
    if (run.components == NULL || run.page.probes == NULL)
        code = SQLITE_NOMEM;
    while (code == SQLITE_OK && first_id <= last_id) {
        code = nd_join_read_page(reader, &run.page, first_id, last_id, &first_id);
        if (run.met != NULL)
            memset(run.met, 0, run.met_capacity * sizeof *run.met);
        run.met_count = 0;
        if (code == SQLITE_OK)
            code = begin_walk(&run);
        if (code == SQLITE_OK)
            code = join_probes(&run);
        if (code == SQLITE_OK)
            code = drain_candidates(&run);
        end_walk(&run);
    }
    run_close(&run);
    if (code == SQLITE_OK)
        finish_results(cursor);
    return code;
}

/* ---- the table-valued function -------------------------------------------------------------------------------------------------- */

static int join_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    (void)base;
    return nd_cursor_open(sizeof(join_cursor), out);
}

static int join_close(sqlite3_vtab_cursor *base)
{
    join_cursor *cursor = (join_cursor *)base;
    sqlite3_free(cursor->results);
    nd_cursor_free(&cursor->head);
    return SQLITE_OK;
}

static int join_filter(sqlite3_vtab_cursor *base, int given, const char *plan, int argc, sqlite3_value **argv)
{
    (void)plan;
    join_cursor *cursor = (join_cursor *)base;
    nd_table *table = (nd_table *)base->pVtab;
    char *message = NULL;
    join_reader reader;
    const int64_t most = ((int64_t)1 << (63 - ND_ITEM_BITS)) - 1;
    int64_t first_id, last_id, complete, now;
    int code = nd_cursor_begin(&cursor->head, given, argc, argv);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 1, "first_id", 0, INT64_MAX, 0, &first_id);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 2, "last_id", 0, INT64_MAX, 0, &last_id);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 3, "complete", 0, 2, 0, &complete);
    if (code == SQLITE_OK)
        code = nd_input_integer(&cursor->head, 4, "now", INT64_MIN, INT64_MAX, 0, &now);
    if (code != SQLITE_OK)
        return code;
    if (complete == 2 && (nd_input_is_null(&cursor->head, 5) || sqlite3_value_type(cursor->head.inputs[5]) != SQLITE_BLOB))
        return nd_table_fail(base->pVtab, "neardup_join: asked must be a blob of fingerprints where complete is 2");
    code = nd_cache_open(&table->cache, cursor->head.inputs[0], &message);
    if (code != SQLITE_OK)
        return nd_table_fail_message(base->pVtab, code, message);
    if (table->cache.settings.scheme.evidence == ND_EVIDENCE_TEXT && table->cache.settings.rules == NULL) {
        nd_cache_release(&table->cache);
        nd_cache_clear(&table->cache);
        table->cache.with_rules = 1;
        code = nd_cache_open(&table->cache, cursor->head.inputs[0], &message);
        if (code != SQLITE_OK)
            return nd_table_fail_message(base->pVtab, code, message);
    }
    code = nd_join_reader_open(&reader, table, (int)complete, now);
    if (complete == 2)
        (void)nd_value_bytes(cursor->head.inputs[5], &reader.asked, &reader.asked_size);
    if (code == SQLITE_OK)
        code = join_all(cursor, &reader, first_id, last_id < most ? last_id : most);
    nd_join_reader_close(&reader);
    nd_cache_release(&table->cache);
    if (code != SQLITE_OK)
        cursor->head.count = 0;
    return code;
}

static int join_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    join_cursor *cursor = (join_cursor *)base;
    const join_result *result = &cursor->results[cursor->head.row];
    if (column == 0)
        sqlite3_result_int64(context, result->id);
    else if (column == 1)
        sqlite3_result_int64(context, result->other);
    else if (column == 2)
        sqlite3_result_double(context, result->similarity);
    else if (column > 3)
        return nd_cursor_input(&cursor->head, context, column);
    else if (result->distance >= 0)
        sqlite3_result_int64(context, result->distance);
    return SQLITE_OK;
}

static const sqlite3_module join_module = {
    .xConnect = nd_table_connect,
    .xBestIndex = nd_table_best_index,
    .xDisconnect = nd_table_disconnect,
    .xOpen = join_open,
    .xClose = join_close,
    .xFilter = join_filter,
    .xNext = nd_cursor_next,
    .xEof = nd_cursor_eof,
    .xColumn = join_column,
    .xRowid = nd_cursor_rowid,
};

int nd_register_join(sqlite3 *db)
{
    return sqlite3_create_module_v2(db, join_spec.name, &join_module, &join_spec, NULL);
}
