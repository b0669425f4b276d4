/* join_scalar.c: the kernels of the joins in portable C. The other tiers return the same. */
#include "kernels/kernels.h"

static uint64_t distance_of(const nd_near *near, size_t row, size_t column)
{
    uint64_t distance = 0;
    for (size_t w = 0; w < near->plane_count; w++)
        distance += nd_population(near->planes[w * near->stride + row] ^ near->planes[w * near->stride + column]);
    return distance;
}

static size_t near_pairs(nd_near *near, uint64_t *out, size_t capacity)
{
    size_t found = 0;
    for (; near->column < near->column_end; near->column++, near->next_row = near->row) {
        size_t end = near->row_end < near->column ? near->row_end : near->column;
        for (; near->next_row < end; near->next_row++) {
            if (found + ND_NEAR_ROOM > capacity)
                return found;
            if (distance_of(near, near->next_row, near->column) <= near->max_distance)
                out[found++] = (uint64_t)near->next_row << 32 | near->column;
        }
    }
    return found;
}

static size_t may_overlap(const uint64_t *query, size_t words, uint64_t excess, const uint64_t *blocks, size_t block_count,
    const uint32_t *needed, uint32_t *out)
{
    size_t found = 0;
    for (size_t block = 0; block < block_count; block++) {
        const uint64_t *rows = blocks + block * (words + 1) * ND_SET_LANES;
        for (size_t lane = 0; lane < ND_SET_LANES; lane++) {
            uint64_t own = rows[words * ND_SET_LANES + lane], most = own < excess ? own : excess;
            for (size_t w = 0; w < words; w++)
                most += nd_population(query[w] & rows[w * ND_SET_LANES + lane]);
            if (most >= needed[block])
                out[found++] = (uint32_t)(block * ND_SET_LANES + lane);
        }
    }
    return found;
}

const nd_kernels nd_kernels_compare_scalar = {
    .name = ND_BASE_TIER,
    .near_pairs = near_pairs,
    .may_overlap = may_overlap,
};
