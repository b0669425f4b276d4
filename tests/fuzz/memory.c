/* memory.c: the allocator of the core under test, which fails where a target says so. The core is compiled with its malloc, calloc
 * and realloc renamed to these. */
#include <stdlib.h>

#include "fuzz.h"

static unsigned left;
static int armed, lasts;

void fuzz_fail_allocations(unsigned after, int lasting)
{
    left = after;
    lasts = lasting;
    armed = 1;
}

void fuzz_allow_allocations(void)
{
    armed = 0;
}

int fuzz_allocation_fails(void)
{
    if (!armed)
        return 0;
    if (left > 0) {
        left--;
        return 0;
    }
    armed = lasts;
    return 1;
}

void *fuzz_malloc(size_t size)
{
    return fuzz_allocation_fails() ? NULL : malloc(size);
}

void *fuzz_calloc(size_t count, size_t size)
{
    return fuzz_allocation_fails() ? NULL : calloc(count, size);
}

void *fuzz_realloc(void *block, size_t size)
{
    return fuzz_allocation_fails() ? NULL : realloc(block, size);
}
