/* test_deduplicator.c: which records stay, against brute force: values many of which are alike, in cold buckets and in hot ones, in
 * groups and without, of every plan. */
#include "check.h"
#include "schemes/schemes.h"

#define COUNT 600
#define VALUE_MAX 80
#define KEYS_MAX 64

static size_t below(size_t end)
{
    return (size_t)(draw() >> 11) % end;
}

static const nd_scheme schemes[] = {
    {.kind = ND_SCHEME_MINHASH, .plan = ND_PLAN_BANDS, .num_perm = 12, .bands = 6, .rows = 2, .slot_bits = 16, .threshold = 0.75},
    {.kind = ND_SCHEME_MINHASH, .plan = ND_PLAN_BANDS, .num_perm = 12, .bands = 1, .rows = 2, .slot_bits = 16, .threshold = 0.5},
    {.kind = ND_SCHEME_MINHASH,
        .plan = ND_PLAN_BANDS,
        .num_perm = 12,
        .bands = 6,
        .rows = 1,
        .slot_bits = 16,
        .threshold = 0.6,
        .evidence = ND_EVIDENCE_PACKED,
        .seed = 1},
    {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 8, .threshold = 0.5},
    {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 8, .threshold = 0.4, .containment = 1},
    {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 8, .threshold = 0.5, .measure = ND_MEASURE_ESTIMATE},
    {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_BLOCKS, .bits = 64, .max_distance = 3, .blocks = 4},
    {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_CHUNKS, .bits = 64, .max_distance = 6, .chunks = 4},
    {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_SCAN, .bits = 64, .max_distance = 9},
    {.kind = ND_SCHEME_BITSAMPLING, .plan = ND_PLAN_CHUNKS, .bits = 64, .max_distance = 40, .chunks = 4},
};
#define SCHEMES (sizeof schemes / sizeof schemes[0])

typedef struct record {
    uint8_t value[VALUE_MAX];
    size_t size;
    int64_t group_id;
    int64_t keys[KEYS_MAX];
    size_t key_count;
} record;

static record records[COUNT];

static int is_set(const nd_scheme *scheme)
{
    return scheme->kind == ND_SCHEME_BOTTOMK || scheme->evidence == ND_EVIDENCE_PACKED;
}

/* The fewer `kinds`, the more are alike. All sets have a hash in common, and signatures of one band their first slots. */
static void draw_value(const nd_scheme *scheme, size_t kinds, record *out)
{
    if (below(20) == 0) {
        out->size = 0;
    } else if (is_set(scheme)) {
        uint64_t hashes[8] = {0};
        const size_t count = 1 + below(8);
        for (size_t i = 1; i < count; i++)
            hashes[i] = (1 + below(4 + 6 * kinds)) << 24;
        const size_t distinct = nd_sort_distinct(hashes, count);
        out->size = scheme->evidence == ND_EVIDENCE_PACKED ? nd_set_size(distinct) : distinct * sizeof hashes[0];
        if (scheme->evidence == ND_EVIDENCE_PACKED)
            nd_set_write(hashes, distinct, out->value);
        else
            memcpy(out->value, hashes, out->size);
    } else if (scheme->kind == ND_SCHEME_MINHASH) {
        uint16_t slots[12], kind = (uint16_t)below(kinds);
        for (size_t i = 0; i < 12; i++)
            slots[i] = below(3) > 0 ? kind : (uint16_t)below(300);
        if (scheme->bands == 1)
            memset(slots, 0, 2 * sizeof slots[0]);
        out->size = sizeof slots;
        memcpy(out->value, slots, out->size);
    } else {
        out->size = 8;
        memset(out->value, (int)(37 * below(kinds)), out->size);
        for (size_t i = below(9); i > 0; i--)
            out->value[below(8)] ^= (uint8_t)(1u << below(8));
    }
}

static void note_keys(const nd_scheme *scheme, nd_keys *keys, record *out)
{
    out->key_count = 0;
    if (out->size == 0 || scheme->plan != ND_PLAN_BANDS)
        return;
    CHECK(nd_scheme_file_keys(scheme, 0, out->value, out->size, keys) == ND_OK);
    out->key_count = keys->count;
    for (size_t i = 0; i < out->key_count; i++)
        out->keys[i] = keys->rows[i].low;
}

/* Only a plan of bands leaves out pairs that match by the rule. */
static int meet(const nd_scheme *scheme, const record *a, const record *b)
{
    if (scheme->plan != ND_PLAN_BANDS)
        return 1;
    for (size_t i = 0; i < a->key_count; i++)
        for (size_t j = 0; j < b->key_count; j++)
            if (a->keys[i] == b->keys[j])
                return 1;
    return 0;
}

static int match(const nd_scheme *scheme, const record *a, const record *b, double *similarity)
{
    int64_t distance;
    if (a->size == 0 || b->size == 0 || a->group_id != b->group_id || !meet(scheme, a, b))
        return 0;
    CHECK(nd_scheme_similarity(scheme, a->value, a->size, b->value, b->size, similarity, &distance) == ND_OK);
    return distance >= 0 ? distance <= scheme->max_distance : *similarity >= scheme->threshold;
}

static void brute_force(const nd_scheme *scheme, size_t count, int64_t *kept, double *similarities)
{
    for (size_t i = 0; i < count; i++) {
        double similarity;
        kept[i] = -1;
        similarities[i] = 1.0;
        for (size_t j = 0; j < i; j++)
            if (kept[j] == -1 && match(scheme, &records[i], &records[j], &similarity) &&
                (kept[i] == -1 || similarity > similarities[i])) {
                kept[i] = (int64_t)j;
                similarities[i] = similarity;
            }
    }
}

/* Adds the records in parts of any size. */
static void run(const nd_scheme *scheme, size_t count, int grouped, int64_t *kept, double *similarities)
{
    nd_deduplicator *deduplicator;
    CHECK((deduplicator = nd_deduplicator_new(scheme)) != NULL);
    for (size_t first = 0, some; first < count; first += some) {
        uint64_t ends[COUNT];
        int64_t groups[COUNT];
        size_t size = 0;
        some = 1 + below(count - first);
        for (size_t i = 0; i < some; i++) {
            size += records[first + i].size;
            ends[i] = size;
            groups[i] = records[first + i].group_id;
        }
        uint8_t *data = room_for(size, 1), *at = data;
        for (size_t i = 0; i < some; i++) {
            memcpy(at, records[first + i].value, records[first + i].size);
            at += records[first + i].size;
        }
        CHECK(nd_deduplicator_add(deduplicator, data, ends, some, grouped ? groups : NULL, kept + first, similarities + first) ==
              ND_OK);
        free(data);
    }
    nd_deduplicator_free(deduplicator);
}

static void test_scheme(const nd_scheme *scheme, size_t count, size_t kinds, int grouped)
{
    static int64_t kept[COUNT], expected[COUNT];
    static double similarities[COUNT], expected_similarities[COUNT];
    nd_keys *keys = nd_keys_new();
    CHECK(keys != NULL);
    for (size_t i = 0; i < count; i++) {
        draw_value(scheme, kinds, &records[i]);
        records[i].group_id = grouped ? (int64_t)below(4) : 0;
        note_keys(scheme, keys, &records[i]);
    }
    nd_keys_free(keys);
    brute_force(scheme, count, expected, expected_similarities);
    run(scheme, count, grouped, kept, similarities);
    for (size_t i = 0; i < count; i++) {
        CHECK(kept[i] == expected[i]);
        CHECK(similarities[i] >= expected_similarities[i] && similarities[i] <= expected_similarities[i]);
    }
}

static void test_refusals(void)
{
    nd_scheme scheme = schemes[0];
    nd_deduplicator *deduplicator;
    const uint8_t value[3] = {0};
    const uint64_t ends[] = {3}, descending[] = {2, 1};
    int64_t kept[2];
    double similarities[2];
    CHECK((deduplicator = nd_deduplicator_new(&scheme)) != NULL);
    CHECK(nd_deduplicator_add(deduplicator, value, ends, 1, NULL, kept, similarities) == ND_ERROR_DAMAGED);
    CHECK(nd_deduplicator_add(deduplicator, value, descending + 1, 0, NULL, kept, similarities) == ND_OK);
    nd_deduplicator_free(deduplicator);
}

int main(void)
{
    for (size_t s = 0; s < SCHEMES; s++)
        for (int round = 0; round < 40; round++)
            test_scheme(&schemes[s], 1 + below(round % 4 == 0 ? COUNT : 60), 1 + below(12), round % 3 == 0);
    test_refusals();
    return 0;
}
