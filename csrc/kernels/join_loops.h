/* join_loops.h: the kernels of the joins for CPUs with registers of 32 or 64 bytes. A file of each includes it, after it has
 * defined
 *     ND_TIER                     the attribute of functions for its CPUs
 *     ND_WIDTH                    bytes of a register
 *     ND_COUNTED                  words whose counts can be added up before they overflow
 *     ND_COLUMN_REGISTERS         registers of columns that are compared with a row at once, 4 or 2
 * and registers.h and, in functions that are always inline,
 *     spread(number)              the number in each lane
 *     count(words)                set bits, in counters of any width within the lanes
 *     sums(counters)              the counters of each lane added up
 *     up_to(a, b)                 a mask of the lanes, the first in bit 0, in which a is at most b; both below 2^63
 *     smaller(a, b)               the smaller of each two numbers below 2^63 */
#ifndef NEARDUP_KERNELS_JOIN_LOOPS_H
#define NEARDUP_KERNELS_JOIN_LOOPS_H

#include "kernels/kernels.h"
#include "kernels/registers.h"

enum { LANES = ND_WIDTH / 8 };

ND_INLINE words64 load(const uint64_t *words)
{
    return *(const any64 *)words;
}

/* Lanes 0 to count - 1 of 32, count <= 32. */
static inline uint32_t first_lanes(size_t count)
{
    return count == 0 ? 0 : UINT32_MAX >> (32 - count);
}

/* ---- codes ------------------------------------------------------------------------------------------------------------------ */

/* Which of the columns in so many registers are near a row of these planes. */
ND_INLINE uint32_t near_row(const uint64_t *const *planes, size_t plane_count, size_t row, const words64 *columns,
    size_t registers, words64 most)
{
    uint32_t hits = 0;
    ND_UNROLL
    for (size_t r = 0; r < registers; r++) {
        words64 counted = {0};
        ND_UNROLL
        for (size_t w = 0; w < plane_count; w++)
            counted += count(spread(planes[w][row]) ^ columns[r * plane_count + w]);
        hits |= up_to(sums(counted), most) << LANES * r;
    }
    return hits;
}

/* The first `width` columns stay in registers while the rows go by, each broadcast to all lanes. Plain loop:
 *     for every row before the column: if popcount(row ^ column) <= max_distance: out = row << 32 | column
 * What is near is rare, so that one branch a row asks for all columns at once. Returns with next_row < end where out is full. */
ND_INLINE size_t near_columns(nd_near *near, size_t end, size_t width, size_t registers, size_t plane_count, uint64_t *out,
    size_t capacity)
{
    const words64 most = spread(near->max_distance);
    const size_t column = near->column;
    const uint64_t *planes[4];
    words64 columns[4 * ND_COLUMN_REGISTERS];
    ND_UNROLL
    for (size_t w = 0; w < plane_count; w++) {
        uint64_t words[ND_COLUMN_REGISTERS * LANES] = {0};
        planes[w] = near->planes + w * near->stride;
        memcpy(words, planes[w] + column, 8 * width);
        ND_UNROLL
        for (size_t r = 0; r < registers; r++)
            columns[r * plane_count + w] = load(words + LANES * r);
    }
    size_t found = 0, row = near->next_row;
    uint32_t lanes = first_lanes(width);
    if (row > column)
        lanes &= ~first_lanes(row - column);
    for (; row < end; row++) {
        /* Rows among the columns are met by the later ones only: each turn one lane less. */
        if (row >= column)
            lanes &= lanes - 1;
        uint32_t hits = lanes & near_row(planes, plane_count, row, columns, registers, most);
        if (__builtin_expect(hits == 0, 1))
            continue;
        if (found + ND_NEAR_ROOM > capacity)
            break;
        for (; hits != 0; hits &= hits - 1)
            out[found++] = (uint64_t)row << 32 | (column + (size_t)__builtin_ctz(hits));
    }
    near->next_row = row;
    return found;
}

ND_INLINE size_t near_all(nd_near *near, size_t planes, uint64_t *out, size_t capacity)
{
    const size_t most = ND_COLUMN_REGISTERS * LANES;
    size_t found = 0;
    while (near->column < near->column_end) {
        const size_t width = near->column_end - near->column < most ? near->column_end - near->column : most;
        const size_t end = near->row_end < near->column + width ? near->row_end : near->column + width;
        uint64_t *const place = out + found;
        if (width > 2 * LANES)
            found += near_columns(near, end, width, ND_COLUMN_REGISTERS, planes, place, capacity - found);
        else if (width > LANES)
            found += near_columns(near, end, width, 2, planes, place, capacity - found);
        else
            found += near_columns(near, end, width, 1, planes, place, capacity - found);
        if (near->next_row < end)
            return found;
        near->column += width;
        near->next_row = near->row;
    }
    return found;
}

ND_TIER static size_t near_pairs(nd_near *near, uint64_t *out, size_t capacity)
{
    if (near->plane_count == 1)
        return near_all(near, 1, out, capacity);
    if (near->plane_count == 2)
        return near_all(near, 2, out, capacity);
    return near_all(near, 4, out, capacity);
}

/* ---- sets ------------------------------------------------------------------------------------------------------------------- */

/* One set a lane, so that nothing is added across lanes; the query's words are broadcast. */
ND_TIER static size_t may_overlap(const uint64_t *query, size_t words, uint64_t excess, const uint64_t *blocks,
    size_t block_count, const uint32_t *needed, uint32_t *out)
{
    enum { PARTS = ND_SET_LANES / LANES };
    size_t found = 0;
    for (size_t block = 0; block < block_count; block++) {
        const uint64_t *rows = blocks + block * (words + 1) * ND_SET_LANES;
        words64 most[PARTS];
        for (size_t r = 0; r < PARTS; r++)
            most[r] = smaller(spread(excess), load(rows + words * ND_SET_LANES + LANES * r));
        for (size_t start = 0, end; start < words; start = end) {
            end = words - start < ND_COUNTED ? words : start + ND_COUNTED;
            words64 counted[PARTS] = {{0}};
            for (size_t w = start; w < end; w++) {
                ND_UNROLL
                for (size_t r = 0; r < PARTS; r++)
                    counted[r] += count(spread(query[w]) & load(rows + w * ND_SET_LANES + LANES * r));
            }
            for (size_t r = 0; r < PARTS; r++)
                most[r] += sums(counted[r]);
        }
        uint32_t hits = 0;
        ND_UNROLL
        for (size_t r = 0; r < PARTS; r++)
            hits |= up_to(spread(needed[block]), most[r]) << LANES * r;
        for (; hits != 0; hits &= hits - 1)
            out[found++] = (uint32_t)(block * ND_SET_LANES) + (uint32_t)__builtin_ctz(hits);
    }
    return found;
}

#endif
