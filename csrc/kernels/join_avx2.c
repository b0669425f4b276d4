/* join_avx2.c: the kernels of the joins for x86-64 CPUs with AVX2 and POPCNT. */
#include "kernels/kernels.h"

#if ND_HAVE_X86

#include "kernels/intrinsics.h"

ND_TARGET_AVX2 static __m256i load(const void *address)
{
    return _mm256_loadu_si256((const __m256i *)address);
}

/* Set bits of each byte, by a table of the sixteen halves of a byte (Mula 2008). */
ND_TARGET_AVX2 static inline __attribute__((always_inline)) __m256i population_bytes(__m256i bits)
{
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2,
        3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(bits, low)),
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bits, 4), low)));
}

/* Sums of the eight bytes of each 64-bit lane. */
ND_TARGET_AVX2 static inline __attribute__((always_inline)) __m256i lane_sums(__m256i bytes)
{
    return _mm256_sad_epu8(bytes, _mm256_setzero_si256());
}

/* ---- codes ------------------------------------------------------------------------------------------------------------------ */

/* Eight columns stay in two registers a plane while the rows go by, each broadcast to all lanes; fewer than eight are filled up
 * with zeros, and what comes of those is masked. Plain loop:
 *     for every row before the column: if popcount(row ^ column) <= max_distance: out = row << 32 | column */
ND_TARGET_AVX2 static inline __attribute__((always_inline)) size_t near_columns(nd_near *near, size_t width, size_t end,
    size_t planes, uint64_t *out, size_t capacity)
{
    const __m256i most = _mm256_set1_epi64x((long long)near->max_distance);
    const uint64_t *first = near->planes;
    __m256i columns[8];
    for (size_t w = 0; w < planes; w++) {
        uint64_t words[8] = {0};
        memcpy(words, first + w * near->stride + near->column, 8 * width);
        columns[2 * w] = load(words);
        columns[2 * w + 1] = load(words + 4);
    }
    size_t found = 0, row = near->next_row;
    for (; row < end; row++) {
        __m256i left = _mm256_setzero_si256(), right = left;
        for (size_t w = 0; w < planes; w++) {
            __m256i code = _mm256_set1_epi64x((long long)first[w * near->stride + row]);
            left = _mm256_add_epi8(left, population_bytes(_mm256_xor_si256(code, columns[2 * w])));
            right = _mm256_add_epi8(right, population_bytes(_mm256_xor_si256(code, columns[2 * w + 1])));
        }
        int far_left = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(lane_sums(left), most)));
        int far_right = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(lane_sums(right), most)));
        unsigned hits = ~(unsigned)(far_left | far_right << 4) & (0xffu >> (8 - width));
        if (row >= near->column)
            hits &= ~0u << (row - near->column + 1);
        if (hits == 0)
            continue;
        if (found + ND_NEAR_ROOM > capacity)
            break;
        for (; hits != 0; hits &= hits - 1)
            out[found++] = (uint64_t)row << 32 | (near->column + (size_t)__builtin_ctz(hits));
    }
    near->next_row = row;
    return found;
}

ND_TARGET_AVX2 static inline __attribute__((always_inline)) size_t near_all(nd_near *near, size_t planes, uint64_t *out,
    size_t capacity)
{
    size_t found = 0;
    while (near->column < near->column_end) {
        size_t width = near->column_end - near->column < 8 ? near->column_end - near->column : 8;
        size_t end = near->row_end < near->column + width ? near->row_end : near->column + width;
        found += near_columns(near, width, end, planes, out + found, capacity - found);
        if (near->next_row < end)
            return found;
        near->column += width;
        near->next_row = near->row;
    }
    return found;
}

ND_TARGET_AVX2 static size_t near_pairs(nd_near *near, uint64_t *out, size_t capacity)
{
    if (near->plane_count == 1)
        return near_all(near, 1, out, capacity);
    if (near->plane_count == 2)
        return near_all(near, 2, out, capacity);
    return near_all(near, 4, out, capacity);
}

/* ---- sets ------------------------------------------------------------------------------------------------------------------- */

/* One set a lane; byte counters hold the ones of up to 31 words. */
ND_TARGET_AVX2 static size_t may_overlap(const uint64_t *query, size_t words, uint64_t excess, const uint64_t *blocks,
    size_t block_count, const uint32_t *needed, uint32_t *out)
{
    const size_t most_words = 31;
    size_t found = 0;
    for (size_t block = 0; block < block_count; block++) {
        const uint64_t *rows = blocks + block * (words + 1) * ND_SET_LANES;
        __m256i left = _mm256_setzero_si256(), right = left;
        for (size_t start = 0; start < words; start += most_words) {
            size_t end = words - start < most_words ? words : start + most_words;
            __m256i left_bytes = _mm256_setzero_si256(), right_bytes = left_bytes;
            for (size_t w = start; w < end; w++) {
                __m256i word = _mm256_set1_epi64x((long long)query[w]);
                left_bytes = _mm256_add_epi8(left_bytes, population_bytes(_mm256_and_si256(word, load(rows + 8 * w))));
                right_bytes = _mm256_add_epi8(right_bytes, population_bytes(_mm256_and_si256(word, load(rows + 8 * w + 4))));
            }
            left = _mm256_add_epi64(left, lane_sums(left_bytes));
            right = _mm256_add_epi64(right, lane_sums(right_bytes));
        }
        /* Numbers of values are far below 2^63: signed comparisons will do. */
        __m256i own = _mm256_set1_epi64x((long long)excess), enough = _mm256_set1_epi64x((long long)needed[block] - 1);
        __m256i others_left = load(rows + 8 * words), others_right = load(rows + 8 * words + 4);
        left = _mm256_add_epi64(left, _mm256_blendv_epi8(own, others_left, _mm256_cmpgt_epi64(own, others_left)));
        right = _mm256_add_epi64(right, _mm256_blendv_epi8(own, others_right, _mm256_cmpgt_epi64(own, others_right)));
        unsigned hits = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(left, enough))) |
                        (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(right, enough))) << 4;
        for (; hits != 0; hits &= hits - 1)
            out[found++] = (uint32_t)(block * ND_SET_LANES) + (uint32_t)__builtin_ctz(hits);
    }
    return found;
}

const nd_kernels nd_kernels_compare_avx2 = {
    .name = "avx2",
    .near_pairs = near_pairs,
    .may_overlap = may_overlap,
};

#endif
