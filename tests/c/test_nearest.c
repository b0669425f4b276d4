/* test_nearest.c: the nearest entries are those within the smallest distance that holds as many as are wanted, row by row in any order
 * of their distances. */
#include "check.h"
#include "neardup_buckets.h"

#define MOST 3000
#define LONGEST (ND_BITS_MAX / 8)

/* Codes at distances that fall, rise or come as they may, many of them equal. */
static void draw_code(uint8_t *code, size_t size, size_t place, size_t count, int order)
{
    size_t bits = order == 0 ? draw() % (8 * size + 1) : (order == 1 ? place : count - 1 - place) * 8 * size / count;
    memset(code, 0, size);
    for (size_t bit = 0; bit < bits; bit++)
        code[bit / 8] |= (uint8_t)(128 >> bit % 8);
}

static void check_nearest(nd_nearest *nearest, size_t count, size_t size, size_t row, uint64_t wanted, int order)
{
    static uint8_t codes[MOST * LONGEST], bytes[MOST * (LONGEST + 8) + 5];
    static int64_t ids[MOST];
    const uint8_t asked[LONGEST] = {0};
    size_t within[8 * LONGEST + 1] = {0};
    nd_entries entries;
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int64_t)i;
        draw_code(codes + i * size, size, i, count, order);
        within[nd_hamming(codes + i * size, asked, size)]++;
    }
    CHECK(nd_nearest_begin(nearest, asked, size, wanted) == ND_OK);
    for (size_t first = 0; first < count; first += row) {
        size_t some = count - first < row ? count - first : row;
        nd_entries_write(ids + first, codes + first * size, some, size, bytes);
        CHECK(nd_entries_read(bytes, nd_entries_size(ids + first, some, size), size, &entries) == ND_OK);
        CHECK(nd_nearest_add(nearest, &entries) == ND_OK);
    }
    size_t expected = 0, bound = 0;
    while (wanted > 0 && bound <= 8 * size && (expected += within[bound]) < wanted)
        bound++;
    const nd_nearest_entry *found;
    CHECK(nd_nearest_entries(nearest, &found) == expected);
    for (size_t i = 0; i < expected; i++) {
        CHECK(found[i].distance <= bound && (i == 0 || found[i].id > found[i - 1].id));
        CHECK(found[i].distance == nd_hamming(codes + (size_t)found[i].id * size, asked, size));
    }
}

int main(void)
{
    static const size_t sizes[] = {1, 8, 9, 32, LONGEST};
    static const uint64_t wanted[] = {0, 1, 2, 10, 999, MOST, UINT64_MAX};
    const uint8_t code[LONGEST + 1] = {0};
    nd_nearest *nearest = nd_nearest_new();
    CHECK(nearest != NULL);
    CHECK(nd_nearest_begin(nearest, code, 0, 1) == ND_ERROR_PARAMETER);
    CHECK(nd_nearest_begin(nearest, code, LONGEST + 1, 1) == ND_ERROR_PARAMETER);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof wanted / sizeof wanted[0]; j++)
            for (int order = 0; order < 3; order++) {
                check_nearest(nearest, MOST, sizes[i], 1 + draw() % 300, wanted[j], order);
                check_nearest(nearest, draw() % 50, sizes[i], 7, wanted[j], order);
            }
    nd_nearest_free(nearest);
    return 0;
}
