/* grow.c: arrays that grow. */
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "arrays/arrays.h"

int nd_grow(void *buffer, size_t *capacity, size_t needed, size_t item_size)
{
    size_t wanted = *capacity + *capacity / 2 + 16;
    if (wanted < needed)
        wanted = needed;
    if (wanted > PTRDIFF_MAX / item_size)
        return ND_ERROR_MEMORY;
    void *items; /* copied: what the caller has is a pointer of another type */
    memcpy(&items, buffer, sizeof items);
    items = realloc(items, wanted * item_size);
    if (items == NULL)
        return ND_ERROR_MEMORY;
    memcpy(buffer, &items, sizeof items);
    *capacity = wanted;
    return ND_OK;
}

void nd_memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
