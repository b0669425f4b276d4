/* check.h: what the tests in C share: a check that ends the program, a random generator, memory that ends where the data ends. */
#ifndef NEARDUP_CHECK_H
#define NEARDUP_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "core.h"

#define CHECK(condition)                                                                                                         \
    do {                                                                                                                         \
        if (!(condition)) {                                                                                                      \
            fprintf(stderr, "%s:%d: %s (tier %s)\n", __FILE__, __LINE__, #condition, nd_isa_name());                             \
            exit(1);                                                                                                             \
        }                                                                                                                        \
    } while (0)

static inline uint64_t draw(void)
{
    static uint64_t state = 20261120;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Random memory of exactly so many bytes behind `skew` further ones; the caller frees from where those begin. */
static inline uint8_t *skewed(size_t size, size_t skew)
{
    uint8_t *block = malloc(size + skew > 0 ? size + skew : 1);
    CHECK(block != NULL);
    for (size_t i = 0; i < size; i++)
        block[skew + i] = (uint8_t)(draw() >> 11);
    return block + skew;
}

static inline void *room_for(size_t count, size_t size)
{
    return skewed(count * size, 0);
}

#endif
