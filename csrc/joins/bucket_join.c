/* bucket_join.c: probe after probe of a page, each with the rows that the caller reads for it. */
#include <stdlib.h>

#include "joins/bucket_run.h"

#define WALKED 8.0        /* rows that are read in the time of one look-up */
#define WALKED_TEXTS 16.0 /* where the keys are made of a whole text */

nd_bucket_join *nd_bucket_join_new(const nd_scheme *scheme, nd_bucket_mode mode, size_t most, const nd_bucket_reader *reader)
{
    nd_bucket_join *join = calloc(1, sizeof *join);
    if (join == NULL)
        return NULL;
    join->scheme = *scheme;
    nd_verifier_begin(&join->verifier, scheme);
    join->mode = mode;
    join->most = most;
    join->reader = *reader;
    join->components = nd_components_new();
    join->probes = nd_filing_new();
    if (join->components != NULL && join->probes != NULL)
        return join;
    nd_bucket_join_free(join);
    return NULL;
}

void nd_bucket_join_free(nd_bucket_join *join)
{
    if (join == NULL)
        return;
    nd_verifier_release(&join->verifier);
    nd_filing_free(join->probes);
    free(join->numbers.at);
    free(join->items.at);
    free(join->arena.at);
    free(join->rows.members.at);
    free(join->kept.numbers.at);
    free(join->kept.values.at);
    free(join->kept.arena.at);
    nd_components_free(join->components);
    free(join->members.at);
    free(join->others.at);
    free(join->places.at);
    free(join->home.rest.at);
    free(join->home.codes.at);
    free(join->home.ids.at);
    free(join->parts.at);
    free(join->links.at);
    nd_rare_sets_free(join->rare);
    free(join->company.at);
    free(join->windows.at);
    free(join->open.at);
    free(join->candidates.at);
    free(join->pairs.at);
    free(join);
}

int64_t nd_bucket_join_damaged(const nd_bucket_join *join)
{
    return join->damaged;
}

/* ---- buckets of ids -------------------------------------------------------------------------------------------------------- */

int nd_bucket_join_take_id(nd_bucket_join *join, int64_t id)
{
    ND_TRY(nd_bucket_check_id(join, id));
    if (join->mode == ND_BUCKETS_ALL && id < join->items.at[0].id)
        return ND_OK; /* nothing of the page asks it: such pairs come from other ranges */
    return ND_PUSH(join->others, (uint64_t)id);
}

static int add_all_candidates(nd_bucket_join *join)
{
    for (size_t i = 0; i < join->members.count; i++) {
        const nd_bucket_item *item = &join->items.at[join->members.at[i]];
        for (size_t j = 0; j < join->others.count && item->visible; j++)
            if (nd_bucket_asks(join, item, (int64_t)join->others.at[j]))
                ND_TRY(nd_bucket_add_candidate(join, join->members.at[i], (int64_t)join->others.at[j]));
    }
    return ND_OK;
}

/* Whether the bucket has so many pairs that it pays to look for those that may match. Signatures are compared in an eighth of the
 * time of sets. */
static int is_square(const nd_bucket_join *join)
{
    const nd_scheme *rule = &join->verifier.rule;
    const int is_signature = rule->kind == ND_SCHEME_MINHASH && rule->evidence == ND_EVIDENCE_NONE;
    const size_t members = join->members.count, others = join->others.count;
    const size_t least = is_signature ? ND_RARE_PAIRS : ND_RARE_PAIRS / 8;
    return nd_has_elements(rule) && members > least && others > least && members * others / (members + others) > least;
}

/* Whether most of a few pairs match: then all have to be compared, and a filter would only take time. */
static int are_alike(nd_bucket_join *join, int *alike)
{
    size_t matched = 0;
    for (size_t i = 0; i < ND_BUCKET_SAMPLE; i++) {
        nd_bucket_item *item = &join->items.at[join->members.at[i * join->members.count / ND_BUCKET_SAMPLE]];
        const int64_t other = (int64_t)join->others.at[(ND_BUCKET_SAMPLE - 1 - i) * join->others.count / ND_BUCKET_SAMPLE];
        nd_verdict verdict;
        ND_TRY(nd_bucket_measure(join, item, other, &verdict));
        matched += (size_t)verdict.matches;
    }
    *alike = 2 * matched > ND_BUCKET_SAMPLE;
    return ND_OK;
}

/* Joins members and others of a bucket. */
static int join_ids(nd_bucket_join *join, const nd_filed *probe)
{
    join->others.count = nd_sort_distinct(join->others.at, join->others.count);
    if (join->others.count > 0) {
        const size_t grouped = join->scheme.plan == ND_PLAN_WINNOW ? ND_GROUPED_TEXTS : ND_GROUPED_FROM;
        const int connects = join->mode == ND_BUCKETS_CONNECT;
        int alike = 1;
        if (!connects && is_square(join))
            ND_TRY(are_alike(join, &alike));
        if (connects && join->members.count > grouped / join->others.count)
            ND_TRY(nd_bucket_connect(join, probe->low));
        else
            ND_TRY(alike ? add_all_candidates(join) : nd_bucket_by_rare(join, 0));
    }
    if (join->mode != ND_BUCKETS_CONNECT || join->reader.next_crowd == NULL || (join->listed && !join->rows.crowded))
        return ND_OK;
    return nd_bucket_ask_crowds(join, probe);
}

static int read_ids(nd_bucket_join *join, const nd_filed *probe)
{
    join->others.count = 0;
    ND_TRY(join->reader.read_bucket(join->reader.context, probe, join));
    return join_ids(join, probe);
}

/* ---- rows of ids, in the order of the table -------------------------------------------------------------------------------- */

int nd_bucket_join_begin_rows(nd_bucket_join *join, int64_t first_id, int64_t last_id)
{
    const int64_t most = (int64_t)ND_PAGE_ITEMS;
    nd_bucket_join_begin(join);
    join->listed = 1;
    join->rows.first_id = first_id;
    join->rows.last_id = last_id - first_id >= most ? first_id + most - 1 : last_id;
    join->rows.next_id = last_id + 1;
    join->rows.members.count = join->others.count = 0;
    join->rows.crowded = 0;
    const size_t count = (size_t)(join->rows.last_id - first_id) + 1;
    ND_TRY(ND_ROOM(join->items, count));
    for (size_t i = 0; i < count; i++)
        join->items.at[i] = (nd_bucket_item){.id = first_id + (int64_t)i, .visible = -1};
    join->items.count = count;
    return ND_OK;
}

/* Rows come by crowd and id, members go by id. */
static int join_rows(nd_bucket_join *join)
{
    const nd_filed probe = {.group_id = join->rows.group_id, .low = join->rows.key, .high = join->rows.key};
    const size_t count = nd_sort_distinct(join->rows.members.at, join->rows.members.count);
    ND_TRY(ND_ROOM(join->members, count));
    for (size_t i = 0; i < count; i++) {
        nd_bucket_item *item = nd_bucket_find_item(join, (int64_t)join->rows.members.at[i]);
        if (item->visible < 0 && join->mode == ND_BUCKETS_CONNECT)
            ND_TRY(nd_bucket_look(join, item->id, &item->visible));
        join->members.at[i] = (size_t)(item - join->items.at);
    }
    join->members.count = count;
    return join_ids(join, &probe);
}

/* A fingerprint that is alone in a bucket has nothing to ask there. */
static inline int end_bucket(nd_bucket_join *join)
{
    if (join->rows.members.count > 0 && join->others.count + join->rows.crowded > 1)
        ND_TRY(join_rows(join));
    join->rows.members.count = join->others.count = 0;
    join->rows.crowded = 0;
    return ND_OK;
}

int nd_bucket_join_add_row(nd_bucket_join *join, int64_t group_id, int64_t key, int64_t id, int in_crowd)
{
    if (key != join->rows.key || group_id != join->rows.group_id)
        ND_TRY(end_bucket(join));
    join->rows.key = key;
    join->rows.group_id = group_id;
    if (in_crowd)
        join->rows.crowded++;
    else
        ND_TRY(nd_bucket_join_take_id(join, id));
    if (id > join->rows.last_id && id < join->rows.next_id)
        join->rows.next_id = id;
    if (id < join->rows.first_id || id > join->rows.last_id)
        return ND_OK;
    return ND_PUSH(join->rows.members, (uint64_t)id);
}

int nd_bucket_join_end_rows(nd_bucket_join *join, int64_t *next_id)
{
    *next_id = join->rows.next_id;
    return end_bucket(join);
}

/* ---- buckets of codes: codes stand beside the ids, so that only those that are near enough are candidates ---------------------- */

/* Of a code that is near very many, in ever more small buckets, only the first ones are listed. */
static int meet_few(nd_bucket_join *join, size_t number, int64_t other)
{
    nd_bucket_item *item = &join->items.at[number];
    if (item->met == ND_NEAR_EACH)
        return nd_bucket_meet_connecting(join, number, other);
    item->met++;
    return nd_bucket_add_candidate(join, number, other);
}

/* Only counts, as far as it matters. */
static int meet_counted(nd_bucket_join *join, size_t item, int64_t other)
{
    (void)item;
    (void)other;
    join->met_pairs++;
    return join->met_pairs > ND_GROUPED_FROM ? ND_DONE : ND_OK;
}

/* A member meets those of the entries that it may match, the newest first. */
static int meet_entries(nd_bucket_join *join, size_t number, const nd_entries *entries)
{
    const nd_bucket_item *item = &join->items.at[number];
    if (!item->visible || item->size != entries->code_size)
        return ND_OK;
    const uint8_t *code = join->arena.at + item->offset;
    size_t count = nd_entries_near(entries, code, (uint64_t)join->verifier.rule.max_distance, join->places.at);
    while (count > 0) {
        int64_t other = nd_entries_id(entries, join->places.at[--count]);
        join->near = entries->codes + join->places.at[count] * entries->code_size;
        ND_TRY(nd_bucket_check_id(join, other));
        if (nd_bucket_asks(join, item, other))
            ND_TRY(join->meet(join, number, other));
    }
    return ND_OK;
}

static int is_home(const nd_bucket_join *join, size_t number, int64_t root)
{
    const nd_bucket_item *item = &join->items.at[number];
    return item->matched && nd_components_find(join->components, item->id) == root;
}

/* The members that are not in the component of `name`: of the list that is there, if it is of the same component. */
static int list_rest(nd_bucket_join *join, int64_t name)
{
    const int64_t root = nd_components_find(join->components, name);
    const int again = join->home.name >= 0 && nd_components_find(join->components, join->home.name) == root;
    const size_t count = again ? join->home.rest.count : join->members.count;
    ND_TRY(ND_ROOM(join->home.rest, count));
    join->home.name = name;
    join->home.rest.count = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t number = again ? join->home.rest.at[i] : join->members.at[i];
        if (join->items.at[number].visible && !is_home(join, number, root))
            join->home.rest.at[join->home.rest.count++] = number;
    }
    return ND_OK;
}

/* The visible entries of a row that are not in a component. */
static int list_strangers(nd_bucket_join *join, const nd_entries *entries, int64_t root)
{
    ND_TRY(ND_ROOM(join->home.ids, entries->count));
    ND_TRY(ND_ROOM(join->home.codes, entries->count * entries->code_size));
    join->home.ids.count = 0;
    for (size_t i = 0; i < entries->count; i++) {
        const int64_t id = nd_entries_id(entries, i);
        int visible = nd_components_find(join->components, id) != root;
        if (visible)
            ND_TRY(nd_bucket_look(join, id, &visible));
        if (!visible)
            continue;
        memcpy(join->home.codes.at + join->home.ids.count * entries->code_size, entries->codes + i * entries->code_size,
            entries->code_size);
        join->home.ids.at[join->home.ids.count++] = (uint64_t)id;
    }
    return ND_OK;
}

/* Members that are in the component of the newest entry with one meet the entries that are not, all others meet every entry. */
static int connect_entries(nd_bucket_join *join, const nd_entries *entries)
{
    size_t newest = entries->count;
    while (newest > 0 && !nd_components_has(join->components, nd_entries_id(entries, newest - 1)))
        newest--;
    const int64_t name = newest > 0 ? nd_entries_id(entries, newest - 1) : -1;
    ND_TRY(list_rest(join, name));
    for (size_t i = 0; i < join->home.rest.count; i++)
        ND_TRY(meet_entries(join, join->home.rest.at[i], entries));
    if (name < 0) /* no member is in a component with an entry: all have met every entry */
        return ND_OK;
    const int64_t root = nd_components_find(join->components, name);
    ND_TRY(list_strangers(join, entries, root));
    const nd_entries strangers = {.codes = join->home.codes.at,
        .ids = (const uint8_t *)join->home.ids.at,
        .count = join->home.ids.count,
        .code_size = entries->code_size,
        .id_size = sizeof *join->home.ids.at};
    for (size_t i = 0; i < join->members.count && strangers.count > 0; i++)
        if (is_home(join, join->members.at[i], root))
            ND_TRY(meet_entries(join, join->members.at[i], &strangers));
    return ND_OK;
}

int nd_bucket_join_take_entries(nd_bucket_join *join, const nd_entries *entries)
{
    ND_TRY(ND_ROOM(join->places, entries->count));
    if (join->meet == nd_bucket_meet_connecting)
        return connect_entries(join, entries);
    for (size_t i = 0; i < join->members.count; i++)
        ND_TRY(meet_entries(join, join->members.at[i], entries));
    return ND_OK;
}

static int meet_bucket(nd_bucket_join *join, const nd_filed *probe, nd_bucket_meet *meet)
{
    join->meet = meet;
    join->home.name = -1;
    return join->reader.read_bucket(join->reader.context, probe, join);
}

/* Of a bucket in which very many match, only as many pairs as it takes to connect them. */
static int join_codes(nd_bucket_join *join, const nd_filed *probe)
{
    if (join->mode != ND_BUCKETS_CONNECT)
        return meet_bucket(join, probe, join->mode == ND_BUCKETS_FOREIGN ? nd_bucket_meet_near : nd_bucket_add_candidate);
    join->met_pairs = 0;
    int status = meet_bucket(join, probe, meet_counted);
    if (status == ND_DONE)
        return meet_bucket(join, probe, nd_bucket_meet_connecting);
    return status == ND_OK && join->met_pairs > 0 ? meet_bucket(join, probe, meet_few) : status;
}

/* ---- probes ---------------------------------------------------------------------------------------------------------------- */

static int same_probe(const nd_filed *a, const nd_filed *b)
{
    return a->group_id == b->group_id && a->low == b->low && a->high == b->high;
}

int nd_bucket_join_run(nd_bucket_join *join)
{
    nd_filed probe, next;
    const int codes = nd_scheme_has_buckets(&join->scheme);
    ND_TRY(nd_filing_sort(join->probes));
    int more = nd_filing_next(join->probes, &next);
    while (more == ND_OK) {
        probe = next;
        join->members.count = 0;
        do {
            ND_TRY(ND_PUSH(join->members, next.item));
            __builtin_prefetch(&join->items.at[next.item]);
            more = nd_filing_next(join->probes, &next);
        } while (more == ND_OK && same_probe(&probe, &next));
        ND_TRY(codes ? join_codes(join, &probe) : read_ids(join, &probe));
    }
    return more == ND_DONE ? nd_bucket_drain(join) : more;
}

int nd_bucket_prefers_walk(const nd_scheme *scheme, const uint8_t *value, size_t size, int64_t filed, int64_t count, int *walk)
{
    nd_keys *keys = nd_keys_new();
    *walk = 0;
    if (keys == NULL)
        return ND_ERROR_MEMORY;
    double rows = 0, probes = 0;
    if (nd_scheme_file_keys(scheme, 0, value, size, keys) == ND_OK)
        rows = (double)keys->count * (double)filed;
    if (nd_scheme_probe_keys(scheme, 0, value, size, keys) == ND_OK)
        probes = (double)keys->count * (double)count;
    *walk = rows < (scheme->plan == ND_PLAN_WINNOW ? WALKED_TEXTS : WALKED) * probes;
    nd_keys_free(keys);
    return ND_OK;
}
