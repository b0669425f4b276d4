/* filing.c: the keys of many stored values in the order of their candidate table, so that a batch is written, or looked up, from
 * one end of the table to the other.
 *
 * They are made part by part, so that what is sorted at a time stays small: of codes, one group's keys in one table; of values
 * that have keys in one table only, and are much larger than these, all keys at once and no value is kept. */
#include <stdlib.h>

#include "internal.h"
#include "scheme.h"

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
    void *items; /* filed_item */
    size_t item_count, items_capacity;
    void *values; /* uint8_t, value_size each */
    size_t values_capacity, value_size;
    void *records[2]; /* nd_record: the key and, below, its item */
    size_t records_capacity[2];
    size_t record_count;
    void *wide; /* uint8_t: low and high of each record, where keys are byte strings; the record's item is then its number */
    size_t wide_capacity;
    void *wide_items; /* uint32_t */
    size_t wide_items_capacity;
    size_t key_size; /* of byte strings; 0 where keys are numbers */
    uint64_t span;   /* high - low, the same for all keys of a table */
    nd_record *sorted;
    size_t place;
    size_t first, last; /* items of the present group, of those in order */
    size_t table;       /* the present table */
    nd_record *order;   /* items by group, where there are several; owned by group_records */
    void *group_records[2];
    size_t group_capacity[2];
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
    free(filing->wide);
    free(filing->wide_items);
    for (int i = 0; i < 2; i++) {
        free(filing->records[i]);
        free(filing->group_records[i]);
    }
    nd_keys_free(filing->keys);
    free(filing);
}

void nd_filing_begin(nd_filing *filing, const nd_scheme *scheme, int probing)
{
    filing->scheme = *scheme;
    filing->probing = probing;
    filing->by_table = scheme->plan == ND_PLAN_BLOCKS || scheme->plan == ND_PLAN_CHUNKS;
    filing->tables = nd_scheme_table_count(scheme);
    filing->value_size = filing->by_table ? (size_t)scheme->bits / 8 : 0;
    filing->item_count = filing->record_count = filing->key_size = filing->span = 0;
    filing->sorted = NULL;
}

/* Appends the keys of a value in tables first_table to end_table - 1 to the records. */
static int append_keys(nd_filing *filing, const uint8_t *value, size_t size, size_t item, size_t first_table, size_t end_table)
{
    int status = nd_scheme_table_keys(&filing->scheme, value, size, filing->probing, first_table, end_table, filing->keys);
    size_t count = nd_keys_count(filing->keys);
    if (status == ND_OK && count > 0)
        status = nd_reserve(&filing->records[0], &filing->records_capacity[0], filing->record_count + count, sizeof(nd_record));
    if (status != ND_OK || count == 0)
        return status;
    const nd_key *keys = nd_keys_rows(filing->keys);
    nd_record *records = (nd_record *)filing->records[0] + filing->record_count;
    filing->key_size = keys[0].size;
    if (filing->key_size > 0) {
        size_t end = filing->record_count + count, wide = 2 * filing->key_size;
        status = nd_reserve(&filing->wide, &filing->wide_capacity, end * wide, 1);
        if (status == ND_OK)
            status = nd_reserve(&filing->wide_items, &filing->wide_items_capacity, end, sizeof(uint32_t));
        for (size_t i = 0; i < count && status == ND_OK; i++) {
            size_t number = filing->record_count + i;
            memcpy((uint8_t *)filing->wide + number * wide, nd_keys_bytes(filing->keys) + keys[i].offset, wide);
            ((uint32_t *)filing->wide_items)[number] = (uint32_t)item;
            records[i].item = number;
        }
    } else {
        for (size_t i = 0; i < count; i++)
            records[i] = (nd_record){(uint64_t)keys[i].low ^ sign_bit, item};
        filing->span = (uint64_t)keys[0].high - (uint64_t)keys[0].low;
    }
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
        status = append_keys(filing, value, size, filing->item_count, 0, filing->tables);
    if (status != ND_OK)
        return status;
    if (filing->by_table)
        memcpy((uint8_t *)filing->values + filing->item_count * size, value, size);
    ((filed_item *)filing->items)[filing->item_count++] = (filed_item){group_id, id, crowd};
    return ND_OK;
}

int nd_filing_add_keys(nd_filing *filing, int64_t group_id, int64_t id, int64_t crowd, const int64_t *keys, size_t count)
{
    if (filing->scheme.plan != ND_PLAN_BANDS && filing->scheme.plan != ND_PLAN_PREFIX)
        return ND_ERROR_PARAMETER;
    if (filing->item_count >= UINT32_MAX || count > SIZE_MAX - filing->record_count)
        return ND_ERROR_CAPACITY;
    int status = nd_reserve(&filing->items, &filing->items_capacity, filing->item_count + 1, sizeof(filed_item));
    if (status == ND_OK)
        status = nd_reserve(&filing->records[0], &filing->records_capacity[0], filing->record_count + count, sizeof(nd_record));
    if (status != ND_OK)
        return status;
    nd_record *records = (nd_record *)filing->records[0] + filing->record_count;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || keys[i] != keys[i - 1])
            records[kept++] = (nd_record){(uint64_t)keys[i] ^ sign_bit, filing->item_count};
    filing->record_count += kept;
    ((filed_item *)filing->items)[filing->item_count++] = (filed_item){group_id, id, crowd};
    return ND_OK;
}

size_t nd_filing_memory(const nd_filing *filing)
{
    size_t keys = filing->record_count, largest = 1;
    if (filing->by_table && filing->probing && filing->scheme.plan == ND_PLAN_CHUNKS)
        largest = (size_t)(nd_scheme_probe_count(&filing->scheme) / filing->tables + 1);
    if (filing->by_table)
        keys = filing->item_count * largest;
    return filing->item_count * (sizeof(filed_item) + filing->value_size) + keys * (2 * sizeof(nd_record) + 3 * filing->key_size);
}

/* ---- sorting --------------------------------------------------------------------------------------------------------------- */

static int64_t group_of(const nd_filing *filing, size_t item)
{
    return ((const filed_item *)filing->items)[item].group_id;
}

static size_t item_of(const nd_filing *filing, const nd_record *record)
{
    return filing->key_size > 0 ? ((const uint32_t *)filing->wide_items)[record->item] : (size_t)record->item;
}

/* The records ascending by key; of byte strings by their words, the last one first. */
static int sort_records(nd_filing *filing)
{
    size_t count = filing->record_count, words = filing->key_size > 0 ? (filing->key_size + 7) / 8 : 1;
    int status = nd_reserve(&filing->records[0], &filing->records_capacity[0], count + 1, sizeof(nd_record));
    if (status == ND_OK)
        status = nd_reserve(&filing->records[1], &filing->records_capacity[1], count + 1, sizeof(nd_record));
    if (status != ND_OK)
        return status;
    nd_record *order = filing->records[0], *other = filing->records[1];
    for (size_t word = words; word-- > 0;) {
        size_t begin = 8 * word, size = filing->key_size - begin < 8 ? filing->key_size - begin : 8;
        for (size_t i = 0; i < count && filing->key_size > 0; i++)
            order[i].key = nd_load_big((const uint8_t *)filing->wide + 2 * filing->key_size * order[i].item + begin, size);
        nd_record *sorted = nd_sort_records(order, other, count, 0, 64);
        other = sorted == order ? other : order;
        order = sorted;
    }
    filing->sorted = order;
    filing->place = 0;
    return ND_OK;
}

/* The items by group, stable, in filing->order. */
static int sort_items(nd_filing *filing)
{
    size_t count = filing->item_count;
    for (int i = 0; i < 2; i++)
        if (nd_reserve(&filing->group_records[i], &filing->group_capacity[i], count + 1, sizeof(nd_record)) != ND_OK)
            return ND_ERROR_MEMORY;
    nd_record *order = filing->group_records[0];
    for (size_t i = 0; i < count; i++)
        order[i] = (nd_record){(uint64_t)group_of(filing, i) ^ sign_bit, i};
    filing->order = nd_sort_records(order, filing->group_records[1], count, 0, 64);
    return ND_OK;
}

/* The records by group, stable: sorted by key after it, they have the group as second part of their key. */
static int group_records(nd_filing *filing)
{
    int status = nd_reserve(&filing->records[1], &filing->records_capacity[1], filing->record_count + 1, sizeof(nd_record));
    if (status != ND_OK)
        return status;
    status = sort_items(filing);
    if (status != ND_OK)
        return status;
    size_t *ranks = malloc((filing->item_count + 1) * sizeof *ranks);
    if (ranks == NULL)
        return ND_ERROR_MEMORY;
    const nd_record *order = filing->order;
    for (size_t i = 0; i < filing->item_count; i++)
        ranks[order[i].item] = i > 0 && order[i].key == order[i - 1].key ? ranks[order[i - 1].item] : i;
    /* Counting: where the records of a group begin is what its first item's rank counts up to. */
    size_t *starts = calloc(filing->item_count + 1, sizeof *starts);
    if (starts == NULL) {
        free(ranks);
        return ND_ERROR_MEMORY;
    }
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
    free(starts);
    filing->order = NULL;
    return ND_OK;
}

static int has_several_groups(const nd_filing *filing)
{
    for (size_t i = 1; i < filing->item_count; i++)
        if (group_of(filing, i) != group_of(filing, 0))
            return 1;
    return 0;
}

static size_t ordered(const nd_filing *filing, size_t place)
{
    return filing->order == NULL ? place : (size_t)filing->order[place].item;
}

/* append_keys for one table of blocks of codes up to 64 bits: where the blocks go is the same for all. */
static int make_narrow_blocks(nd_filing *filing)
{
    uint8_t places[256];
    const nd_scheme *scheme = &filing->scheme;
    size_t bits = (size_t)scheme->bits, blocks = (size_t)scheme->blocks, distance = (size_t)scheme->max_distance;
    size_t count = filing->last - filing->first;
    int status = nd_block_table(blocks, distance, filing->table, places);
    if (status == ND_OK)
        status = nd_reserve(&filing->records[0], &filing->records_capacity[0], count + 1, sizeof(nd_record));
    if (status != ND_OK)
        return status;
    size_t prefix = filing->probing ? nd_block_prefix_bits(bits, blocks, distance, places) : bits;
    filing->span = prefix == bits ? 0 : UINT64_MAX >> (64 - (bits - prefix));
    nd_record *records = filing->records[0];
    for (size_t i = 0; i < count; i++) {
        size_t item = ordered(filing, filing->first + i);
        uint64_t code = nd_load_big((const uint8_t *)filing->values + item * filing->value_size, filing->value_size);
        records[i] = (nd_record){(nd_permute_number(code, bits, blocks, places) & ~filing->span) ^ sign_bit, item};
    }
    filing->record_count = count;
    return sort_records(filing);
}

/* The keys of the present group in the present table. */
static int make_part(nd_filing *filing)
{
    filing->record_count = 0;
    if (filing->scheme.plan == ND_PLAN_BLOCKS && filing->scheme.bits <= 64)
        return make_narrow_blocks(filing);
    for (size_t i = filing->first; i < filing->last; i++) {
        size_t item = ordered(filing, i);
        const uint8_t *value = (const uint8_t *)filing->values + item * filing->value_size;
        int status = append_keys(filing, value, filing->value_size, item, filing->table, filing->table + 1);
        if (status != ND_OK)
            return status;
    }
    return sort_records(filing);
}

/* Goes on to the next group, and its first table; 0 where there is none. */
static int next_group(nd_filing *filing)
{
    filing->first = filing->last;
    if (filing->first >= filing->item_count)
        return 0;
    int64_t group_id = group_of(filing, ordered(filing, filing->first));
    while (filing->last < filing->item_count && group_of(filing, ordered(filing, filing->last)) == group_id)
        filing->last++;
    filing->table = 0;
    return 1;
}

int nd_filing_sort(nd_filing *filing)
{
    int status = ND_OK;
    filing->order = NULL;
    filing->first = filing->last = 0;
    if (!filing->by_table) {
        if (has_several_groups(filing))
            status = group_records(filing);
        return status == ND_OK ? sort_records(filing) : status;
    }
    filing->record_count = filing->place = 0;
    if (has_several_groups(filing))
        status = sort_items(filing);
    filing->table = filing->tables; /* no group is present yet */
    return status;
}

int nd_filing_next(nd_filing *filing, nd_filed *out)
{
    while (filing->place >= filing->record_count) {
        if (!filing->by_table)
            return ND_DONE;
        filing->table++;
        if (filing->table >= filing->tables && !next_group(filing))
            return ND_DONE;
        int status = make_part(filing);
        if (status != ND_OK)
            return status;
    }
    const nd_record *record = &filing->sorted[filing->place++];
    if (filing->place + AHEAD < filing->record_count && filing->key_size == 0)
        __builtin_prefetch((const filed_item *)filing->items + record[AHEAD].item);
    out->item = item_of(filing, record);
    const filed_item *item = (const filed_item *)filing->items + out->item;
    out->group_id = item->group_id;
    out->id = item->id;
    out->crowd = item->crowd;
    out->table_no = filing->by_table ? (int64_t)filing->table : 0;
    out->size = filing->key_size;
    if (out->size > 0) {
        out->bytes = (const uint8_t *)filing->wide + 2 * out->size * record->item;
        return ND_OK;
    }
    uint64_t low = record->key ^ sign_bit, high = low + filing->span;
    memcpy(&out->low, &low, sizeof low);
    memcpy(&out->high, &high, sizeof high);
    return ND_OK;
}
