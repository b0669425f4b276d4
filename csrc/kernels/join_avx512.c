/* join_avx512.c: the joins for x86-64 CPUs with AVX-512 as Ice Lake and Zen 4 have it. What is not here is hardly faster
 * (below 1.1 times, measured on Zen 4) than in join_avx2.c and avx2.c. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

/* Lanes 0 to count - 1 of 32, count <= 32. */
ND_TARGET_AVX512 static uint32_t first_lanes(size_t count)
{
    return count == 0 ? 0 : UINT32_MAX >> (32 - count);
}

/* A mask as a number. GCC 12 was seen to widen a mask, spill what it got by a store of one byte, and read that back as eight: the
 * mask goes into a general register before it is widened, by an instruction that is none. */
ND_TARGET_AVX512 static inline __attribute__((always_inline)) uint32_t lanes_of(__mmask8 mask)
{
    __asm__("" : "+r"(mask));
    return mask;
}

/* ---- codes ------------------------------------------------------------------------------------------------------------------ */

/* Which of up to 8 * registers columns are near a row. */
ND_TARGET_AVX512 static inline __attribute__((always_inline)) uint32_t near_row(const nd_near *near, size_t row,
    const __m512i *columns, size_t registers, size_t planes)
{
    const __m512i most = _mm512_set1_epi64((long long)near->max_distance);
    uint32_t hits = 0;
    for (size_t r = 0; r < registers; r++) {
        __m512i distance = _mm512_setzero_si512();
        for (size_t w = 0; w < planes; w++) {
            __m512i code = _mm512_set1_epi64((long long)near->planes[w * near->stride + row]);
            __m512i differing = _mm512_popcnt_epi64(_mm512_xor_si512(code, columns[r * planes + w]));
            distance = w == 0 ? differing : _mm512_add_epi64(distance, differing);
        }
        hits |= lanes_of(_mm512_cmple_epu64_mask(distance, most)) << 8 * r;
    }
    return hits;
}

/* Up to 8 * registers columns stay in registers while the rows go by, each broadcast to all lanes. Plain loop:
 *     for every row before the column: if popcount(row ^ column) <= max_distance: out = row << 32 | column
 * What is near is rare, so that one branch a row asks for all columns at once. Returns with next_row < end where out is full. */
ND_TARGET_AVX512 static inline __attribute__((always_inline)) size_t near_columns(nd_near *near, size_t end, uint32_t lanes,
    size_t registers, size_t planes, uint64_t *out, size_t capacity)
{
    __m512i columns[16];
    for (size_t r = 0; r < registers; r++)
        for (size_t w = 0; w < planes; w++)
            columns[r * planes + w] = _mm512_maskz_loadu_epi64((__mmask8)(lanes >> 8 * r),
                near->planes + w * near->stride + near->column + 8 * r);
    size_t found = 0, row = near->next_row;
    if (row > near->column)
        lanes &= ~first_lanes(row - near->column);
    for (; row < end; row++) {
        /* Rows among the columns are met by the later ones only: each turn one lane less. */
        if (row >= near->column)
            lanes &= lanes - 1;
        uint32_t hits = near_row(near, row, columns, registers, planes) & lanes;
        if (__builtin_expect(hits == 0, 1))
            continue;
        if (found + ND_NEAR_ROOM > capacity)
            break;
        for (; hits != 0; hits &= hits - 1)
            out[found++] = (uint64_t)row << 32 | (near->column + (size_t)__builtin_ctz(hits));
    }
    near->next_row = row;
    return found;
}

ND_TARGET_AVX512 static inline __attribute__((always_inline)) size_t near_all(nd_near *near, size_t planes, uint64_t *out,
    size_t capacity)
{
    size_t found = 0;
    while (near->column < near->column_end) {
        size_t width = near->column_end - near->column < 32 ? near->column_end - near->column : 32;
        size_t end = near->row_end < near->column + width ? near->row_end : near->column + width;
        uint32_t lanes = first_lanes(width);
        uint64_t *place = out + found;
        size_t room = capacity - found;
        if (width > 16)
            found += near_columns(near, end, lanes, 4, planes, place, room);
        else if (width > 8)
            found += near_columns(near, end, lanes, 2, planes, place, room);
        else
            found += near_columns(near, end, lanes, 1, planes, place, room);
        if (near->next_row < end)
            return found;
        near->column += width;
        near->next_row = near->row;
    }
    return found;
}

ND_TARGET_AVX512 static size_t near_pairs(nd_near *near, uint64_t *out, size_t capacity)
{
    if (near->plane_count == 1)
        return near_all(near, 1, out, capacity);
    if (near->plane_count == 2)
        return near_all(near, 2, out, capacity);
    return near_all(near, 4, out, capacity);
}

/* ---- sets ------------------------------------------------------------------------------------------------------------------- */

/* One set a lane, so that nothing is added across lanes; the query's words are broadcast. */
ND_TARGET_AVX512 static size_t may_overlap(const uint64_t *query, size_t words, uint64_t excess, const uint64_t *blocks,
    size_t block_count, const uint32_t *needed, uint32_t *out)
{
    const __m512i own = _mm512_set1_epi64((long long)excess);
    size_t found = 0;
    for (size_t block = 0; block < block_count; block++) {
        const uint64_t *rows = blocks + block * (words + 1) * ND_SET_LANES;
        __m512i most = _mm512_min_epu64(own, _mm512_loadu_si512(rows + words * ND_SET_LANES));
        for (size_t w = 0; w < words; w++) {
            __m512i both = _mm512_and_si512(_mm512_set1_epi64((long long)query[w]), _mm512_loadu_si512(rows + w * ND_SET_LANES));
            most = _mm512_add_epi64(most, _mm512_popcnt_epi64(both));
        }
        uint32_t hits = lanes_of(_mm512_cmpge_epu64_mask(most, _mm512_set1_epi64(needed[block])));
        for (; hits != 0; hits &= hits - 1)
            out[found++] = (uint32_t)(block * ND_SET_LANES) + (uint32_t)__builtin_ctz(hits);
    }
    return found;
}

const nd_kernels nd_kernels_compare_avx512 = {
    .name = "avx512",
    .near_pairs = near_pairs,
    .may_overlap = may_overlap,
};

#endif
