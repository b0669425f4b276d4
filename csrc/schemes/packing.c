/* packing.c: which entries stand in which rows of a bucket, when fingerprints are filed there or taken out. */
#include <stdlib.h>

#include "neardup_buckets.h"
#include "schemes/schemes.h"

/* A row that changes: entries from `first` to `end`; none = it goes. */
typedef struct packed_row {
    int64_t id;
    int64_t group_id;
    size_t first, end;
    int changed;
} packed_row;

struct nd_packing {
    size_t code_size;
    ND_LIST(int64_t) ids; /* of the entries; their codes are as many */
    ND_LIST(uint8_t) codes;
    ND_LIST(packed_row) rows;
    size_t row;              /* the next to be given out */
    ND_LIST(uint8_t) bytes;  /* entries of the row that was given out */
    size_t first, first_row; /* of the present group */
};

nd_packing *nd_packing_new(void)
{
    return calloc(1, sizeof(nd_packing));
}

void nd_packing_free(nd_packing *packing)
{
    if (packing == NULL)
        return;
    free(packing->ids.at);
    free(packing->codes.at);
    free(packing->rows.at);
    free(packing->bytes.at);
    free(packing);
}

void nd_packing_begin(nd_packing *packing, size_t code_size)
{
    packing->code_size = code_size;
    packing->ids.count = packing->row = packing->rows.count = 0;
    nd_packing_begin_group(packing);
}

void nd_packing_begin_group(nd_packing *packing)
{
    packing->first = packing->ids.count;
    packing->first_row = packing->rows.count;
}

int nd_packing_add(nd_packing *packing, int64_t id, const uint8_t *code)
{
    ND_TRY(ND_ROOM(packing->ids, packing->ids.count + 1));
    ND_TRY(ND_ROOM(packing->codes, (packing->ids.count + 1) * packing->code_size));
    memcpy(packing->codes.at + packing->ids.count * packing->code_size, code, packing->code_size);
    packing->ids.at[packing->ids.count++] = id;
    return ND_OK;
}

size_t nd_packing_count(const nd_packing *packing)
{
    return packing->ids.count - packing->first;
}

/* Where the row ends that holds the entries from `first` on as far as they fit. */
static size_t row_end(const nd_packing *packing, size_t first)
{
    size_t left = packing->ids.count - first, count = left < ND_PART_BYTES ? left : ND_PART_BYTES;
    size_t size = nd_entries_size(packing->ids.at + first, count, packing->code_size);
    if (size <= ND_PART_BYTES)
        return first + count;
    size_t head = nd_entries_size(NULL, 0, packing->code_size);
    size_t most = (ND_PART_BYTES - head) / ((size - head) / count); /* as if every id were as wide as the widest */
    return first + (most == 0 ? 1 : most);
}

int nd_packing_fits(const nd_packing *packing)
{
    return row_end(packing, packing->first) == packing->ids.count;
}

static int add_row(nd_packing *packing, packed_row row)
{
    return ND_PUSH(packing->rows, row);
}

int nd_packing_file(nd_packing *packing, int64_t group_id, int64_t last, size_t held, int64_t high, nd_bucket_room *room)
{
    for (size_t first = packing->first, end; first < packing->ids.count; first = end, held = 0, last = -1) {
        end = row_end(packing, first);
        if (last >= 0 && end <= first + held) { /* it is full */
            end = first + held;
            continue;
        }
        if (last < 0 && end == packing->ids.count && !room->taken) {
            last = high;
            room->taken = 1;
        } else if (last < 0) {
            last = room->part++;
            if (last >= high)
                return ND_ERROR_CAPACITY;
        }
        ND_TRY(add_row(packing, (packed_row){last, group_id, first, end, 1}));
    }
    return ND_OK;
}

int nd_packing_keep(nd_packing *packing, int64_t id, int64_t group_id, size_t held)
{
    size_t first = packing->rows.count > packing->first_row ? packing->rows.at[packing->rows.count - 1].end : packing->first;
    return add_row(packing, (packed_row){id, group_id, first, packing->ids.count, packing->ids.count - first != held});
}

/* Writes the entries of the group, which fill `needed` rows, into the last of its rows; the others go. */
static void repack(nd_packing *packing, size_t needed)
{
    size_t first = packing->first;
    for (size_t row = packing->first_row; row < packing->rows.count; row++) {
        packing->rows.at[row].first = first;
        if (packing->rows.count - row <= needed)
            first = row_end(packing, first);
        packing->rows.at[row].end = first;
        packing->rows.at[row].changed = 1;
    }
}

void nd_packing_take_out(nd_packing *packing)
{
    size_t needed = 0, changed = 0, kept = packing->first_row;
    for (size_t at = packing->first; at < packing->ids.count; needed++)
        at = row_end(packing, at);
    for (size_t row = packing->first_row; row < packing->rows.count; row++)
        changed += (size_t)packing->rows.at[row].changed;
    if (changed > 0 && 2 * needed <= packing->rows.count - packing->first_row)
        repack(packing, needed);
    for (size_t row = packing->first_row; row < packing->rows.count; row++)
        if (packing->rows.at[row].changed)
            packing->rows.at[kept++] = packing->rows.at[row];
    packing->rows.count = kept;
}

int nd_packing_next(nd_packing *packing, nd_packed *out)
{
    if (packing->row == packing->rows.count)
        return ND_DONE;
    const packed_row *row = &packing->rows.at[packing->row];
    size_t count = row->end - row->first;
    *out = (nd_packed){.id = row->id, .group_id = row->group_id};
    if (count > 0) {
        out->size = nd_entries_size(packing->ids.at + row->first, count, packing->code_size);
        ND_TRY(ND_ROOM(packing->bytes, out->size));
        const uint8_t *codes = packing->codes.at + row->first * packing->code_size;
        nd_entries_write(packing->ids.at + row->first, codes, count, packing->code_size, packing->bytes.at);
        out->entries = packing->bytes.at;
    }
    packing->row++;
    return ND_OK;
}
