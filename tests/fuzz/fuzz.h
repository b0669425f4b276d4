/* fuzz.h: what the fuzz targets share. A target takes its choices from the end of an input, byte by byte, and what is left is
 * data: so a plain text is a good seed. Where an input has ended, choices are 0. */
#ifndef ND_FUZZ_H
#define ND_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

#define PROMISE(condition)                                                                                                       \
    do {                                                                                                                         \
        if (!(condition)) {                                                                                                      \
            fprintf(stderr, "%s:%d: not kept: %s (tier %s)\n", __FILE__, __LINE__, #condition, nd_isa_name());                   \
            abort();                                                                                                             \
        }                                                                                                                        \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static inline uint8_t take_byte(input *from)
{
    return from->size == 0 ? 0 : from->data[--from->size];
}

static inline uint64_t take_number(input *from, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | take_byte(from);
    return number;
}

/* One of `count` choices, at most 256. */
static inline size_t take_choice(input *from, size_t count)
{
    return take_byte(from) % count;
}

/* Memory that a sanitizer guards at its very end, `size` bytes behind `skew` others; free_guarded gives it back. */
static inline uint8_t *guarded(size_t size, size_t skew)
{
    uint8_t *block = malloc(size + skew + (size + skew == 0));
    PROMISE(block != NULL);
    return block + skew;
}

static inline void free_guarded(void *block, size_t skew)
{
    free((uint8_t *)block - skew);
}

/* Up to `size` bytes from the front of what is left; *taken is how many there were. */
static inline uint8_t *take_bytes(input *from, size_t size, size_t skew, size_t *taken)
{
    *taken = size < from->size ? size : from->size;
    uint8_t *copy = guarded(*taken, skew);
    if (*taken > 0)
        memcpy(copy, from->data, *taken);
    from->data += *taken;
    from->size -= *taken;
    return copy;
}

/* ---- tiers: EACH_TIER(i) { ... } runs with every tier, the scalar one first, and leaves the best one active --------------- */

static inline int use_tier(int index)
{
    if (index >= nd_isa_count()) {
        (void)nd_isa_force(NULL);
        return 0;
    }
    PROMISE(nd_isa_force(nd_isa_at(index)) == ND_OK);
    return 1;
}

#define EACH_TIER(i) for (int i = 0; use_tier(i); i++)

/* ---- memory that runs out (memory.c): the core allocates through these ------------------------------------------------------ */

void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t count, size_t size);
void *fuzz_realloc(void *block, size_t size);
/* The allocation that comes after `after` others fails, and all behind it if `lasting`. */
void fuzz_fail_allocations(unsigned after, int lasting);
void fuzz_allow_allocations(void);
/* 1 where this allocation fails. */
int fuzz_allocation_fails(void);

#endif
