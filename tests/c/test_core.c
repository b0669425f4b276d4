/* test_core.c: every tier of kernels against the scalar one, bit for bit, at lengths around the width of the registers and at
 * every alignment; buffers end where the data ends, so that a sanitizer sees any step beyond. */
#include "check.h"

/* Lengths around 4, 8, 16, 32 lanes, around the 255 of byte counters and the 512 of a block of hashes. */
static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 254, 255, 256, 510,
    511, 512, 513, 1025};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

static void check_minhash(const char *tier, int32_t family)
{
    static uint32_t a[1025], b[1025], expected[1025], got[1025];
    static uint64_t hashes[1025];
    CHECK(nd_minhash_coefficients(family, 7, 1025, a, b) == ND_OK);
    for (size_t i = 0; i < 1025; i++)
        hashes[i] = draw();
    for (size_t p = 0; p < LENGTHS; p++)
        for (size_t n = 1; n < LENGTHS; n++) {
            CHECK(nd_isa_force(nd_isa_at(0)) == ND_OK);
            CHECK(nd_minhash(family, a, b, lengths[p], hashes, lengths[n], expected) == ND_OK);
            CHECK(nd_isa_force(tier) == ND_OK);
            CHECK(nd_minhash(family, a, b, lengths[p], hashes, lengths[n], got) == ND_OK);
            CHECK(memcmp(expected, got, 4 * lengths[p]) == 0);
        }
}

static void check_simhash(const char *tier)
{
    static int64_t counters[256];
    uint8_t expected[32], got[32];
    for (size_t size = 1; size <= 32; size++)
        for (size_t n = 0; n < LENGTHS; n++) {
            size_t skew = (size + n) % 8;
            uint8_t *digests = skewed(size * lengths[n], skew);
            CHECK(nd_isa_force(nd_isa_at(0)) == ND_OK);
            CHECK(nd_simhash(digests, lengths[n], size, 8 * size, NULL, counters, expected) == ND_OK);
            CHECK(nd_isa_force(tier) == ND_OK);
            CHECK(nd_simhash(digests, lengths[n], size, 8 * size, NULL, counters, got) == ND_OK);
            CHECK(memcmp(expected, got, size) == 0);
            free(digests - skew);
        }
}

static void check_hamming(const char *tier)
{
    for (size_t n = 0; n < LENGTHS; n++)
        for (size_t skew = 0; skew < 8; skew++) {
            size_t size = lengths[n];
            uint8_t *a = skewed(size, skew), *b = skewed(size, 7 - skew);
            uint64_t expected = 0;
            for (size_t i = 0; i < 8 * size; i++)
                expected += (unsigned)(a[i / 8] ^ b[i / 8]) >> i % 8 & 1;
            CHECK(nd_isa_force(tier) == ND_OK);
            CHECK(nd_hamming(a, b, size) == expected);
            free(a - skew);
            free(b - (7 - skew));
        }
}

static void check_slots(const char *tier, int32_t slot_bits)
{
    for (size_t n = 1; n < LENGTHS; n++)
        for (size_t skew = 0; skew < 4; skew++) {
            nd_scheme scheme = {.kind = ND_SCHEME_MINHASH, .num_perm = (int32_t)lengths[n], .slot_bits = slot_bits};
            size_t slot = (size_t)slot_bits / 8, size = slot * lengths[n], equal = 0;
            uint8_t *a = skewed(size, skew), *b = skewed(size, 3 - skew);
            memcpy(b, a, size);
            for (size_t i = 0; i < lengths[n]; i++) {
                int differs = draw() % 3 == 0;
                if (differs)
                    b[slot * i + draw() % slot] ^= (uint8_t)(1 << draw() % 8);
                equal += !differs;
            }
            double similarity;
            int64_t distance;
            CHECK(nd_isa_force(tier) == ND_OK);
            CHECK(nd_scheme_similarity(&scheme, a, size, b, size, &similarity, &distance) == ND_OK);
            CHECK(similarity == (double)equal / (double)lengths[n] && distance == -1);
            free(a - skew);
            free(b - (3 - skew));
        }
}

/* Two ascending arrays with a given share of common values. */
static size_t make_sets(size_t a_count, size_t b_count, unsigned common_percent, uint64_t *a, uint64_t *b)
{
    size_t i = 0, j = 0, common = 0;
    uint64_t value = 0;
    while (i < a_count || j < b_count) {
        value += 1 + draw() % 5;
        if (i < a_count && j < b_count && draw() % 100 < common_percent) {
            a[i++] = b[j++] = value;
            common++;
        } else if (j == b_count || (i < a_count && draw() % 2 == 0)) {
            a[i++] = value;
        } else {
            b[j++] = value;
        }
    }
    return common;
}

static void check_jaccard(const char *tier)
{
    static const double thresholds[] = {0, 0.3, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1};
    for (size_t n = 1; n < LENGTHS; n++)
        for (size_t m = 1; m < LENGTHS; m++)
            for (unsigned percent = 0; percent <= 100; percent += 20) {
                uint64_t *a = room_for(lengths[n], 8), *b = room_for(lengths[m], 8);
                size_t common = make_sets(lengths[n], lengths[m], percent, a, b);
                double exact = (double)common / (double)(lengths[n] + lengths[m] - common);
                CHECK(nd_isa_force(tier) == ND_OK);
                for (size_t t = 0; t < sizeof thresholds / sizeof thresholds[0]; t++)
                    CHECK(nd_jaccard(a, lengths[n], b, lengths[m], thresholds[t]) == (exact >= thresholds[t] ? exact : 0.0));
                CHECK(nd_jaccard(a, lengths[n], b, lengths[m], exact) == exact); /* exactly met, and missed by the least */
                CHECK(nd_jaccard(a, lengths[n], b, lengths[m], exact * (1 + 0x1p-52)) == 0.0);
                free(a);
                free(b);
            }
}

#define BANDED .kind = ND_SCHEME_MINHASH, .plan = ND_PLAN_BANDS, .num_perm = 9, .threshold = 0.8

/* Values of lengths that no scheme stores are refused, whatever the scheme, and valid ones give keys. */
static void check_values(void)
{
    static const nd_scheme schemes[] = {
        {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_BLOCKS, .bits = 64, .max_distance = 3, .blocks = 6},
        {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_BLOCKS, .bits = 128, .max_distance = 3, .blocks = 4},
        {.kind = ND_SCHEME_BINARYCODE, .plan = ND_PLAN_CHUNKS, .bits = 256, .max_distance = 31, .chunks = 16},
        {.kind = ND_SCHEME_BITSAMPLING, .plan = ND_PLAN_CHUNKS, .bits = 72, .max_distance = 5, .chunks = 2},
        {BANDED, .bands = 3, .rows = 3, .slot_bits = 16},
        {BANDED, .bands = 9, .rows = 1, .slot_bits = 16, .evidence = ND_EVIDENCE_PACKED},
        {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 4, .threshold = 0.5},
        {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 4, .threshold = 0.5, .containment = 1},
    };
    nd_keys *keys = nd_keys_new();
    for (size_t s = 0; s < sizeof schemes / sizeof schemes[0]; s++) {
        char message[200];
        CHECK(nd_scheme_check(&schemes[s], message, sizeof message) == ND_OK);
        for (size_t size = 0; size <= 80; size++) {
            uint8_t *value = skewed(size, size % 3);
            memset(value, 0, size);
            for (size_t i = 0; i < size; i += 8)
                value[i] = (uint8_t)i;
            int possible = nd_scheme_value_check(&schemes[s], value, size) == ND_OK;
            CHECK(nd_scheme_file_keys(&schemes[s], 0, value, size, keys) == (possible ? ND_OK : ND_ERROR_DAMAGED));
            CHECK((keys->count > 0) == possible);
            CHECK(nd_scheme_probe_keys(&schemes[s], 0, value, size, keys) == (possible ? ND_OK : ND_ERROR_DAMAGED));
            CHECK((keys->count > 0) == possible);
            if (schemes[s].containment) {
                int status = nd_scheme_containment_keys(&schemes[s], value, size, 0.5, keys);
                CHECK(status == (possible ? ND_OK : ND_ERROR_DAMAGED));
                CHECK((keys->count > 0) == possible);
            }
            free(value - size % 3);
        }
    }
    nd_keys_free(keys);
}

/* Rows of buckets of every size of code and width of id, in memory that ends where they end. */
static void check_entries(void)
{
    static const int64_t ids[][3] = {{1, 0, 255}, {256, 65535, 3}, {65536, 1, 1}, {1 << 24, 5, 9}, {(int64_t)1 << 32, 1, 2},
        {(int64_t)1 << 40, 7, 8}, {(int64_t)1 << 48, 7, 8}, {INT64_MAX, 0, 1}};
    for (size_t width = 1; width <= 8; width++)
        for (size_t code_size = 1; code_size <= 512; code_size += code_size < 70 ? 1 : 63) {
            const int64_t *own = ids[width - 1];
            uint8_t *codes = skewed(3 * code_size, code_size % 8);
            for (size_t i = 0; i < 3 * code_size; i++)
                codes[i] = (uint8_t)(5 * i);
            size_t size = nd_entries_size(own, 3, code_size);
            CHECK(size == 5 + 3 * (code_size + width));
            uint8_t *bytes = skewed(size, width % 8);
            nd_entries_write(own, codes, 3, code_size, bytes);
            nd_entries entries;
            CHECK(nd_entries_read(bytes, size, code_size, &entries) == ND_OK && entries.count == 3 && entries.id_size == width);
            CHECK(memcmp(entries.codes, codes, 3 * code_size) == 0);
            uint32_t places[3];
            for (size_t i = 0; i < 3; i++) {
                CHECK(nd_entries_id(&entries, i) == own[i]);
                CHECK(nd_entries_near(&entries, codes + i * code_size, 8 * code_size, places) == 3 && places[2] == 2);
                CHECK(nd_entries_near(&entries, codes + i * code_size, 0, places) >= 1);
            }
            CHECK(nd_entries_read(bytes, 0, code_size, &entries) == ND_ERROR_DAMAGED);
            CHECK(nd_entries_read(bytes, 5, code_size, &entries) == ND_ERROR_DAMAGED);
            CHECK(nd_entries_read(bytes, size, 0, &entries) == ND_ERROR_DAMAGED);
            CHECK(nd_entries_read(bytes, size - 1, code_size, &entries) == ND_ERROR_DAMAGED);
            bytes[4] = (uint8_t)(width % 2 == 0 ? 0 : 9);
            CHECK(nd_entries_read(bytes, size, code_size, &entries) == ND_ERROR_DAMAGED);
            free(bytes - width % 8);
            free(codes - code_size % 8);
        }
}

int main(void)
{
    CHECK(nd_isa_count() >= 1 && (strcmp(nd_isa_at(0), "scalar") == 0 || strcmp(nd_isa_at(0), "neon") == 0) &&
          nd_isa_at(nd_isa_count()) == NULL);
    CHECK(nd_isa_force("no such tier") == ND_ERROR_PARAMETER);
    for (int i = 0; i < nd_isa_count(); i++) {
        const char *tier = nd_isa_at(i);
        check_minhash(tier, ND_FAMILY_AFFINE32);
        check_minhash(tier, ND_FAMILY_JAVA32);
        check_simhash(tier);
        check_hamming(tier);
        check_slots(tier, 16);
        check_slots(tier, 32);
        check_jaccard(tier);
        check_values();
        check_entries();
        printf("%s: ok\n", tier);
    }
    CHECK(nd_isa_force(NULL) == ND_OK);
    return 0;
}
