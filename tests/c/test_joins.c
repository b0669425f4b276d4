/* test_joins.c: the kernels of the joins in every tier against plain loops, at sizes around the registers and with little room for
 * what they find; buffers end where the data ends, so that a sanitizer sees any step beyond. */
#include "check.h"
#include "joins/joins.h"
#include "kernels/kernels.h"

static int compare64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static unsigned ones_of(uint64_t word)
{
    unsigned ones = 0;
    for (; word != 0; word &= word - 1)
        ones++;
    return ones;
}

/* ---- near_pairs ------------------------------------------------------------------------------------------------------------- */

static size_t near_by_loops(const nd_near *near, uint64_t *out)
{
    size_t found = 0;
    for (size_t row = near->row; row < near->row_end; row++)
        for (size_t column = near->column; column < near->column_end; column++) {
            uint64_t distance = 0;
            for (size_t w = 0; w < near->plane_count; w++)
                distance += ones_of(near->planes[w * near->stride + row] ^ near->planes[w * near->stride + column]);
            if (row < column && distance <= near->max_distance)
                out[found++] = (uint64_t)row << 32 | column;
        }
    return found;
}

static void check_near(nd_near near, size_t capacity)
{
    size_t most = near.row_end * near.column_end;
    uint64_t *expected = room_for(most, 8), *got = room_for(most, 8), *part = room_for(capacity, 8);
    size_t expected_count = near_by_loops(&near, expected), count = 0;
    while (near.column < near.column_end) {
        size_t found = nd_kernels_active()->near_pairs(&near, part, capacity);
        CHECK(found <= capacity && count + found <= expected_count);
        memcpy(got + count, part, 8 * found);
        count += found;
    }
    qsort(got, count, 8, compare64);
    CHECK(count == expected_count && memcmp(got, expected, 8 * count) == 0);
    free(expected);
    free(got);
    free(part);
}

static void check_near_pairs(void)
{
    static const size_t counts[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 41, 63, 64, 65, 100};
    static const size_t capacities[] = {ND_NEAR_ROOM, ND_NEAR_ROOM + 1, 100, 1000};
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++)
        for (size_t planes = 1; planes <= 4; planes *= 2)
            for (uint64_t distance = 0; distance <= 6; distance += 2) {
                size_t count = counts[n];
                uint64_t *words = room_for(planes * count, 8);
                for (size_t i = 0; i < planes * count; i++)
                    words[i] = (draw() & 7) << (draw() % 3 * 30);
                nd_near near = {.planes = words, .stride = count, .plane_count = planes, .max_distance = distance};
                for (size_t c = 0; c < 4; c++) {
                    near.row = near.next_row = near.column = 0;
                    near.row_end = near.column_end = count;
                    check_near(near, capacities[c]);
                    near.row = near.next_row = draw() % (count + 1);
                    near.row_end = near.row + draw() % (count + 1 - near.row);
                    near.column = near.row_end + draw() % (count + 1 - near.row_end);
                    near.column_end = near.column + draw() % (count + 1 - near.column);
                    check_near(near, capacities[c]);
                }
                free(words);
            }
}

/* ---- may_overlap ------------------------------------------------------------------------------------------------------------ */

static void check_may_overlap(void)
{
    static const size_t word_counts[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 30, 31, 32, 33, 62, 63, 64};
    for (size_t n = 0; n < sizeof word_counts / sizeof word_counts[0]; n++)
        for (size_t block_count = 0; block_count <= 5; block_count++) {
            size_t words = word_counts[n], sets = ND_SET_LANES * block_count, rows = words + 1, found = 0;
            uint64_t *query = room_for(words, 8), *blocks = room_for(block_count * rows * ND_SET_LANES, 8), excess = draw() % 40;
            uint32_t *needed = room_for(block_count, 4), *out = room_for(sets, 4);
            for (size_t w = 0; w < words; w++)
                query[w] = n % 3 == 0 ? UINT64_MAX : draw();
            for (size_t i = 0; i < block_count * rows * ND_SET_LANES; i++)
                blocks[i] = i / ND_SET_LANES % rows == words ? draw() % 40 : (n % 3 == 0 ? UINT64_MAX : draw());
            for (size_t b = 0; b < block_count; b++)
                needed[b] = n % 3 == 0 ? (uint32_t)(64 * words + draw() % 40) : (uint32_t)(16 * words + draw() % 40);
            size_t count = nd_kernels_active()->may_overlap(query, words, excess, blocks, block_count, needed, out);
            for (size_t set = 0; set < sets; set++) {
                const uint64_t *lane = blocks + set / ND_SET_LANES * rows * ND_SET_LANES + set % ND_SET_LANES;
                uint64_t other = lane[words * ND_SET_LANES], most = other < excess ? other : excess;
                for (size_t w = 0; w < words; w++)
                    most += ones_of(query[w] & lane[w * ND_SET_LANES]);
                if (most >= needed[set / ND_SET_LANES])
                    CHECK(found < count && out[found++] == set);
            }
            CHECK(found == count);
            free(query);
            free(blocks);
            free(needed);
            free(out);
        }
}

/* ---- the joins themselves -------------------------------------------------------------------------------------------------------- */

/* Joins arrays in one piece. */
static int join_sets(const uint64_t *values, const uint64_t *ends, size_t count, size_t split, double threshold, nd_pairs *pairs)
{
    nd_set_join *join = nd_set_join_new();
    int status = join == NULL ? ND_ERROR_MEMORY : nd_set_join_begin(join, values, ends, count, split, threshold);
    if (status == ND_OK)
        status = nd_set_join_next(join, SIZE_MAX, pairs);
    nd_set_join_free(join);
    return status == ND_DONE ? ND_OK : status;
}

/* Sets of all lengths around the registers, parts of one another: the answers of the scalar tier. */
static void check_jaccard_pairs(const char *tier)
{
    enum { SETS = 200, LONGEST = 140 };
    uint64_t values[SETS * LONGEST], ends[SETS];
    size_t filled = 0;
    for (size_t s = 0; s < SETS; s++) {
        uint64_t value = 0;
        for (size_t i = draw() % LONGEST; i > 0; i--)
            values[filled++] = value += (1 + draw() % 2) * 0x10000000000003;
        ends[s] = filled;
    }
    nd_pairs *expected = nd_pairs_new(), *got = nd_pairs_new();
    CHECK(expected != NULL && got != NULL);
    for (double threshold = 0.1; threshold < 1; threshold += 0.1) {
        CHECK(nd_isa_force(nd_isa_at(0)) == ND_OK && join_sets(values, ends, SETS, SIZE_MAX, threshold, expected) == ND_OK);
        CHECK(nd_isa_force(tier) == ND_OK && join_sets(values, ends, SETS, SIZE_MAX, threshold, got) == ND_OK);
        size_t count = expected->count;
        CHECK(got->count == count && (threshold > 0.6 || count > 0));
        CHECK(count == 0 || memcmp(expected->ids, got->ids, 16 * count) == 0);
        CHECK(count == 0 || memcmp(expected->similarities, got->similarities, 8 * count) == 0);
    }
    nd_pairs_free(expected);
    nd_pairs_free(got);
}

/* Fills ends[count] and ascending arrays of up to `longest` values below `universe`; returns how many values there are. */
static size_t draw_sets(uint64_t *values, uint64_t *ends, size_t count, size_t longest, uint64_t universe)
{
    size_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        size_t start = filled, kept = start;
        for (size_t n = draw() % (longest + 1); n > 0; n--)
            values[filled++] = draw() % universe;
        qsort(values + start, filled - start, 8, compare64);
        for (size_t at = start; at < filled; at++)
            if (at == start || values[at] != values[at - 1])
                values[kept++] = values[at];
        ends[i] = filled = kept;
    }
    return filled;
}

/* Many short sets, joined by lists, against nd_jaccard of each two; and those of the pairs that cross a cut. */
static void check_lists(size_t count, size_t longest, uint64_t universe, double threshold)
{
    uint64_t *drawn = room_for(count * longest, 8), *ends = room_for(count, 8);
    size_t total = draw_sets(drawn, ends, count, longest, universe), cut = draw() % count, found = 0, crossing = 0;
    uint64_t *values = room_for(total, 8);
    memcpy(values, drawn, 8 * total);
    nd_pairs *pairs = nd_pairs_new(), *between = nd_pairs_new();
    CHECK(join_sets(values, ends, count, SIZE_MAX, threshold, pairs) == ND_OK);
    CHECK(join_sets(values, ends, count, cut, threshold, between) == ND_OK);
    for (size_t i = 0, start = 0; i < count; start = ends[i++])
        for (size_t j = i + 1; j < count; j++) {
            size_t other = ends[j - 1];
            double similarity = nd_jaccard(values + start, ends[i] - start, values + other, ends[j] - other, threshold);
            if (similarity < threshold)
                continue;
            const int64_t pair[2] = {(int64_t)i, (int64_t)j};
            CHECK(found < pairs->count && memcmp(pairs->ids + 2 * found, pair, sizeof pair) == 0);
            CHECK(memcmp(pairs->similarities + found++, &similarity, sizeof similarity) == 0);
            if (i < cut && j >= cut)
                CHECK(memcmp(between->ids + 2 * crossing++, pair, sizeof pair) == 0);
        }
    CHECK(found == pairs->count && crossing == between->count);
    nd_pairs_free(pairs);
    nd_pairs_free(between);
    free(drawn);
    free(ends);
    free(values);
}

/* Codes in clusters, joined by every kind of table and by comparing all: the same pairs. */
static void check_find_all(void)
{
    enum { COUNT = 1500 };
    static const size_t bits_of_codes[] = {24, 64, 72, 128, 136, 256, 512}, distances[] = {2, 7, 5, 20, 3, 31, 60};
    size_t kinds[3] = {0}; /* without tables, with radii of 0, with larger ones */
    for (size_t n = 0; n < 7; n++) {
        size_t bits = bits_of_codes[n], size = bits / 8, distance = distances[n], expected = 0;
        uint8_t *codes = room_for(COUNT, size);
        for (size_t i = 0; i < COUNT * size; i++)
            codes[i] = (uint8_t)(draw() >> 20);
        for (size_t i = COUNT / 2; i < COUNT; i++) {
            memcpy(codes + i * size, codes + draw() % (COUNT / 2) * size, size);
            for (size_t flips = distance - 1 + draw() % 4; flips > 0; flips--)
                codes[i * size + draw() % size] ^= (uint8_t)(1 << draw() % 8);
        }
        for (size_t i = 0; i < COUNT; i++)
            for (size_t j = i + 1; j < COUNT; j++)
                expected += nd_hamming(codes + i * size, codes + j * size, size) <= distance;
        nd_pairs *pairs = nd_pairs_new();
        CHECK(nd_find_all(codes, COUNT, SIZE_MAX, bits, distance, pairs) == ND_OK);
        CHECK(pairs->count == expected && expected > 100);
        const int64_t *ids = pairs->ids;
        for (size_t i = 0; i < expected; i++) {
            CHECK(ids[2 * i] < ids[2 * i + 1]);
            CHECK(i == 0 || ids[2 * i - 2] < ids[2 * i] || (ids[2 * i - 2] == ids[2 * i] && ids[2 * i - 1] < ids[2 * i + 1]));
        }
        /* The tables of larger collections: more and narrower buckets, chunks with a radius of 0, 1 and 2. */
        for (size_t many = 1000; many <= 10000000; many *= 10) {
            nd_join_plan plan = nd_plan_join(many, bits, distance);
            CHECK(nd_join_codes(codes, COUNT, ND_NO_SPLIT, &plan, pairs) == ND_OK);
            CHECK(pairs->count == expected);
            kinds[plan.chunks == 0 ? 0 : plan.chunks == distance + 1 ? 1 : 2]++;
        }
        nd_pairs_free(pairs);
        free(codes);
    }
    CHECK(kinds[0] > 0 && kinds[1] > 0 && kinds[2] > 0);
}

int main(void)
{
    for (int i = 0; i < nd_isa_count(); i++) {
        CHECK(nd_isa_force(nd_isa_at(i)) == ND_OK);
        check_near_pairs();
        check_may_overlap();
        check_find_all();
        check_lists(1500, 9, 500, 0.4);
        check_lists(1500, 3, 2000, 0.3);
        check_lists(1000, 8, 20, 0.7);
        check_jaccard_pairs(nd_isa_at(i));
        printf("%s: ok\n", nd_isa_at(i));
    }
    CHECK(nd_isa_force(NULL) == ND_OK);
    return 0;
}
