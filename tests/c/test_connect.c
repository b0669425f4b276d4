/* test_connect.c: the join of buckets against brute force, over random fingerprints many of which are alike, in tables that are plain
 * arrays: all pairs, pairs of two collections, and pairs that connect, with documents that cannot be seen and with crowds. */
#include "check.h"
#include "neardup_join.h"

#define COUNT 160
#define VALUE_MAX 64
#define KEYS_MAX 64

static size_t below(size_t end)
{
    return (size_t)(draw() >> 11) % end;
}

/* ---- fingerprints and their table -------------------------------------------------------------------------------------------- */

typedef struct fingerprint {
    int64_t id, group_id, crowd;
    int visible;
    uint8_t value[VALUE_MAX];
    size_t size;
    int64_t filed[KEYS_MAX], probed[KEYS_MAX];
    size_t filed_count, probed_count;
} fingerprint;

typedef struct table {
    nd_scheme scheme;
    fingerprint all[COUNT];
    size_t count, reads, stop_after;
} table;

static const nd_scheme schemes[] = {
    {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 8, .threshold = 0.5},
    {.kind = ND_SCHEME_MINHASH, .plan = ND_PLAN_BANDS, .num_perm = 12, .bands = 6, .rows = 2, .slot_bits = 16, .threshold = 0.75},
    {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_BLOCKS, .bits = 64, .max_distance = 3, .blocks = 4},
    {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_CHUNKS, .bits = 64, .max_distance = 6, .chunks = 4},
    {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_SCAN, .bits = 64, .max_distance = 9},
    {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 8, .threshold = 0.5, .measure = ND_MEASURE_ESTIMATE},
};
#define SCHEMES (sizeof schemes / sizeof schemes[0])

/* Values that are alike by chance: the fewer `kinds`, the more. Sets have a hash in common, and so
 * have signatures of one band: all meet in one bucket. */
static void draw_value(const nd_scheme *scheme, size_t kinds, fingerprint *out)
{
    if (scheme->kind == ND_SCHEME_BOTTOMK) {
        uint64_t hashes[8] = {0};
        for (size_t i = 1; i < 8; i++)
            hashes[i] = 1 + below(4 + 3 * kinds);
        out->size = nd_sort_distinct(hashes, 8) * sizeof hashes[0];
        memcpy(out->value, hashes, out->size);
    } else if (scheme->kind == ND_SCHEME_MINHASH) {
        uint16_t slots[12], kind = (uint16_t)below(kinds);
        for (size_t i = 0; i < 12; i++)
            slots[i] = below(4) > 0 ? kind : (uint16_t)below(9);
        if (scheme->bands == 1)
            memset(slots, 0, 2 * sizeof slots[0]);
        out->size = sizeof slots;
        memcpy(out->value, slots, out->size);
    } else {
        out->size = 8;
        memset(out->value, (int)(37 * below(kinds)), out->size);
        for (size_t i = below(7); i > 0; i--)
            out->value[below(8)] ^= (uint8_t)(1u << below(8));
    }
}

static size_t keys_of(const nd_keys *keys, int64_t *out)
{
    size_t count = keys->count;
    CHECK(count <= KEYS_MAX);
    for (size_t i = 0; i < count; i++)
        out[i] = keys->rows[i].low;
    return count;
}

static void draw_table(table *t, const nd_scheme *scheme, size_t count, size_t kinds, size_t invisible)
{
    char message[256];
    nd_keys *keys = nd_keys_new();
    int64_t id = 0;
    memset(t, 0, sizeof *t);
    t->scheme = *scheme;
    t->count = count;
    CHECK(keys != NULL && nd_scheme_check(scheme, message, sizeof message) == ND_OK);
    for (size_t i = 0; i < count; i++) {
        fingerprint *f = &t->all[i];
        f->id = id += 1 + (int64_t)below(3);
        f->group_id = below(4) == 0;
        f->visible = below(100) >= invisible;
        draw_value(scheme, kinds, f);
        CHECK(nd_scheme_file_keys(scheme, f->group_id, f->value, f->size, keys) == ND_OK);
        f->filed_count = keys_of(keys, f->filed);
        CHECK(nd_scheme_probe_keys(scheme, f->group_id, f->value, f->size, keys) == ND_OK);
        f->probed_count = keys_of(keys, f->probed);
    }
    nd_keys_free(keys);
}

static int is_filed(const fingerprint *f, int64_t key, int64_t group_id)
{
    for (size_t i = 0; i < f->filed_count; i++)
        if (f->filed[i] == key && f->group_id == group_id)
            return 1;
    return 0;
}

/* ---- what the join reads ------------------------------------------------------------------------------------------------------ */

static int read_codes(const table *t, const nd_filed *probe, nd_bucket_join *join)
{
    int status = ND_OK;
    for (size_t i = 0; i < t->count && status == ND_OK;) {
        int64_t ids[5];
        uint8_t codes[5 * 8], bytes[256];
        size_t held = 0;
        for (; i < t->count && held < 5; i++)
            if (is_filed(&t->all[i], probe->low, probe->group_id)) {
                memcpy(codes + 8 * held, t->all[i].value, 8);
                ids[held++] = t->all[i].id;
            }
        nd_entries entries;
        if (held == 0)
            break;
        nd_entries_write(ids, codes, held, 8, bytes);
        CHECK(nd_entries_read(bytes, nd_entries_size(ids, held, 8), 8, &entries) == ND_OK);
        status = nd_bucket_join_take_entries(join, &entries);
    }
    return status;
}

static int read_bucket(void *context, const nd_filed *probe, nd_bucket_join *join)
{
    const table *t = context;
    int status = ND_OK;
    if (nd_scheme_has_buckets(&t->scheme))
        return read_codes(t, probe, join);
    for (size_t i = 0; i < t->count && status == ND_OK; i++)
        if (is_filed(&t->all[i], probe->low, probe->group_id) && t->all[i].crowd == 0)
            status = nd_bucket_join_take_id(join, t->all[i].id);
    return status;
}

static int next_crowd(void *context, const nd_filed *probe, int64_t *crowd)
{
    const table *t = context;
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < t->count; i++)
        if (is_filed(&t->all[i], probe->low, probe->group_id) && t->all[i].crowd > *crowd && t->all[i].crowd < next)
            next = t->all[i].crowd;
    *crowd = next;
    return next == INT64_MAX ? ND_DONE : ND_OK;
}

static int read_crowd(void *context, const nd_filed *probe, int64_t crowd, nd_bucket_join *join)
{
    const table *t = context;
    int status = ND_OK;
    for (size_t i = t->count; i > 0 && status == ND_OK; i--)
        if (is_filed(&t->all[i - 1], probe->low, probe->group_id) && t->all[i - 1].crowd == crowd)
            status = nd_bucket_join_take_member(join, t->all[i - 1].id);
    return status;
}

static const fingerprint *with_id(const table *t, int64_t id)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->all[i].id == id)
            return &t->all[i];
    return NULL;
}

static int read_value(void *context, int64_t id, const uint8_t **bytes, size_t *size)
{
    static uint64_t given[VALUE_MAX / 8]; /* overwritten each time, as the contract has it */
    table *t = context;
    const fingerprint *f = with_id(t, id);
    CHECK(f != NULL);
    memcpy(given, f->value, sizeof given);
    *bytes = (const uint8_t *)given;
    *size = f->size;
    return ++t->reads == t->stop_after ? ND_ERROR_STOPPED : ND_OK;
}

static int is_visible(void *context, int64_t id, int *visible)
{
    *visible = with_id(context, id)->visible;
    return ND_OK;
}

static nd_bucket_join *join_of(table *t, nd_bucket_mode mode, size_t most, int crowds)
{
    const nd_bucket_reader reader = {t, read_bucket, crowds ? next_crowd : NULL, read_crowd, read_value, is_visible, NULL};
    nd_bucket_join *join = nd_bucket_join_new(&t->scheme, mode, most, &reader);
    CHECK(join != NULL);
    return join;
}

/* ---- brute force ------------------------------------------------------------------------------------------------------------------ */

static size_t ones(const uint8_t *a, const uint8_t *b)
{
    size_t count = 0;
    for (size_t i = 0; i < 64; i++)
        count += (a[i / 8] ^ b[i / 8]) >> i % 8 & 1;
    return count;
}

static double share_of(const fingerprint *a, const fingerprint *b, size_t width, int set)
{
    size_t common = 0, a_count = a->size / width, b_count = b->size / width;
    for (size_t i = 0; i < a_count; i++)
        for (size_t j = 0; j < b_count; j++)
            common += (set || i == j) && memcmp(a->value + width * i, b->value + width * j, width) == 0;
    return (double)common / (double)(set ? a_count + b_count - common : a_count);
}

static size_t has_hash(const fingerprint *one, uint64_t hash)
{
    size_t found = 0;
    for (size_t i = 0; i < one->size; i += 8)
        found |= memcmp(one->value + i, &hash, 8) == 0;
    return found;
}

/* How many of the k smallest hashes of both are in each. */
static double estimate_of(const fingerprint *a, const fingerprint *b, size_t k)
{
    uint64_t all[2 * VALUE_MAX / 8];
    size_t common = 0;
    memcpy(all, a->value, a->size);
    memcpy((uint8_t *)all + a->size, b->value, b->size);
    size_t count = nd_sort_distinct(all, (a->size + b->size) / 8);
    count = count < k ? count : k;
    for (size_t i = 0; i < count; i++)
        common += has_hash(a, all[i]) & has_hash(b, all[i]);
    return (double)common / (double)count;
}

/* Whether the one is looked up where the other is filed, and they meet the rule. */
static int is_pair(const nd_scheme *scheme, const fingerprint *a, const fingerprint *b)
{
    int meet = 0;
    for (size_t i = 0; i < a->probed_count && !meet; i++)
        meet = is_filed(b, a->probed[i], a->group_id);
    if (!meet)
        return 0;
    if (scheme->kind == ND_SCHEME_SIMHASH)
        return ones(a->value, b->value) <= (size_t)scheme->max_distance;
    if (scheme->measure == ND_MEASURE_ESTIMATE)
        return estimate_of(a, b, (size_t)scheme->k) >= scheme->threshold;
    return share_of(a, b, scheme->kind == ND_SCHEME_BOTTOMK ? 8 : 2, scheme->kind == ND_SCHEME_BOTTOMK) >= scheme->threshold;
}

/* The lowest place that is connected with each by pairs of visible fingerprints before `end`. */
static void label_all(const table *t, size_t end, size_t *labels)
{
    for (size_t i = 0; i < t->count; i++)
        labels[i] = i;
    for (size_t i = 0; i < end; i++)
        for (size_t j = 0; j < i; j++) {
            size_t old = labels[i], new = labels[j];
            if (old == new || !t->all[i].visible || !t->all[j].visible || !is_pair(&t->scheme, &t->all[i], &t->all[j]))
                continue;
            for (size_t k = 0; k < t->count; k++)
                labels[k] = labels[k] == old ? new : labels[k];
        }
}

static int same_parts(const size_t *a, const size_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if ((a[i] == a[j]) != (b[i] == b[j]))
                return 0;
    return 1;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------------------- */

/* The fingerprints from `first` on, in pages of a few; listed: from rows in the order of the table. */
static int run(const table *askers, nd_bucket_join *join, size_t first, size_t page)
{
    int status = ND_OK;
    while (first < askers->count && status == ND_OK) {
        nd_bucket_join_begin(join);
        for (size_t i = 0; i < page && first < askers->count && status == ND_OK; i++, first++) {
            const fingerprint *f = &askers->all[first];
            status = nd_bucket_join_add(join, f->id, f->group_id, f->value, f->size);
        }
        if (status == ND_OK)
            status = nd_bucket_join_run(join);
    }
    return status;
}

typedef struct row {
    int64_t key, group_id, id;
} row;

static int compare_rows(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->group_id != y->group_id)
        return x->group_id < y->group_id ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The same from the rows of the table. */
static int run_rows(const table *t, nd_bucket_join *join, int64_t page)
{
    static row rows[COUNT * KEYS_MAX];
    size_t count = 0;
    int64_t last_id = t->all[t->count - 1].id, id = 0;
    int status = ND_OK;
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 0; j < t->all[i].filed_count; j++)
            rows[count++] = (row){t->all[i].filed[j], t->all[i].group_id, t->all[i].id};
    qsort(rows, count, sizeof rows[0], compare_rows);
    while (id <= last_id && status == ND_OK) {
        int64_t begin = id, end = id + page < last_id ? id + page : last_id;
        status = nd_bucket_join_begin_rows(join, id, end);
        for (size_t i = 0; i < count && status == ND_OK; i++)
            status = nd_bucket_join_add_row(join, rows[i].group_id, rows[i].key, rows[i].id, 0);
        if (status == ND_OK)
            status = nd_bucket_join_end_rows(join, &id);
        CHECK(status != ND_OK || id > begin);
        if (status == ND_OK)
            status = nd_bucket_join_run(join);
    }
    return status;
}

/* ---- promises -------------------------------------------------------------------------------------------------------------------------- */

/* Modes ALL and FOREIGN find exactly the pairs of brute force, each once, in order; FOREIGN by the other one first. */
static void check_all(const nd_scheme *scheme, int foreign, int listed)
{
    static table t, other;
    size_t count, at = 0;
    draw_table(&t, scheme, 1 + below(COUNT), 1 + below(6), 0);
    draw_table(&other, scheme, 1 + below(COUNT), 1 + below(6), 0);
    const table *askers = foreign ? &other : &t;
    nd_bucket_join *join = join_of(&t, foreign ? ND_BUCKETS_FOREIGN : ND_BUCKETS_ALL, SIZE_MAX, 0);
    CHECK(!listed || run_rows(&t, join, 1 + (int64_t)below(200)) == ND_OK);
    CHECK((listed && below(2)) || run(askers, join, 0, 1 + below(COUNT)) == ND_OK); /* what is found twice comes out once */
    nd_bucket_pair *pairs = nd_bucket_join_pairs(join, &count);
    for (size_t k = 0; k < askers->count * t.count; k++) {
        size_t i = foreign ? k % askers->count : k / t.count, j = foreign ? k / askers->count : k % t.count;
        if ((!foreign && j <= i) || !is_pair(scheme, &askers->all[i], &t.all[j]))
            continue;
        CHECK(at < count && pairs[at].id == askers->all[i].id && pairs[at].other == t.all[j].id);
        CHECK(scheme->kind != ND_SCHEME_SIMHASH || (size_t)pairs[at].distance == ones(askers->all[i].value, t.all[j].value));
        at++;
    }
    CHECK(at == count);
    free(pairs);
    nd_bucket_join_free(join);
}

/* Mode CONNECT: each pair is one of brute force, what they and the crowds connect is what all pairs connect, and whoever matches an
 * earlier fingerprint has a pair. */
static void check_connected(const nd_scheme *scheme, int crowds, int listed)
{
    static table t;
    size_t expected[COUNT], labels[COUNT], sizes[COUNT] = {0}, count, first = 0;
    draw_table(&t, scheme, 1 + below(COUNT), 1 + below(4), below(2) * 20);
    label_all(&t, t.count, expected);
    if (crowds) { /* what stood before `first` is connected already, and large clusters have a label */
        first = below(t.count);
        label_all(&t, first, labels);
        for (size_t i = 0; i < first; i++)
            sizes[labels[i]]++;
        for (size_t i = 0; i < first; i++)
            t.all[i].crowd = sizes[labels[i]] >= 4 ? t.all[labels[i]].id : 0;
    } else {
        label_all(&t, 0, labels);
    }
    nd_bucket_join *join = join_of(&t, ND_BUCKETS_CONNECT, SIZE_MAX, crowds);
    CHECK((listed ? run_rows(&t, join, 1 + (int64_t)below(200)) : run(&t, join, first, 1 + below(COUNT))) == ND_OK);
    nd_bucket_pair *pairs = nd_bucket_join_pairs(join, &count);
    char matched[COUNT] = {0};
    for (size_t i = 0; i < count; i++) {
        const fingerprint *a = with_id(&t, pairs[i].id), *b = with_id(&t, pairs[i].other);
        CHECK(a > b && a->visible && b->visible && is_pair(scheme, a, b));
        size_t old = labels[a - t.all], new = labels[b - t.all];
        for (size_t k = 0; k < t.count; k++)
            labels[k] = labels[k] == old ? new : labels[k];
        matched[a - t.all] = 1;
        for (size_t j = 0; j < i; j++) /* one match with a crowd will do */
            CHECK(pairs[j].id != a->id || b->crowd == 0 || with_id(&t, pairs[j].other)->crowd != b->crowd);
    }
    CHECK(same_parts(labels, expected, t.count));
    for (size_t i = first; i < t.count; i++)
        for (size_t j = 0; j < i && !matched[i] && t.all[i].visible; j++)
            CHECK(!t.all[j].visible || !is_pair(scheme, &t.all[i], &t.all[j]));
    free(pairs);
    nd_bucket_join_free(join);
}

/* One bucket that all share is connected with as few pairs as there can be: each joins two parts. */
static void check_cost(void)
{
    static table t;
    size_t labels[COUNT], count, parts = 0;
    nd_scheme one_bucket = schemes[1];
    one_bucket.bands = 1;
    draw_table(&t, &one_bucket, COUNT, 1 + below(4), 0);
    for (size_t i = 0; i < COUNT; i++)
        t.all[i].group_id = 0;
    label_all(&t, COUNT, labels);
    for (size_t i = 0; i < COUNT; i++)
        parts += labels[i] == i;
    nd_bucket_join *join = join_of(&t, ND_BUCKETS_CONNECT, SIZE_MAX, 0);
    CHECK(run(&t, join, 0, COUNT) == ND_OK);
    free(nd_bucket_join_pairs(join, &count));
    CHECK(count == COUNT - parts);
    nd_bucket_join_free(join);
}

/* What stops the reader or is wrong with a row ends the join with that status, and so does a pair too many. */
static void check_errors(void)
{
    static table t;
    draw_table(&t, &schemes[0], COUNT, 1, 0);
    nd_bucket_join *join = join_of(&t, ND_BUCKETS_CONNECT, SIZE_MAX, 0);
    t.stop_after = 1;
    CHECK(run(&t, join, COUNT / 2, COUNT) == ND_ERROR_STOPPED);
    CHECK(nd_bucket_join_take_id(join, -1) == ND_ERROR_DAMAGED && nd_bucket_join_take_id(join, INT64_MAX) == ND_ERROR_DAMAGED);
    nd_bucket_join_free(join);
    t.stop_after = 0;
    join = join_of(&t, ND_BUCKETS_ALL, 3, 0);
    CHECK(run(&t, join, 0, COUNT) == ND_ERROR_CAPACITY);
    CHECK(nd_bucket_join_add(join, 1, 0, t.all[0].value, 7) == ND_ERROR_DAMAGED);
    nd_bucket_join_free(join);
}

int main(void)
{
    for (int round = 0; round < 40; round++)
        for (size_t i = 0; i < SCHEMES; i++) {
            int keyed = !nd_scheme_has_buckets(&schemes[i]);
            check_all(&schemes[i], round % 2, 0);
            check_connected(&schemes[i], 0, 0);
            if (keyed)
                check_connected(&schemes[i], 1, 0);
            if (schemes[i].plan == ND_PLAN_BANDS) {
                check_all(&schemes[i], 0, 1);
                check_connected(&schemes[i], 0, 1);
            }
        }
    for (int round = 0; round < 20; round++)
        check_cost();
    check_errors();
    return 0;
}
