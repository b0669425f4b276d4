/* compare_avx512.c: comparisons and joins for x86-64 CPUs with AVX-512 as Ice Lake and Zen 4 have it. */
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

/* One set a lane, so that nothing is added across lanes; the query's words are broadcast, from registers where they fit. */
ND_TARGET_AVX512 static inline __attribute__((always_inline)) size_t overlap_blocks(const uint64_t *query, size_t words,
    uint64_t excess, const uint64_t *blocks, size_t block_count, const uint32_t *needed, uint32_t *out)
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

ND_TARGET_AVX512 static size_t may_overlap(const uint64_t *query, size_t words, uint64_t excess, const uint64_t *blocks,
    size_t block_count, const uint32_t *needed, uint32_t *out)
{
    switch (words) {
    case 4:
        return overlap_blocks(query, 4, excess, blocks, block_count, needed, out);
    case 8:
        return overlap_blocks(query, 8, excess, blocks, block_count, needed, out);
    case 16:
        return overlap_blocks(query, 16, excess, blocks, block_count, needed, out);
    default:
        return overlap_blocks(query, words, excess, blocks, block_count, needed, out);
    }
}

/* A condition as the number that it is: which side goes on is as good as random, and a compiler that makes a branch of it loses
 * twenty cycles at every other step. */
static inline __attribute__((always_inline)) size_t unbranched(int condition)
{
    size_t number = (size_t)condition;
    __asm__("" : "+r"(number));
    return number;
}

/* Compares eight values of a with every one of eight of b, each broadcast, then leaves behind the block whose last value is smaller
 * (or both). The merge of avx2.c waits for the last values of the blocks before every step: half as many steps take
 * half the time. Skips are looked at after every block; the rest is merged. */
ND_TARGET_AVX512 static size_t count_common(const uint8_t *a, size_t a_count, const uint8_t *b, size_t b_count, size_t max_skips)
{
    size_t i = 0, j = 0, common = 0;
    while (i + 8 <= a_count && j + 8 <= b_count) {
        const __m512i left = _mm512_loadu_si512(a + 8 * i);
        uint64_t left_last = nd_load64(a + 8 * i + 56), right_last = nd_load64(b + 8 * j + 56);
#define EQUAL(n) _mm512_cmpeq_epi64_mask(left, _mm512_set1_epi64((long long)nd_load64(b + 8 * (j + n))))
        __mmask8 low = _kor_mask8(_kor_mask8(EQUAL(0), EQUAL(1)), _kor_mask8(EQUAL(2), EQUAL(3)));
        __mmask8 high = _kor_mask8(_kor_mask8(EQUAL(4), EQUAL(5)), _kor_mask8(EQUAL(6), EQUAL(7)));
#undef EQUAL
        common += (size_t)_mm_popcnt_u32(lanes_of(_kor_mask8(low, high)));
        i += 8 * unbranched(left_last <= right_last);
        j += 8 * unbranched(right_last <= left_last);
        if (i + j > max_skips + 2 * common)
            return SIZE_MAX;
    }
    /* Values of the block not yet left behind may be counted as common already: the merge passes them as skips, which the
     * allowance makes good. */
    size_t rest = nd_kernels_scalar.count_common(a + 8 * i, a_count - i, b + 8 * j, b_count - j,
        max_skips + 2 * common - (i + j));
    return rest == SIZE_MAX ? SIZE_MAX : common + rest;
}

/* ---- slots and long codes -------------------------------------------------------------------------------------------------------- */

ND_TARGET_AVX512 static size_t equal_slots16(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t equal = 0, more = 0, i = 0;
    for (; i + 64 <= count; i += 64) {
        equal += (size_t)_mm_popcnt_u32(_mm512_cmpeq_epi16_mask(_mm512_loadu_si512(a + 2 * i), _mm512_loadu_si512(b + 2 * i)));
        more += (size_t)_mm_popcnt_u32(
            _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(a + 2 * i + 64), _mm512_loadu_si512(b + 2 * i + 64)));
    }
    for (; i < count; i += 32) {
        __mmask32 lanes = first_lanes(count - i < 32 ? count - i : 32);
        __m512i left = _mm512_maskz_loadu_epi16(lanes, a + 2 * i), right = _mm512_maskz_loadu_epi16(lanes, b + 2 * i);
        equal += (size_t)_mm_popcnt_u32(_mm512_mask_cmpeq_epi16_mask(lanes, left, right));
    }
    return equal + more;
}

ND_TARGET_AVX512 static size_t equal_slots32(const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t equal = 0;
    for (size_t i = 0; i < count; i += 32) {
        uint32_t lanes = first_lanes(count - i < 32 ? count - i : 32);
        __mmask16 low = (__mmask16)lanes, high = (__mmask16)(lanes >> 16);
        __m512i left = _mm512_maskz_loadu_epi32(low, a + 4 * i), right = _mm512_maskz_loadu_epi32(low, b + 4 * i);
        __m512i more_left = _mm512_maskz_loadu_epi32(high, a + 4 * i + 64),
                more_right = _mm512_maskz_loadu_epi32(high, b + 4 * i + 64);
        equal += (size_t)_mm_popcnt_u32(_mm512_kunpackw(_mm512_mask_cmpeq_epi32_mask(high, more_left, more_right),
            _mm512_mask_cmpeq_epi32_mask(low, left, right)));
    }
    return equal;
}

ND_TARGET_AVX512 static uint64_t hamming(const uint8_t *a, const uint8_t *b, size_t size)
{
    if (size < 64)
        return nd_kernels_avx2.hamming(a, b, size);
    __m512i sums = _mm512_setzero_si512();
    for (size_t i = 0; i < size; i += 64) {
        __mmask64 lanes = size - i < 64 ? UINT64_MAX >> (64 - (size - i)) : UINT64_MAX;
        __m512i difference = _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, a + i), _mm512_maskz_loadu_epi8(lanes, b + i));
        sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(difference));
    }
    return (uint64_t)_mm512_reduce_add_epi64(sums);
}

/* Eight codes of 64 bits at a time. */
ND_TARGET_AVX512 static size_t keep_near(const uint8_t *codes, size_t count, size_t size, const uint8_t *code,
    uint64_t max_distance, uint32_t *out)
{
    size_t kept = 0;
    if (size != 8)
        return nd_kernels_avx2.keep_near(codes, count, size, code, max_distance, out);
    __m512i wanted = _mm512_set1_epi64((int64_t)nd_load64(code)), most = _mm512_set1_epi64((int64_t)max_distance);
    for (size_t i = 0; i < count; i += 8) {
        __mmask8 lanes = (__mmask8)first_lanes(count - i < 8 ? count - i : 8);
        __m512i difference = _mm512_xor_si512(_mm512_maskz_loadu_epi64(lanes, codes + 8 * i), wanted);
        unsigned near = _mm512_mask_cmple_epu64_mask(lanes, _mm512_popcnt_epi64(difference), most);
        for (; near != 0; near &= near - 1)
            out[kept++] = (uint32_t)(i + (size_t)__builtin_ctz(near));
    }
    return kept;
}

const nd_kernels nd_kernels_compare_avx512 = {
    .name = "avx512",
    .hamming = hamming,
    .keep_near = keep_near,
    .equal_slots16 = equal_slots16,
    .equal_slots32 = equal_slots32,
    .count_common = count_common,
    .near_pairs = near_pairs,
    .may_overlap = may_overlap,
};

#endif
