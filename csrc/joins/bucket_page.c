/* bucket_page.c: the fingerprints of a page, and the bytes that are compared. */
#include <stdlib.h>

#include "joins/bucket_run.h"

nd_bucket_item *nd_bucket_find_item(const nd_bucket_join *join, int64_t id)
{
    size_t low = 0, high = join->items.count;
    if (join->listed)
        return id < join->rows.first_id || id > join->rows.last_id ? NULL : &join->items.at[id - join->rows.first_id];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (join->items.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < join->items.count && join->items.at[low].id == id ? &join->items.at[low] : NULL;
}

/* Bytes begin at multiples of 8. */
static int put_bytes(nd_bucket_join *join, nd_bucket_item *item, const uint8_t *bytes, size_t size)
{
    ND_TRY(ND_ROOM(join->arena, join->arena.count + size + 8));
    item->offset = join->arena.count;
    item->size = size;
    item->loaded = 1;
    if (size > 0)
        memcpy(join->arena.at + item->offset, bytes, size);
    join->arena.count += (size + 7) / 8 * 8;
    return ND_OK;
}

/* What is compared of a fingerprint, valid until the next call; a size of 0: it was deleted. */
static int read_value(nd_bucket_join *join, int64_t id, const uint8_t **bytes, size_t *size)
{
    int status = join->reader.read_value(join->reader.context, id, bytes, size);
    if (status == ND_OK && *size > 0)
        status = nd_read_value(&join->scheme, &join->numbers, bytes, size);
    return status == ND_ERROR_DAMAGED ? nd_bucket_note_damage(join, id) : status;
}

int nd_bucket_load(nd_bucket_join *join, nd_bucket_item *item)
{
    const uint8_t *bytes;
    size_t size;
    if (item->loaded)
        return ND_OK;
    ND_TRY(read_value(join, item->id, &bytes, &size));
    return put_bytes(join, item, bytes, size);
}

int nd_bucket_is_loaded_full(const nd_bucket_join *join)
{
    return join->listed && join->arena.count >= ND_PAGE_BYTES;
}

void nd_bucket_forget(nd_bucket_join *join)
{
    for (size_t i = 0; i < join->items.count; i++)
        join->items.at[i].loaded = 0;
    join->arena.count = 0;
}

int nd_bucket_take(nd_bucket_join *join, nd_bucket_item *item, nd_compared *out)
{
    if (nd_bucket_is_loaded_full(join))
        nd_bucket_forget(join);
    ND_TRY(nd_bucket_load(join, item));
    *out = nd_bucket_compared(join, item);
    return ND_OK;
}

void nd_bucket_join_begin(nd_bucket_join *join)
{
    join->items.count = join->arena.count = 0;
    join->listed = 0;
    nd_filing_begin(join->probes, &join->scheme, 1);
}

int nd_bucket_join_add(nd_bucket_join *join, int64_t id, int64_t group_id, const uint8_t *value, size_t size)
{
    int status = nd_filing_add(join->probes, group_id, id, 0, value, size);
    if (status == ND_OK)
        status = nd_unpack(&join->scheme, &join->numbers, &value, &size);
    if (status != ND_OK)
        return status == ND_ERROR_DAMAGED ? nd_bucket_note_damage(join, id) : status;
    ND_TRY(ND_ROOM(join->items, join->items.count + 1));
    nd_bucket_item *item = &join->items.at[join->items.count++];
    *item = (nd_bucket_item){.id = id, .visible = 1};
    if (join->mode == ND_BUCKETS_CONNECT)
        ND_TRY(nd_bucket_look(join, id, &item->visible));
    return put_bytes(join, item, value, size);
}

int nd_bucket_join_next_key(const nd_bucket_join *join, size_t *place, int64_t *key, int64_t *group_id)
{
    const int is_first = *place == 0;
    nd_filed probe;
    do
        ND_TRY(nd_filing_at(join->probes, (*place)++, &probe));
    while (!is_first && probe.low == *key && probe.group_id == *group_id);
    *key = probe.low;
    *group_id = probe.group_id;
    return ND_OK;
}

size_t nd_bucket_join_count(const nd_bucket_join *join)
{
    return join->items.count;
}

int nd_bucket_join_is_full(const nd_bucket_join *join)
{
    return nd_filing_memory(join->probes) + join->arena.count >= ND_PAGE_BYTES || join->items.count >= ND_PAGE_ITEMS;
}

/* Of two ids with one number in the table the older is read again. */
static int keep_value(nd_bucket_join *join, nd_compared *out)
{
    const uint32_t number = nd_newest_get(&join->kept.numbers, (uint64_t)out->id);
    uint32_t older;
    if (number != ND_NO_NUMBER && join->kept.values.at[number].id == out->id) {
        out->bytes = join->kept.arena.at + join->kept.values.at[number].offset;
        out->size = join->kept.values.at[number].size;
        return ND_OK;
    }
    ND_TRY(read_value(join, out->id, &out->bytes, &out->size));
    if (join->kept.arena.count + out->size > ND_KEPT_BYTES) {
        nd_newest_clear(&join->kept.numbers);
        join->kept.values.count = join->kept.arena.count = 0;
    }
    ND_TRY(ND_ROOM(join->kept.values, join->kept.values.count + 1));
    ND_TRY(ND_ROOM(join->kept.arena, join->kept.arena.count + out->size + 8));
    ND_TRY(nd_newest_put(&join->kept.numbers, (uint64_t)out->id, (uint32_t)join->kept.values.count, &older));
    uint8_t *kept = join->kept.arena.at + join->kept.arena.count;
    if (out->size > 0)
        memcpy(kept, out->bytes, out->size);
    out->bytes = kept;
    join->kept.values.at[join->kept.values.count++] = (nd_bucket_kept){out->id, join->kept.arena.count, out->size};
    join->kept.arena.count += (out->size + 7) / 8 * 8;
    return ND_OK;
}

int nd_bucket_read(nd_bucket_join *join, int64_t id, int keep, nd_compared *out)
{
    const nd_bucket_item *item = join->mode == ND_BUCKETS_FOREIGN ? NULL : nd_bucket_find_item(join, id);
    *out = item != NULL && item->loaded ? nd_bucket_compared(join, item) : (nd_compared){.id = id};
    if (out->bytes != NULL)
        return ND_OK;
    return keep ? keep_value(join, out) : read_value(join, id, &out->bytes, &out->size);
}
