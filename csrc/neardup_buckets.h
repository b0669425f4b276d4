/* neardup_buckets.h: rows of entries that are looked at one after another, and rows that change, for the SQLite extension alone. */
#ifndef NEARDUP_BUCKETS_H
#define NEARDUP_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

#ifndef ND_OK
#include "neardup_abi.h"
#endif

/* The added entries nearest to a code: all within the smallest distance that holds `wanted` of them, including all ties at that
 * distance; every entry if there are no more. Memory for at most twice as many. */
typedef struct nd_nearest nd_nearest;
typedef struct nd_nearest_entry {
    int64_t id;
    uint64_t distance;
} nd_nearest_entry;
nd_nearest *nd_nearest_new(void);
void nd_nearest_free(nd_nearest *nearest);
/* Forgets all entries. code_size: 1 to ND_BITS_MAX / 8, else ND_ERROR_PARAMETER. */
int nd_nearest_begin(nd_nearest *nearest, const uint8_t *code, size_t code_size, uint64_t wanted);
/* Entries of codes of that size. */
int nd_nearest_add(nd_nearest *nearest, const nd_entries *entries);
/* In no order; valid until the next addition. Returns how many. */
size_t nd_nearest_entries(nd_nearest *nearest, const nd_nearest_entry **out);

/* Builds the changed rows of a bucket from the entries of one group after another, each in the order of their ids. */
typedef struct nd_packing nd_packing;
typedef struct nd_packed {
    int64_t id;
    int64_t group_id;
    const uint8_t *entries; /* valid until the next row; NULL: delete the row */
    size_t size;
} nd_packed;
/* Free part numbers of a bucket. */
typedef struct nd_bucket_room {
    int64_t part; /* no part but the last one has this number or a higher one */
    int taken;    /* 1: a group's latest entries have the last number */
} nd_bucket_room;
nd_packing *nd_packing_new(void);
void nd_packing_free(nd_packing *packing);
/* Another bucket, then another group of it; a bucket begins with a group. */
void nd_packing_begin(nd_packing *packing, size_t code_size);
void nd_packing_begin_group(nd_packing *packing);
int nd_packing_add(nd_packing *packing, int64_t id, const uint8_t *code);
size_t nd_packing_count(const nd_packing *packing); /* entries of the group so far */
int nd_packing_fits(const nd_packing *packing);     /* 1 if one row holds them */
/* Filing: the first `held` entries come from the group's part `last` (-1: none); entries that do not fit there go into new
 * parts. The last new part gets `high`, the bucket's last number, unless another group has it: most buckets have only this
 * part, which is found by its number alone. ND_ERROR_CAPACITY if no number is free. */
int nd_packing_file(nd_packing *packing, int64_t group_id, int64_t last, size_t held, int64_t high, nd_bucket_room *room);
/* Removal: part `id` with `held` entries keeps the entries added since the previous part. After the last part, all entries are
 * repacked if they fit into half as many rows. */
int nd_packing_keep(nd_packing *packing, int64_t id, int64_t group_id, size_t held);
void nd_packing_take_out(nd_packing *packing);
/* Gives row after row, then ND_DONE. */
int nd_packing_next(nd_packing *packing, nd_packed *out);

#endif
