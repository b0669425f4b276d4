/* text.h: what the kernels that loop over text share. */
#ifndef ND_KERNELS_TEXT_H
#define ND_KERNELS_TEXT_H

#include "kernels/kernels.h"
#include "hashes/xxh3.h"

static inline uint64_t nd_shingle_hash(const nd_shingles *shingles, size_t index)
{
    const size_t start = shingles->starts[index];
    const size_t size = shingles->starts[index + shingles->tokens] - start - shingles->joiner_size;
    return nd_xxh3_inline(shingles->bytes + start, size, shingles->seed);
}

#endif
