/* newest.c: a hash table from keys to the newest number under each. */
#include <stdlib.h>

#include "joins/newest.h"

typedef struct nd_newest_place place;

static uint32_t hash_of(uint64_t key)
{
    return (uint32_t)((key ^ key >> 32) * 0x9E3779B97F4A7C15u >> 32);
}

/* Where a hash stands, or is to stand. */
static place *place_of(const nd_newest *newest, uint32_t hash)
{
    const size_t mask = newest->capacity - 1;
    size_t i = hash & mask;
    while (newest->at[i].number != ND_NO_NUMBER && newest->at[i].hash != hash)
        i = (i + 1) & mask;
    return &newest->at[i];
}

void nd_newest_clear(nd_newest *newest)
{
    for (size_t i = 0; i < newest->capacity; i++)
        newest->at[i] = (place){.number = ND_NO_NUMBER};
    newest->used = 0;
}

static int grow(nd_newest *newest)
{
    nd_newest grown = {.capacity = newest->capacity == 0 ? ND_FIRST_CAPACITY : 2 * newest->capacity};
    grown.at = malloc(grown.capacity * sizeof *grown.at);
    if (grown.at == NULL)
        return ND_ERROR_MEMORY;
    nd_newest_clear(&grown);
    for (size_t i = 0; i < newest->capacity; i++)
        if (newest->at[i].number != ND_NO_NUMBER)
            *place_of(&grown, newest->at[i].hash) = newest->at[i];
    grown.used = newest->used;
    free(newest->at);
    *newest = grown;
    return ND_OK;
}

uint32_t nd_newest_get(const nd_newest *newest, uint64_t key)
{
    return newest->capacity == 0 ? ND_NO_NUMBER : place_of(newest, hash_of(key))->number;
}

int nd_newest_put(nd_newest *newest, uint64_t key, uint32_t number, uint32_t *older)
{
    if (4 * (newest->used + 1) > 3 * newest->capacity)
        ND_TRY(grow(newest));
    place *at = place_of(newest, hash_of(key));
    *older = at->number;
    newest->used += at->number == ND_NO_NUMBER;
    *at = (place){hash_of(key), number};
    return ND_OK;
}
