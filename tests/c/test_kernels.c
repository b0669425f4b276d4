/* test_kernels.c: each kernel of each tier against plain loops, at lengths around the width of the registers and of the
 * counters, at every alignment, with buffers that end where the data ends, so that a sanitizer sees any step beyond. */
#include "check.h"
#include "kernels/kernels.h"

/* Around 2, 4, 8, 16, 32 and 64 lanes, the 255 of a byte, the 512 of a block of hashes and the 1,984 of vertical counters. */
static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 95, 127, 128, 129, 254, 255,
    256, 511, 512, 513, 1983, 1984, 1985, 4001};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

static uint64_t *words(size_t count)
{
    return (uint64_t *)(void *)skewed(8 * count, 0);
}

static void check_fold_hashes(const nd_kernels *kernels)
{
    for (size_t count = 0; count <= 70; count++) {
        uint64_t *hashes = (uint64_t *)(void *)skewed(8 * count, 0);
        uint32_t got[71];
        kernels->fold_hashes(hashes, count, got);
        for (size_t i = 0; i < count; i++)
            CHECK(got[i] == (uint32_t)(nd_fold(nd_fold(hashes[i])) >> 32));
        free(hashes);
    }
}

/* 0, then 32 bits of random bytes: minima are never reached before the update and may be. */
static void check_minhash_update(const nd_kernels *kernels)
{
    static const size_t perms[] = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 63, 64, 100, 127, 128, 129, 143, 144,
        145, 160, 161, 256, 300};
    for (size_t p = 0; p < sizeof perms / sizeof perms[0]; p++)
        for (size_t count = 0; count <= 70; count += 1 + count / 3) {
            size_t size = 4 * perms[p];
            uint32_t *a = (uint32_t *)(void *)skewed(size, 0), *b = (uint32_t *)(void *)skewed(size, 0);
            uint32_t *x = (uint32_t *)(void *)skewed(4 * count, 0), *got = (uint32_t *)(void *)skewed(size, 0);
            uint32_t *expected = malloc(size + 1), offset = count % 2 == 0 ? 0 : 0x80000000u;
            CHECK(expected != NULL);
            for (size_t i = 0; i < perms[p]; i++) {
                got[i] |= draw() % 2 == 0 ? 0xffffffff : 0;
                expected[i] = got[i];
                for (size_t j = 0; j < count; j++) {
                    uint32_t hash = a[i] * x[j] + b[i] + offset;
                    expected[i] = hash < expected[i] ? hash : expected[i];
                }
            }
            kernels->minhash_update(a, b, offset, perms[p], x, count, got);
            CHECK(memcmp(expected, got, size) == 0);
            free(a);
            free(b);
            free(x);
            free(got);
            free(expected);
        }
}

/* Every width of digests, the columns of which are counted eight bytes at a time. */
static void check_simhash(void)
{
    static int64_t counters[8 * 33];
    for (size_t width = 1; width <= 33; width++)
        for (size_t n = 0; n < LENGTHS; n++) {
            size_t count = lengths[n], stride = width + n % 3, skew = (width + n) % 8;
            if (count > 600 && width % 5 != 3)
                continue;
            uint8_t *digests = skewed(count * stride, skew), expected[33] = {0}, got[33] = {0};
            for (size_t bit = 0; bit < 8 * width; bit++) {
                size_t ones = 0;
                for (size_t j = 0; j < count; j++)
                    ones += digests[j * stride + bit / 8] >> (7 - bit % 8) & 1;
                if (2 * ones > count)
                    expected[bit / 8] |= (uint8_t)(128 >> bit % 8);
            }
            CHECK(nd_simhash(digests, count, stride, 8 * width, NULL, counters, got) == ND_OK);
            CHECK(memcmp(expected, got, width) == 0);
            free(digests - skew);
        }
}

/* Counts come on top of what stood there: started from different numbers for every bit. */
static void check_count_bits64(const nd_kernels *kernels)
{
    int64_t expected[64], got[64];
    for (int dense = 0; dense < 3; dense++) /* random, all bits set, runs of ones: counters that fill */
        for (size_t n = 0; n < LENGTHS; n++) {
            uint64_t *hashes = words(lengths[n]);
            for (size_t bit = 0; bit < 64; bit++)
                expected[bit] = got[bit] = (int64_t)draw() >> 8;
            for (size_t j = 0; j < lengths[n]; j++) {
                if (dense > 0)
                    hashes[j] = dense == 1 ? UINT64_MAX : UINT64_MAX << draw() % 64;
                for (size_t bit = 0; bit < 64; bit++)
                    expected[bit] += (int64_t)(hashes[j] >> (63 - bit) & 1);
            }
            kernels->count_bits64(hashes, lengths[n], got);
            CHECK(memcmp(expected, got, sizeof expected) == 0);
            free(hashes);
        }
}

static void check_add_weights(const nd_kernels *kernels)
{
    static uint64_t expected[8 * 33], got[8 * 33];
    for (size_t width = 0; width <= 33; width++)
        for (size_t n = 0; lengths[n] <= 65; n++) {
            size_t count = lengths[n], stride = width + n % 3, skew = (width + n) % 8;
            uint8_t *digests = skewed(count == 0 ? 0 : (count - 1) * stride + width, skew);
            uint64_t *weights = words(count);
            for (size_t bit = 0; bit < 8 * width; bit++)
                expected[bit] = got[bit] = draw();
            for (size_t j = 0; j < count; j++)
                for (size_t bit = 0; bit < 8 * width; bit++)
                    expected[bit] += digests[j * stride + bit / 8] >> (7 - bit % 8) & 1 ? weights[j] : 0;
            kernels->add_weights(digests, count, stride, width, (const int64_t *)weights, got);
            CHECK(memcmp(expected, got, 64 * width) == 0);
            free(weights);
            free(digests - skew);
        }
}

/* Codes, the one sought and the room for places end where their memory ends. */
static void check_near(const nd_kernels *kernels, size_t size, size_t count, size_t skew, uint64_t most)
{
    uint8_t *codes = skewed(size * count, skew), *code = skewed(size, 7 - skew);
    uint32_t *found = (uint32_t *)(void *)skewed(4 * count, 0);
    for (size_t i = 0; i < count; i++) { /* of each second one a few bits differ */
        if (draw() % 2 == 0)
            continue;
        memcpy(codes + i * size, code, size);
        for (size_t flips = draw() % 12; flips > 0; flips--)
            codes[i * size + draw() % size] ^= (uint8_t)(1 << draw() % 8);
    }
    size_t kept = kernels->keep_near(codes, count, size, code, most, found), next = 0;
    CHECK(kept <= count);
    for (size_t i = 0; i < count; i++) {
        uint64_t distance = 0;
        for (size_t j = 0; j < size; j++)
            distance += (uint64_t)__builtin_popcount(codes[i * size + j] ^ code[j]);
        if (distance <= most)
            CHECK(next < kept && found[next++] == i);
    }
    CHECK(next == kept);
    free(codes - skew);
    free(code - (7 - skew));
    free(found);
}

static void check_keep_near(const nd_kernels *kernels)
{
    static const size_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 127, 128, 512};
    static const uint64_t distances[] = {0, 1, 3, 10, 32, 4096, (uint64_t)INT64_MAX, UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t count = 0; count < 70; count += count < 18 ? 1 : 13)
            for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++)
                check_near(kernels, sizes[s], count, (s + count + i) % 8, distances[i]);
}

/* Hashes spread evenly, many repeats, few distinct ones, ascending, descending, of 32 bits, all in the last places. */
static void check_bottom_k(void)
{
    static const size_t ks[] = {1, 2, 7, 64, 128, 129, 1000, 3000};
    for (int kind = 0; kind < 8; kind++)
        for (size_t n = 0; n < LENGTHS; n++)
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
                size_t count = lengths[n], k = ks[i], got_count, distinct;
                uint64_t *hashes = words(count), *sorted = malloc(8 * count + 1), *got = malloc(8 * k);
                CHECK(sorted != NULL && got != NULL);
                for (size_t j = 0; j < count; j++) {
                    if (kind == 1)
                        hashes[j] = hashes[draw() % (j / 8 + 1)];
                    else if (kind == 2)
                        hashes[j] = UINT64_MAX - draw() % 9;
                    else if (kind == 3)
                        hashes[j] = (uint64_t)j << 40;
                    else if (kind == 4)
                        hashes[j] = (uint64_t)(count - j);
                    else if (kind == 5)
                        hashes[j] >>= 32;
                    else if (kind == 6 && j < count - count / 4)
                        hashes[j] |= (uint64_t)1 << 63;
                    else if (kind == 7)
                        hashes[j] = (draw() % 16) << 60 | ((uint64_t)1 << 59) | (count - j);
                }
                memcpy(sorted, hashes, 8 * count);
                distinct = nd_sort_distinct(sorted, count);
                CHECK(nd_bottom_k(hashes, count, k, got, &got_count) == ND_OK);
                CHECK(got_count == (distinct < k ? distinct : k));
                CHECK(memcmp(sorted, got, 8 * got_count) == 0);
                free(hashes);
                free(sorted);
                free(got);
            }
}

int main(void)
{
    for (int i = 0; i < nd_isa_count(); i++) {
        CHECK(nd_isa_force(nd_isa_at(i)) == ND_OK);
        const nd_kernels *kernels = nd_kernels_active();
        check_fold_hashes(kernels);
        check_minhash_update(kernels);
        check_simhash();
        check_count_bits64(kernels);
        check_add_weights(kernels);
        check_keep_near(kernels);
        check_bottom_k();
        printf("%s: ok\n", nd_isa_at(i));
    }
    CHECK(nd_isa_force(NULL) == ND_OK);
    return 0;
}
