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
    ND_LIST(filed_item) items;
    ND_LIST(uint8_t) values; /* value_size each */
    size_t value_size;
    ND_LIST(nd_short_record) records; /* the key and its item */
    ND_LIST(nd_short_record) other;   /* room to sort them */
    uint64_t span;                    /* high - low, the same for all keys */
    nd_short_record *sorted;
    size_t place;
    size_t table; /* the present table */
    nd_keys *keys;
};

/* Items are read in the order of their keys, which is none: so many keys before their turn they are called for. */
enum { AHEAD = 8 };

static const uint64_t sign_bit = (uint64_t)1 << 63;

static nd_short_record record_of(int64_t key, size_t item)
{
    const uint64_t bits = (uint64_t)key ^ sign_bit;
    return (nd_short_record){(uint32_t)bits, (uint32_t)(bits >> 32), (uint32_t)item};
}

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
    free(filing->items.at);
    free(filing->values.at);
    free(filing->records.at);
    free(filing->other.at);
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
    filing->items.count = filing->records.count = 0;
    filing->span = 0;
    filing->sorted = NULL;
}

/* Appends the keys of a value in tables first_table to end_table - 1 to the records. */
static int append_keys(nd_filing *filing, int64_t group_id, const uint8_t *value, size_t size, size_t item, size_t first_table,
    size_t end_table)
{
    ND_TRY(nd_scheme_table_keys(&filing->scheme, group_id, value, size, filing->probing, first_table, end_table, filing->keys));
    const size_t count = filing->keys->count;
    if (count == 0)
        return ND_OK;
    ND_TRY(ND_ROOM(filing->records, filing->records.count + count));
    const nd_key *keys = filing->keys->rows;
    nd_short_record *records = filing->records.at + filing->records.count;
    for (size_t i = 0; i < count; i++)
        records[i] = record_of(keys[i].low, item);
    filing->records.count += count;
    filing->span = (uint64_t)keys[0].high - (uint64_t)keys[0].low;
    return ND_OK;
}

static int room_for_item(nd_filing *filing)
{
    return filing->items.count >= UINT32_MAX ? ND_ERROR_CAPACITY : ND_ROOM(filing->items, filing->items.count + 1);
}

int nd_filing_add(nd_filing *filing, int64_t group_id, int64_t id, int64_t crowd, const uint8_t *value, size_t size)
{
    const size_t item = filing->items.count;
    ND_TRY(nd_scheme_value_check(&filing->scheme, value, size));
    ND_TRY(room_for_item(filing));
    if (filing->by_table) {
        ND_TRY(ND_ROOM(filing->values, (item + 1) * size));
        memcpy(filing->values.at + item * size, value, size);
    } else
        ND_TRY(append_keys(filing, group_id, value, size, item, 0, filing->tables));
    filing->items.at[filing->items.count++] = (filed_item){group_id, id, crowd};
    return ND_OK;
}

int nd_filing_add_keys(nd_filing *filing, int64_t group_id, int64_t id, const int64_t *keys, size_t count)
{
    if (filing->by_table)
        return ND_ERROR_PARAMETER;
    ND_TRY(room_for_item(filing));
    ND_TRY(ND_ROOM(filing->records, filing->records.count + count));
    for (size_t i = 0; i < count; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            filing->records.at[filing->records.count++] = record_of(keys[i], filing->items.count);
    filing->items.at[filing->items.count++] = (filed_item){group_id, id, 0};
    return ND_OK;
}

static int is_sorted_in_place(const nd_filing *filing)
{
    return !filing->by_table && filing->records.count > ND_SORT_ROOM;
}

size_t nd_filing_memory(const nd_filing *filing)
{
    size_t keys = filing->records.count, largest = 1;
    if (filing->by_table && filing->probing && filing->scheme.plan == ND_PLAN_CHUNKS)
        largest = (size_t)(nd_scheme_probe_count(&filing->scheme) / filing->tables + 1);
    if (filing->by_table)
        keys = filing->items.count * largest;
    if (!is_sorted_in_place(filing))
        keys *= 2;
    return filing->items.count * (sizeof(filed_item) + filing->value_size) + keys * sizeof(nd_short_record);
}

static int64_t group_of(const nd_filing *filing, size_t item)
{
    return filing->items.at[item].group_id;
}

/* The records ascending by key; those of one key in the order of their items. */
static int sort_records(nd_filing *filing)
{
    const size_t count = filing->records.count;
    filing->place = 0;
    filing->sorted = filing->records.at;
    if (is_sorted_in_place(filing)) {
        nd_sort_short_in_place(filing->records.at, count);
        return ND_OK;
    }
    const unsigned low = filing->by_table ? ND_PART_BITS : 0, high = filing->by_table ? ND_PART_BITS + ND_BUCKET_BITS : 64;
    ND_TRY(ND_ROOM(filing->other, count));
    filing->sorted = nd_sort_short_records(filing->records.at, filing->other.at, count, low, high);
    return ND_OK;
}

/* The items of each key, in the order of their groups. */
static void group_records(nd_filing *filing)
{
    nd_short_record *records = filing->sorted;
    for (size_t start = 0, end; start < filing->records.count; start = end) {
        const nd_short_record key = records[start];
        for (end = start; end < filing->records.count && nd_short_key(&records[end]) == nd_short_key(&key); end++)
            ;
        for (size_t i = start; i < end; i++)
            records[i] = record_of(group_of(filing, records[i].item), records[i].item);
        nd_sort_short_in_place(records + start, end - start);
        for (size_t i = start; i < end; i++)
            records[i] = (nd_short_record){key.low, key.high, records[i].item};
    }
}

static int has_several_groups(const nd_filing *filing)
{
    for (size_t i = 1; i < filing->items.count; i++)
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
    ND_TRY(ND_ROOM(filing->records, filing->items.count));
    const size_t prefix = nd_block_prefix_bits(bits, blocks, distance, places);
    nd_short_record *records = filing->records.at;
    for (size_t i = 0; i < filing->items.count; i++) {
        const uint64_t number = nd_block_number(scheme, nd_filing_code(filing, i), places, prefix);
        records[i] = record_of(nd_bucket_low(group_of(filing, i), filing->table, number, prefix), i);
    }
    filing->records.count = filing->items.count;
    filing->span = ((uint64_t)1 << ND_PART_BITS) - 1;
    return sort_records(filing);
}

/* The keys in the present table. */
static int make_table(nd_filing *filing)
{
    filing->records.count = 0;
    if (filing->scheme.plan == ND_PLAN_BLOCKS)
        return make_blocks(filing);
    for (size_t i = 0; i < filing->items.count; i++)
        ND_TRY(append_keys(filing, group_of(filing, i), nd_filing_code(filing, i), filing->value_size, i, filing->table,
            filing->table + 1));
    return sort_records(filing);
}

int nd_filing_sort(nd_filing *filing)
{
    if (!filing->by_table) {
        ND_TRY(sort_records(filing));
        if (has_several_groups(filing))
            group_records(filing);
        return ND_OK;
    }
    filing->records.count = filing->place = 0;
    filing->table = SIZE_MAX; /* none is present yet */
    return ND_OK;
}

int nd_filing_next(nd_filing *filing, nd_filed *out)
{
    while (filing->place >= filing->records.count) {
        if (!filing->by_table || filing->table + 1 >= filing->tables)
            return ND_DONE;
        filing->table++;
        ND_TRY(make_table(filing));
    }
    return nd_filing_at(filing, filing->place++, out);
}

int nd_filing_at(const nd_filing *filing, size_t place, nd_filed *out)
{
    if (place >= filing->records.count)
        return ND_DONE;
    const nd_short_record *record = &filing->sorted[place];
    if (place + AHEAD + 1 < filing->records.count)
        __builtin_prefetch(filing->items.at + record[AHEAD].item);
    const filed_item *item = filing->items.at + record->item;
    uint64_t low = nd_short_key(record) ^ sign_bit, high = low + filing->span;
    *out = (nd_filed){item->group_id, filing->by_table ? (int64_t)filing->table : 0, (int64_t)low, (int64_t)high, item->crowd,
        item->id, (size_t)record->item};
    return ND_OK;
}

const uint8_t *nd_filing_code(const nd_filing *filing, size_t item)
{
    return filing->values.at + item * filing->value_size;
}
