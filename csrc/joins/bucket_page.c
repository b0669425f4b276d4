/* bucket_page.c: the fingerprints of a page, and the bytes that are compared. */
#include <stdlib.h>

#include "joins/bucket_run.h"

#define PROBE_BYTES ((size_t)64) /* what one probe of a listed page takes, sorting included */

nd_bucket_item *nd_bucket_find_item(const nd_bucket_join *join, int64_t id)
{
    size_t low = 0, high = join->items.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (join->items.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < join->items.count && join->items.at[low].id == id ? &join->items.at[low] : NULL;
}

static int add_item(nd_bucket_join *join, int64_t id)
{
    ND_TRY(ND_ROOM(join->items, join->items.count + 1));
    nd_bucket_item *item = &join->items.at[join->items.count++];
    *item = (nd_bucket_item){.id = id, .visible = 1};
    return join->mode == ND_BUCKETS_CONNECT ? join->reader.is_visible(join->reader.context, id, &item->visible) : ND_OK;
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

int nd_bucket_load(nd_bucket_join *join, nd_bucket_item *item)
{
    const uint8_t *bytes;
    size_t size;
    if (item->loaded)
        return ND_OK;
    ND_TRY(join->reader.read_value(join->reader.context, item->id, &bytes, &size));
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

int nd_bucket_join_add(nd_bucket_join *join, int64_t id, int64_t group_id, const uint8_t *value, size_t value_size,
    const uint8_t *bytes, size_t size)
{
    ND_TRY(nd_filing_add(join->probes, group_id, id, 0, value, value_size));
    ND_TRY(add_item(join, id));
    return put_bytes(join, &join->items.at[join->items.count - 1], bytes, size);
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

void nd_bucket_join_begin_rows(nd_bucket_join *join, int64_t first_id, int64_t last_id)
{
    const size_t each = join->scheme.plan == ND_PLAN_BANDS ? (size_t)join->scheme.bands : 1;
    int64_t most = (int64_t)(ND_PAGE_BYTES / (PROBE_BYTES * each));
    most = most < (int64_t)ND_PAGE_ITEMS ? most : (int64_t)ND_PAGE_ITEMS;
    nd_bucket_join_begin(join);
    join->listed = 1;
    join->rows.first_id = first_id;
    join->rows.last_id = last_id - first_id >= most ? first_id + most - 1 : last_id;
    join->rows.next_id = last_id + 1;
    join->rows.rows = join->rows.ids.count = join->rows.all.count = 0;
}

/* A fingerprint that is alone in a bucket has nothing to ask there. Rows come by crowd and id, probes go by id. */
static int end_bucket(nd_bucket_join *join)
{
    const size_t count = join->rows.rows > 1 ? nd_sort_distinct(join->rows.ids.at, join->rows.ids.count) : 0;
    ND_TRY(ND_ROOM(join->rows.all, join->rows.all.count + count));
    for (size_t i = 0; i < count; i++) {
        const uint64_t id = join->rows.ids.at[i];
        ND_TRY(nd_filing_add_keys(join->probes, join->rows.group_id, (int64_t)id, 0, &join->rows.key, 1));
        join->rows.all.at[join->rows.all.count++] = id;
    }
    join->rows.rows = join->rows.ids.count = 0;
    const int is_full = join->rows.last_id > join->rows.first_id && nd_filing_memory(join->probes) >= ND_PAGE_BYTES;
    return is_full ? ND_ERROR_CAPACITY : ND_OK;
}

int nd_bucket_join_add_row(nd_bucket_join *join, int64_t group_id, int64_t key, int64_t id)
{
    if (key != join->rows.key || group_id != join->rows.group_id)
        ND_TRY(end_bucket(join));
    join->rows.key = key;
    join->rows.group_id = group_id;
    join->rows.rows++;
    if (id > join->rows.last_id && id < join->rows.next_id)
        join->rows.next_id = id;
    if (id < join->rows.first_id || id > join->rows.last_id)
        return ND_OK;
    ND_TRY(ND_ROOM(join->rows.ids, join->rows.ids.count + 1));
    join->rows.ids.at[join->rows.ids.count++] = (uint64_t)id;
    return ND_OK;
}

int nd_bucket_join_end_rows(nd_bucket_join *join, int64_t *next_id)
{
    ND_TRY(end_bucket(join));
    const size_t count = nd_sort_distinct(join->rows.all.at, join->rows.all.count);
    for (size_t i = 0; i < count; i++)
        ND_TRY(add_item(join, (int64_t)join->rows.all.at[i]));
    *next_id = join->rows.next_id;
    return ND_OK;
}

static size_t kept_place(const nd_bucket_join *join, int64_t id)
{
    size_t place = (size_t)((uint64_t)id * 0x9E3779B97F4A7C15u >> 40) & (ND_KEPT_MAX - 1);
    while (join->kept.at[place].id >= 0 && join->kept.at[place].id != id)
        place = (place + 1) & (ND_KEPT_MAX - 1);
    return place;
}

static void forget_kept(nd_bucket_join *join)
{
    for (size_t i = 0; i < ND_KEPT_MAX; i++)
        join->kept.at[i].id = -1;
    join->kept.used = join->kept.count = 0;
}

static int begin_keeping(nd_bucket_join *join)
{
    if (join->kept.arena != NULL)
        return ND_OK;
    free(join->kept.at); /* of a beginning that failed */
    join->kept.at = malloc(ND_KEPT_MAX * sizeof *join->kept.at);
    join->kept.arena = malloc(ND_KEPT_BYTES);
    if (join->kept.at == NULL || join->kept.arena == NULL)
        return ND_ERROR_MEMORY;
    forget_kept(join);
    return ND_OK;
}

static int keep_value(nd_bucket_join *join, int64_t id, const uint8_t **bytes, size_t *size)
{
    ND_TRY(begin_keeping(join));
    size_t place = kept_place(join, id);
    if (join->kept.at[place].id == id) {
        *bytes = join->kept.arena + join->kept.at[place].offset;
        *size = join->kept.at[place].size;
        return ND_OK;
    }
    ND_TRY(join->reader.read_value(join->reader.context, id, bytes, size));
    if (*size + 8 > ND_KEPT_BYTES)
        return ND_OK;
    if (join->kept.used + *size + 8 > ND_KEPT_BYTES || 2 * (join->kept.count + 1) > ND_KEPT_MAX) {
        forget_kept(join);
        place = kept_place(join, id);
    }
    join->kept.at[place] = (nd_bucket_kept){id, join->kept.used, *size};
    if (*size > 0)
        memcpy(join->kept.arena + join->kept.used, *bytes, *size);
    *bytes = join->kept.arena + join->kept.used;
    join->kept.used += (*size + 7) / 8 * 8;
    join->kept.count++;
    return ND_OK;
}

int nd_bucket_read(nd_bucket_join *join, int64_t id, int keep, nd_compared *out)
{
    const nd_bucket_item *item = join->mode == ND_BUCKETS_FOREIGN ? NULL : nd_bucket_find_item(join, id);
    if (item != NULL && item->loaded)
        *out = nd_bucket_compared(join, item);
    else
        out->id = id;
    if (item != NULL && item->loaded)
        return ND_OK;
    return keep ? keep_value(join, id, &out->bytes, &out->size)
                : join->reader.read_value(join->reader.context, id, &out->bytes, &out->size);
}

void nd_bucket_free_page(nd_bucket_join *join)
{
    free(join->items.at);
    free(join->arena.at);
    nd_filing_free(join->probes);
    free(join->rows.ids.at);
    free(join->rows.all.at);
    free(join->kept.at);
    free(join->kept.arena);
    nd_verifier_release(&join->verifier);
}
