/* filing.c: the keys of many stored values in the order of their candidate table, so that a batch is written, or looked up, from
 * one end of the table to the other.
 *
 * They are made part by part, so that what is sorted at a time stays small: of codes, the keys in one table; of values that have
 * keys in one table only, and are much larger than these, all keys at once and no value is kept. */
#include <stdlib.h>

#include "schemes/schemes.h"

typedef struct filed_item {
    int64_t group_id;
    int64_t id;
    int64_t crowd;
} filed_item;

struct nd_filing {
    nd_scheme scheme;
    int probing;
    int by_table; /* values are kept, and keys made table by table */
    size_t tables;
    filed_item *items;
    size_t item_count, items_capacity;
    uint8_t *values; /* value_size each */
    size_t values_capacity, value_size;
    nd_record *records[2]; /* the key and, below, its item */
    size_t records_capacity[2];
    size_t record_count;
    uint64_t span; /* high - low, the same for all keys */
    nd_record *sorted;
    size_t place;
    size_t table; /* the present table */
    nd_keys *keys;
};

/* Items are read in the order of their keys, which is none: so many keys before their turn they are called for. */
enum { AHEAD = 8 };

static const uint64_t sign_bit = (uint64_t)1 << 63;

nd_filing *nd_filing_new(void)
{
    nd_filing *filing = calloc(1, sizeof *filing);
    if (filing == NULL)
        return NULL;
    filing->keys = nd_keys_new();
    if (filing->keys == NULL) {
        free(filing);
        return NULL;
    }
    return filing;
}

void nd_filing_free(nd_filing *filing)
{
    if (filing == NULL)
        return;
    free(filing->items);
    free(filing->values);
    for (int i = 0; i < 2; i++)
        free(filing->records[i]);
    nd_keys_free(filing->keys);
    free(filing);
}

void nd_filing_begin(nd_filing *filing, const nd_scheme *scheme, int probing)
{
    filing->scheme = *scheme;
    filing->probing = probing;
    filing->by_table = nd_scheme_has_buckets(scheme);
    filing->tables = nd_scheme_table_count(scheme);
    filing->value_size = filing->by_table ? (size_t)scheme->bits / 8 : 0;
    filing->item_count = filing->record_count = 0;
    filing->span = 0;
    filing->sorted = NULL;
}

/* Appends the keys of a value in tables first_table to end_table - 1 to the records. */
static int append_keys(nd_filing *filing, int64_t group_id, const uint8_t *value, size_t size, size_t item, size_t first_table,
    size_t end_table)
{
    int status = nd_scheme_table_keys(&filing->scheme, group_id, value, size, filing->probing, first_table, end_table,
        filing->keys);
    size_t count = nd_keys_count(filing->keys);
    if (status == ND_OK && count > 0)
        status = nd_reserve(&filing->records[0], &filing->records_capacity[0], filing->record_count + count, sizeof(nd_record));
    if (status != ND_OK || count == 0)
        return status;
    const nd_key *keys = nd_keys_rows(filing->keys);
    nd_record *records = filing->records[0] + filing->record_count;
    for (size_t i = 0; i < count; i++)
        records[i] = (nd_record){(uint64_t)keys[i].low ^ sign_bit, item};
    filing->span = (uint64_t)keys[0].high - (uint64_t)keys[0].low;
    filing->record_count += count;
    return status;
}

int nd_filing_add(nd_filing *filing, int64_t group_id, int64_t id, int64_t crowd, const uint8_t *value, size_t size)
{
    int status = nd_scheme_value_check(&filing->scheme, value, size);
    if (status == ND_OK && filing->item_count >= UINT32_MAX)
        status = ND_ERROR_CAPACITY;
    if (status == ND_OK)
        status = nd_reserve(&filing->items, &filing->items_capacity, filing->item_count + 1, sizeof(filed_item));
    if (status == ND_OK && filing->by_table)
        status = nd_reserve(&filing->values, &filing->values_capacity, (filing->item_count + 1) * size, 1);
    else if (status == ND_OK)
        status = append_keys(filing, group_id, value, size, filing->item_count, 0, filing->tables);
    if (status != ND_OK)
        return status;
    if (filing->by_table)
        memcpy(filing->values + filing->item_count * size, value, size);
    filing->items[filing->item_count++] = (filed_item){group_id, id, crowd};
    return ND_OK;
}

int nd_filing_add_keys(nd_filing *filing, int64_t group_id, int64_t id, int64_t crowd, const int64_t *keys, size_t count)
{
    if (filing->by_table)
        return ND_ERROR_PARAMETER;
    if (filing->item_count >= UINT32_MAX || count > SIZE_MAX - filing->record_count)
        return ND_ERROR_CAPACITY;
    ND_TRY(nd_reserve(&filing->items, &filing->items_capacity, filing->item_count + 1, sizeof(filed_item)));
    ND_TRY(nd_reserve(&filing->records[0], &filing->records_capacity[0], filing->record_count + count, sizeof(nd_record)));
    nd_record *records = filing->records[0] + filing->record_count;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            records[kept++] = (nd_record){(uint64_t)keys[i] ^ sign_bit, filing->item_count};
    filing->record_count += kept;
    filing->items[filing->item_count++] = (filed_item){group_id, id, crowd};
    return ND_OK;
}

size_t nd_filing_memory(const nd_filing *filing)
{
    size_t keys = filing->record_count, largest = 1;
    if (filing->by_table && filing->probing && filing->scheme.plan == ND_PLAN_CHUNKS)
        largest = (size_t)(nd_scheme_probe_count(&filing->scheme) / filing->tables + 1);
    if (filing->by_table)
        keys = filing->item_count * largest;
    return filing->item_count * (sizeof(filed_item) + filing->value_size) + keys * 2 * sizeof(nd_record);
}

static int64_t group_of(const nd_filing *filing, size_t item)
{
    return filing->items[item].group_id;
}

/* The records ascending by key. */
static int sort_records(nd_filing *filing)
{
    size_t count = filing->record_count;
    ND_TRY(nd_reserve(&filing->records[0], &filing->records_capacity[0], count + 1, sizeof(nd_record)));
    ND_TRY(nd_reserve(&filing->records[1], &filing->records_capacity[1], count + 1, sizeof(nd_record)));
    unsigned low_bit = filing->by_table ? ND_PART_BITS : 0, high_bit = filing->by_table ? ND_PART_BITS + ND_BUCKET_BITS : 64;
    filing->sorted = nd_sort_records(filing->records[0], filing->records[1], count, low_bit, high_bit);
    filing->place = 0;
    return ND_OK;
}

/* ranks[i]: where the items of i's group begin when items are sorted by group. */
static int rank_groups(const nd_filing *filing, size_t *ranks)
{
    size_t count = filing->item_count;
    nd_record *records = malloc(2 * (count + 1) * sizeof *records);
    if (records == NULL)
        return ND_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        records[i] = (nd_record){(uint64_t)group_of(filing, i) ^ sign_bit, i};
    const nd_record *order = nd_sort_records(records, records + count, count, 0, 64);
    for (size_t i = 0; i < count; i++)
        ranks[order[i].item] = i > 0 && order[i].key == order[i - 1].key ? ranks[order[i - 1].item] : i;
    free(records);
    return ND_OK;
}

/* The records by group, stable: sorted by key after it, they have the group as second part of their key. */
static int group_records(nd_filing *filing)
{
    int status = nd_reserve(&filing->records[1], &filing->records_capacity[1], filing->record_count + 1, sizeof(nd_record));
    size_t *ranks = calloc(2 * filing->item_count + 2, sizeof *ranks),
           *starts = ranks == NULL ? NULL : ranks + filing->item_count;
    if (status == ND_OK)
        status = ranks == NULL ? ND_ERROR_MEMORY : rank_groups(filing, ranks);
    if (status != ND_OK) {
        free(ranks);
        return status;
    }
    /* Counting: where the records of a group begin is what its first item's rank counts up to. */
    const nd_record *records = filing->records[0];
    nd_record *grouped = filing->records[1];
    for (size_t i = 0; i < filing->record_count; i++)
        starts[ranks[records[i].item] + 1]++;
    for (size_t i = 0; i < filing->item_count; i++)
        starts[i + 1] += starts[i];
    for (size_t i = 0; i < filing->record_count; i++)
        grouped[starts[ranks[records[i].item]]++] = records[i];
    memcpy(filing->records[0], grouped, filing->record_count * sizeof(nd_record));
    free(ranks);
    return ND_OK;
}

static int has_several_groups(const nd_filing *filing)
{
    for (size_t i = 1; i < filing->item_count; i++)
        if (group_of(filing, i) != group_of(filing, 0))
            return 1;
    return 0;
}

/* append_keys for one block table: where the blocks go is the same for all. */
static int make_blocks(nd_filing *filing)
{
    uint8_t places[256];
    const nd_scheme *scheme = &filing->scheme;
    size_t bits = (size_t)scheme->bits, blocks = (size_t)scheme->blocks, distance = (size_t)scheme->max_distance;
    ND_TRY(nd_block_table(blocks, distance, filing->table, places));
    ND_TRY(nd_reserve(&filing->records[0], &filing->records_capacity[0], filing->item_count + 1, sizeof(nd_record)));
    const size_t prefix = nd_block_prefix_bits(bits, blocks, distance, places);
    nd_record *records = filing->records[0];
    for (size_t i = 0; i < filing->item_count; i++) {
        const uint64_t number = nd_block_number(scheme, nd_filing_code(filing, i), places, prefix);
        records[i] = (nd_record){(uint64_t)nd_bucket_low(group_of(filing, i), filing->table, number, prefix) ^ sign_bit, i};
    }
    filing->record_count = filing->item_count;
    filing->span = ((uint64_t)1 << ND_PART_BITS) - 1;
    return sort_records(filing);
}

/* The keys in the present table. */
static int make_table(nd_filing *filing)
{
    filing->record_count = 0;
    if (filing->scheme.plan == ND_PLAN_BLOCKS)
        return make_blocks(filing);
    for (size_t i = 0; i < filing->item_count; i++)
        ND_TRY(append_keys(filing, group_of(filing, i), nd_filing_code(filing, i), filing->value_size, i, filing->table,
            filing->table + 1));
    return sort_records(filing);
}

int nd_filing_sort(nd_filing *filing)
{
    if (!filing->by_table) {
        ND_TRY(has_several_groups(filing) ? group_records(filing) : ND_OK);
        return sort_records(filing);
    }
    filing->record_count = filing->place = 0;
    filing->table = SIZE_MAX; /* none is present yet */
    return ND_OK;
}

int nd_filing_next(nd_filing *filing, nd_filed *out)
{
    while (filing->place >= filing->record_count) {
        if (!filing->by_table || filing->table + 1 >= filing->tables)
            return ND_DONE;
        filing->table++;
        ND_TRY(make_table(filing));
    }
    return nd_filing_at(filing, filing->place++, out);
}

int nd_filing_at(const nd_filing *filing, size_t place, nd_filed *out)
{
    if (place >= filing->record_count)
        return ND_DONE;
    const nd_record *record = &filing->sorted[place];
    if (place + AHEAD + 1 < filing->record_count)
        __builtin_prefetch(filing->items + record[AHEAD].item);
    const filed_item *item = filing->items + record->item;
    uint64_t low = record->key ^ sign_bit, high = low + filing->span;
    *out = (nd_filed){item->group_id, item->id, item->crowd, filing->by_table ? (int64_t)filing->table : 0, (int64_t)low,
        (int64_t)high, (size_t)record->item};
    return ND_OK;
}

const uint8_t *nd_filing_code(const nd_filing *filing, size_t item)
{
    return filing->values + item * filing->value_size;
}
