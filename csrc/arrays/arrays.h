/* arrays.h: arrays in memory: growing, sorting, numbers at any address. */
#ifndef NEARDUP_ARRAYS_H
#define NEARDUP_ARRAYS_H

#include "core.h"

/* ---- growing ----------------------------------------------------------------------------------------------------------- */

int nd_grow(void *buffer, size_t *capacity, size_t needed, size_t item_size);

/* Makes the array behind *buffer, a pointer of any type, hold `needed` items at least, growing by half; keeps what it held.
 * ND_ERROR_MEMORY leaves it as it was. */
static inline int nd_reserve(void *buffer, size_t *capacity, size_t needed, size_t item_size)
{
    return needed <= *capacity ? ND_OK : nd_grow(buffer, capacity, needed, item_size);
}

/* A list that grows: ND_ROOM makes room for so many, ND_PUSH adds one. */
#define ND_LIST(type)                                                                                                            \
    struct {                                                                                                                     \
        type *at;                                                                                                                \
        size_t count, capacity;                                                                                                  \
    }
#define ND_ROOM(list, needed) nd_reserve(&(list).at, &(list).capacity, (needed), sizeof *(list).at)
#define ND_PUSH(list, item)                                                                                                      \
    (ND_ROOM(list, (list).count + 1) == ND_OK ? (void)((list).at[(list).count++] = (item)), ND_OK : ND_ERROR_MEMORY)

/* ---- sorting ----------------------------------------------------------------------------------------------------------- */

typedef struct nd_record {
    uint64_t key;
    uint64_t item;
} nd_record;

/* A key and its item in 12 bytes. */
typedef struct nd_short_record {
    uint32_t low, high; /* the key: in this order compilers load it at once */
    uint32_t item;
} nd_short_record;

static inline uint64_t nd_short_key(const nd_short_record *record)
{
    return (uint64_t)record->high << 32 | record->low;
}

/* Stable ascending order by the bits low_bit .. high_bit - 1 of the key. other: room for count; the result is where the
 * return value points, one of the two. */
nd_record *nd_sort_records(nd_record *records, nd_record *other, size_t count, unsigned low_bit, unsigned high_bit);
nd_short_record *nd_sort_short_records(nd_short_record *records, nd_short_record *other, size_t count, unsigned low_bit,
    unsigned high_bit);
uint64_t *nd_sort_keys(uint64_t *keys, uint64_t *other, size_t count, unsigned low_bit, unsigned high_bit);
/* Ascending by key and item, without more memory. */
void nd_sort_short_in_place(nd_short_record *records, size_t count);
/* What nd_sort_distinct makes of the numbers in `from`, in `to`, another place; quicker for some hundreds of hashes. */
size_t nd_sorted_distinct(const uint64_t *from, size_t count, uint64_t *to);

/* ---- loads at any address ----------------------------------------------------------------------------------- */

static inline uint64_t nd_load64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Up to 8 bytes as a big-endian number. */
static inline uint64_t nd_load_big(const uint8_t *bytes, size_t size)
{
    if (size == 8)
        return __builtin_bswap64(nd_load64(bytes));
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | bytes[i];
    return value;
}

#endif
