/* test_packing.c: the rows of a bucket hold what was filed there less what was taken out, in its order, and no row is too large; rows
 * of keys come in the order of their table. */
#include "check.h"
#include "neardup_buckets.h"

#define CODE 8
#define MOST 2000

typedef struct bucket {
    int64_t ids[MOST];
    size_t count, rows;
    int64_t last; /* number of the last row */
} bucket;

static void add(nd_packing *packing, int64_t id)
{
    uint8_t code[CODE];
    memcpy(code, &id, sizeof code);
    CHECK(nd_packing_add(packing, id, code) == ND_OK);
}

/* Reads the rows that are left; `gone`: how many go. */
static void read_rows(nd_packing *packing, bucket *into, size_t *gone)
{
    nd_packed row;
    nd_entries entries;
    *into = (bucket){.last = -1};
    *gone = 0;
    while (nd_packing_next(packing, &row) == ND_OK) {
        if (row.entries == NULL) {
            ++*gone;
            continue;
        }
        CHECK(nd_entries_read(row.entries, row.size, CODE, &entries) == ND_OK);
        CHECK(row.size <= ND_PART_BYTES || entries.count == 1);
        for (size_t i = 0; i < entries.count; i++, into->count++) {
            into->ids[into->count] = nd_entries_id(&entries, i);
            CHECK(memcmp(entries.codes + i * CODE, &into->ids[into->count], CODE) == 0);
        }
        into->rows++;
        into->last = row.id;
    }
}

static void check_filing(nd_packing *packing, size_t count, int64_t step)
{
    static bucket found;
    size_t gone;
    nd_bucket_room room = {100, 0};
    nd_packing_begin(packing, CODE);
    for (int64_t group = 0; group < 2; group++) {
        nd_packing_begin_group(packing);
        for (size_t i = 0; i < count; i++)
            add(packing, (group * MOST + (int64_t)i) * step);
        CHECK(nd_packing_count(packing) == count);
        CHECK(nd_packing_file(packing, group, -1, 0, 5000, &room) == ND_OK);
    }
    CHECK(room.taken == (count > 0));
    read_rows(packing, &found, &gone);
    CHECK(found.count == 2 * count && gone == 0);
    for (size_t i = 0; i < found.count; i++)
        CHECK(found.ids[i] == (int64_t)(i < count ? i : MOST + i - count) * step);
    CHECK(count == 0 || found.last == room.part - 1); /* of the second group: the bucket's last number is the first's */
}

/* Of `parts` parts of `size` entries each, every keep-th entry stays. */
static void check_taking_out(nd_packing *packing, size_t parts, size_t size, size_t keep)
{
    static bucket found;
    size_t kept = 0, gone;
    nd_packing_begin(packing, CODE);
    for (size_t part = 0; part < parts; part++) {
        for (size_t i = 0; i < size; i++)
            if ((part * size + i) % keep == 0) {
                add(packing, (int64_t)(part * size + i));
                kept++;
            }
        CHECK(nd_packing_keep(packing, (int64_t)part, 7, size) == ND_OK);
    }
    nd_packing_take_out(packing);
    read_rows(packing, &found, &gone);
    if (keep == 1) {
        CHECK(found.rows == 0 && gone == 0); /* nothing changed */
        return;
    }
    CHECK(found.count == kept && found.rows + gone == parts);
    for (size_t i = 0; i < kept; i++)
        CHECK(found.ids[i] == (int64_t)(i * keep));
    CHECK(found.last == (int64_t)parts - 1); /* the last number stays the last */
}

/* Rows of keys come by key, group and item, whatever many of them have in common. */
static void check_order(size_t kinds, unsigned shift, size_t groups)
{
    const nd_scheme scheme = {.kind = ND_SCHEME_MINHASH, .plan = ND_PLAN_BANDS, .bands = 1};
    nd_filing *filing = nd_filing_new();
    nd_filed row, before = {.low = INT64_MIN, .group_id = INT64_MIN};
    size_t count = 0;
    CHECK(filing != NULL);
    nd_filing_begin(filing, &scheme, 0);
    for (int64_t id = 0; id < MOST; id++) {
        const int64_t key = (int64_t)((draw() % kinds - kinds / 2) << shift);
        CHECK(nd_filing_add_keys(filing, (int64_t)(draw() % groups), id, &key, 1) == ND_OK);
    }
    CHECK(nd_filing_sort(filing) == ND_OK);
    for (; nd_filing_next(filing, &row) == ND_OK; before = row, count++)
        CHECK(row.low > before.low || (row.low == before.low && (row.group_id > before.group_id ||
                                                                    (row.group_id == before.group_id && row.id > before.id))));
    CHECK(count == MOST);
    nd_filing_free(filing);
}

int main(void)
{
    for (unsigned shift = 0; shift < 64; shift += 7)
        for (size_t kinds = 1; kinds < 100000; kinds *= 9)
            check_order(kinds, shift, 1 + shift % 3);
    nd_packing *packing = nd_packing_new();
    nd_bucket_room room = {10, 1};
    CHECK(packing != NULL);
    for (size_t count = 0; count < 900; count += 1 + count / 3)
        for (int64_t step = 1; step < (int64_t)1 << 40; step <<= 13)
            check_filing(packing, count, step);
    for (size_t keep = 1; keep < 12; keep++)
        check_taking_out(packing, 6, 5, keep);
    nd_packing_begin(packing, CODE);
    add(packing, 1);
    CHECK(nd_packing_file(packing, 0, -1, 0, 10, &room) == ND_ERROR_CAPACITY);
    nd_packing_free(packing);
    return 0;
}
