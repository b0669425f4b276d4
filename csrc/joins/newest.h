/* newest.h: a hash table from keys to numbers, the newest under each key, for lists that are linked from the newest on. Only 32 bits
 * of a key are stored, because such tables are most of the memory: whoever looks a key up may meet what belongs to another one, and
 * compares. */
#ifndef NEARDUP_NEWEST_H
#define NEARDUP_NEWEST_H

#include "arrays/arrays.h"

#define ND_NO_NUMBER UINT32_MAX

/* Open addressing; `number` ND_NO_NUMBER: a free place. */
typedef struct nd_newest {
    struct nd_newest_place {
        uint32_t hash, number;
    } * at;
    size_t capacity, used;
} nd_newest;

/* The newest number under a key; ND_NO_NUMBER if there is none. */
uint32_t nd_newest_get(const nd_newest *newest, uint64_t key);
/* Makes a number the newest under a key; *older is the newest until now. */
int nd_newest_put(nd_newest *newest, uint64_t key, uint32_t number, uint32_t *older);
/* Forgets all keys. */
void nd_newest_clear(nd_newest *newest);

#endif
