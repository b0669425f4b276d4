/* fuzz_sketches.c: the arithmetic of fingerprints, comparisons and keys on any numbers: what a plain loop gives, by every tier. */
#include "fuzz.h"

#define COUNT_MAX 1500

static int compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

typedef struct numbers {
    uint64_t *items;
    size_t count;
} numbers;

/* Numbers of the width that the input chooses, so that some are equal. */
static numbers take_numbers(input *from, size_t most)
{
    const size_t width = 1 + take_choice(from, 8);
    numbers out = {NULL, take_number(from, 2) % (most + 1)};
    if (out.count > from->size / width)
        out.count = from->size / width;
    out.items = (uint64_t *)(void *)guarded(out.count * sizeof *out.items, 0);
    for (size_t i = 0; i < out.count; i++)
        out.items[i] = take_number(from, width) << (take_byte(from) == 255 ? 8 * (8 - width) : 0);
    return out;
}

static numbers distinct(numbers of)
{
    numbers out = {(uint64_t *)(void *)guarded(of.count * sizeof *out.items, 0), 0};
    memcpy(out.items, of.items, of.count * sizeof *out.items);
    qsort(out.items, of.count, sizeof *out.items, compare);
    for (size_t i = 0; i < of.count; i++)
        if (i == 0 || out.items[i] != out.items[out.count - 1])
            out.items[out.count++] = out.items[i];
    /* Of exactly that size, so that a step beyond is seen. */
    uint64_t *exact = (uint64_t *)(void *)guarded(out.count * sizeof *exact, 0);
    memcpy(exact, out.items, out.count * sizeof *exact);
    free_guarded(out.items, 0);
    out.items = exact;
    return out;
}

/* ---- fingerprints -------------------------------------------------------------------------------------------------------------- */

static void check_sorted(const numbers *of, const numbers *sorted, size_t k)
{
    uint64_t *copy = (uint64_t *)(void *)guarded(of->count * sizeof *copy, 0),
             *out = (uint64_t *)(void *)guarded(k * sizeof *out, 0);
    size_t count;
    memcpy(copy, of->items, of->count * sizeof *copy);
    PROMISE(nd_sort_distinct(copy, of->count) == sorted->count);
    PROMISE(memcmp(copy, sorted->items, sorted->count * sizeof *copy) == 0);
    EACH_TIER(tier)
    {
        PROMISE(nd_bottom_k(of->items, of->count, k, out, &count) == (k > 0 ? ND_OK : ND_ERROR_PARAMETER));
        PROMISE(count == (sorted->count < k ? sorted->count : k) && memcmp(out, sorted->items, count * sizeof *out) == 0);
    }
    free_guarded(copy, 0);
    free_guarded(out, 0);
}

static void check_simhash(input *from, const numbers *of)
{
    const size_t hash_bits = take_choice(from, 2) ? 32 : 64, bits = 8 * (1 + take_choice(from, hash_bits / 8));
    const int weighted = take_choice(from, 3) == 0;
    int64_t *weights = (int64_t *)(void *)guarded(of->count * sizeof *weights, 0), counters[64];
    uint8_t *code = guarded(bits / 8, 0), *digests = guarded(of->count * hash_bits / 8, 0), wanted[8] = {0};
    const unsigned shift = (unsigned)take_choice(from, 64);
    uint64_t rest = INT64_MAX;
    int fits = 1;
    for (size_t i = 0; i < of->count; i++) {
        const uint64_t pattern = of->items[i] * 0x9E3779B97F4A7C15u >> shift;
        memcpy(&weights[i], &pattern, sizeof pattern);
        const uint64_t size = weights[i] < 0 ? 0 - pattern : pattern;
        fits = fits && size <= rest;
        rest -= fits ? size : 0;
        for (size_t j = 0; j < hash_bits / 8; j++)
            digests[i * hash_bits / 8 + j] = (uint8_t)(of->items[i] >> (hash_bits - 8 - 8 * j));
    }
    for (size_t bit = 0; fits && bit < bits; bit++) {
        int64_t sum = 0;
        for (size_t i = 0; i < of->count; i++) {
            const int64_t weight = weighted ? weights[i] : 1;
            sum += of->items[i] >> (hash_bits - 1 - bit) & 1 ? weight : -weight;
        }
        if (sum > 0)
            wanted[bit / 8] = (uint8_t)(wanted[bit / 8] | 0x80 >> bit % 8);
    }
    const int possible = !weighted || fits;
    EACH_TIER(tier)
    {
        const int64_t *const use = weighted ? weights : NULL;
        PROMISE(
            nd_simhash(digests, of->count, hash_bits / 8, bits, use, counters, code) == (possible ? ND_OK : ND_ERROR_PARAMETER));
        PROMISE(!possible || !fits || memcmp(code, wanted, bits / 8) == 0);
    }
    free_guarded(weights, 0);
    free_guarded(code, 0);
    free_guarded(digests, 0);
}

/* The formulas of docs/reference/format.md, one hash and one slot after another. */
static void check_minhash(input *from, const numbers *of)
{
    const size_t num_perm = 1 + take_choice(from, 80), room = num_perm * sizeof(uint32_t);
    const int32_t family = (int32_t)take_choice(from, 2);
    uint32_t *a = (uint32_t *)(void *)guarded(room, 0), *b = (uint32_t *)(void *)guarded(room, 0);
    uint32_t *slots = (uint32_t *)(void *)guarded(room, 0), wanted[80];
    uint8_t code[10];
    PROMISE(nd_minhash_coefficients(family, take_number(from, 8), num_perm, a, b) == ND_OK);
    for (size_t i = 0; i < num_perm; i++) {
        uint32_t least = UINT32_MAX;
        for (size_t j = 0; j < of->count; j++) {
            uint64_t h = of->items[j];
            h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
            h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
            uint32_t x = family == ND_FAMILY_AFFINE32 ? (uint32_t)(h >> 32) : (uint32_t)of->items[j];
            x = a[i] * x + b[i] + (family == ND_FAMILY_JAVA32 ? 0x80000000u : 0);
            least = x < least ? x : least;
        }
        wanted[i] = least - 0x80000000u;
        if (family == ND_FAMILY_AFFINE32) {
            least = (least ^ least >> 16) * 0x85EBCA6Bu;
            least = (least ^ least >> 13) * 0xC2B2AE35u;
            wanted[i] = least ^ least >> 16;
        }
    }
    EACH_TIER(tier)
    {
        const int status = nd_minhash(family, a, b, num_perm, of->items, of->count, slots);
        PROMISE(status == (of->count > 0 ? ND_OK : ND_ERROR_PARAMETER));
        PROMISE(status != ND_OK || memcmp(slots, wanted, room) == 0);
    }
    nd_bit_sample(slots, of->count > 0 ? num_perm : 0, code);
    if (of->count > 0)
        for (size_t i = 0; i < num_perm; i++)
            PROMISE((code[i / 8] >> (7 - i % 8) & 1) == (slots[i] & 1));
    free_guarded(a, 0);
    free_guarded(b, 0);
    free_guarded(slots, 0);
}

/* ---- comparisons --------------------------------------------------------------------------------------------------------------- */

static double take_threshold(input *from)
{
    double threshold;
    uint64_t pattern = take_number(from, 8);
    if (take_choice(from, 2) == 0)
        return (double)(1 + pattern % 1000) / (double)(1 + pattern % 1000 + (pattern >> 32) % 1000);
    memcpy(&threshold, &pattern, sizeof threshold);
    return threshold > 0 && threshold <= 1 ? threshold : 0.5;
}

static void check_bounds(size_t total, double threshold)
{
    size_t needed = 0, share = 0;
    while (needed <= total / 2 && (total == 0 || !((double)needed / (double)(total - needed) >= threshold)))
        needed++;
    if (total > 0)
        PROMISE(nd_overlap_needed(total, threshold) == (needed <= total / 2 ? needed : total + 1));
    while (share <= total && !((double)share / (double)total >= threshold))
        share++;
    if (total > 0)
        PROMISE(nd_prefix_count(total, threshold) == (share == 0 ? total : total + 1 - share));
}

static void check_jaccard(input *from, const numbers *a, const numbers *b)
{
    const double threshold = take_threshold(from);
    const size_t k = 1 + take_number(from, 2) % 2000;
    size_t common = 0, seen = 0, in_both = 0;
    for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
        const int left = j == b->count || (i < a->count && a->items[i] <= b->items[j]);
        const int right = i == a->count || (j < b->count && b->items[j] <= a->items[i]);
        common += left && right;
        in_both += left && right && seen < k;
        seen++;
        i += (size_t)left;
        j += (size_t)right;
    }
    const double whole = seen == 0 ? 0.0 : (double)common / (double)seen;
    const double estimate = seen == 0 ? 0.0 : (double)in_both / (double)(seen < k ? seen : k);
    EACH_TIER(tier)
    {
        PROMISE(nd_jaccard(a->items, a->count, b->items, b->count, 0) == whole);
        PROMISE(nd_jaccard(a->items, a->count, b->items, b->count, threshold) == (whole >= threshold ? whole : 0.0));
        PROMISE(nd_jaccard(b->items, b->count, a->items, a->count, threshold) == (whole >= threshold ? whole : 0.0));
        PROMISE(nd_jaccard_estimate(a->items, a->count, b->items, b->count, k) == estimate);
        PROMISE(nd_jaccard_estimate(b->items, b->count, a->items, a->count, k) == estimate);
        PROMISE(
            nd_containment(a->items, a->count, b->items, b->count) == (a->count == 0 ? 0.0 : (double)common / (double)a->count));
        const double contained = nd_containment_estimate(a->items, a->count, b->items, b->count, k);
        PROMISE(contained == -1.0 || (contained >= 0 && contained <= 1));
    }
    check_bounds(a->count + b->count, threshold);
}

static void check_bytes(input *from)
{
    const size_t skew_a = take_choice(from, 8), skew_b = take_choice(from, 8);
    size_t size, rest;
    uint8_t *a = take_bytes(from, from->size / 2, skew_a, &size), *b = take_bytes(from, size, skew_b, &rest);
    uint64_t differing = 0;
    size_t equal[2] = {0, 0};
    PROMISE(rest == size);
    for (size_t i = 0; i < size; i++)
        differing += (uint64_t)__builtin_popcount((unsigned)(a[i] ^ b[i]));
    for (size_t i = 0; i + 2 <= size; i += 2)
        equal[0] += memcmp(a + i, b + i, 2) == 0;
    for (size_t i = 0; i + 4 <= size; i += 4)
        equal[1] += memcmp(a + i, b + i, 4) == 0;
    EACH_TIER(tier)
    {
        PROMISE(nd_hamming(a, b, size) == differing);
        PROMISE(nd_kernels_active()->equal_slots16(a, b, size / 2) == equal[0]);
        PROMISE(nd_kernels_active()->equal_slots32(a, b, size / 4) == equal[1]);
    }
    free_guarded(a, skew_a);
    free_guarded(b, skew_b);
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------------ */

static int bit_at(const uint8_t *code, size_t bit)
{
    return code[bit / 8] >> (7 - bit % 8) & 1;
}

/* The chunks of a code are its bits, in their order. */
static void check_chunks(const uint8_t *code, size_t bits, size_t chunks)
{
    static uint64_t split[4096];
    const int possible = chunks > 0 && chunks <= bits && (bits + chunks - 1) / chunks <= 64;
    PROMISE(nd_split_chunks(code, bits, chunks, split) == (possible ? ND_OK : ND_ERROR_PARAMETER));
    size_t at = 0;
    for (size_t i = 0; possible && i < chunks; i++)
        for (size_t width = nd_chunk_bits(bits, chunks, i); width > 0; width--)
            PROMISE((int)(split[i] >> (width - 1) & 1) == bit_at(code, at++));
    PROMISE(!possible || at == bits);
}

/* A table has each block once; what the prefix has is the leading ones. */
static void check_blocks(size_t bits, size_t blocks, size_t distance, size_t index)
{
    uint8_t order[256], seen[256] = {0};
    const size_t tables = nd_block_table_count(blocks, distance);
    PROMISE(tables > 0 || nd_block_table(blocks, distance, index, order) == ND_ERROR_PARAMETER);
    if (tables > 0) {
        size_t prefix = 0;
        PROMISE(nd_block_table(blocks, distance, index % tables, order) == ND_OK);
        for (size_t i = 0; i < blocks; i++) {
            const size_t low = order[i] * bits / blocks, high = ((size_t)order[i] + 1) * bits / blocks;
            PROMISE(order[i] < blocks && !seen[order[i]]++);
            prefix += i + distance < blocks ? high - low : 0;
        }
        PROMISE(nd_block_prefix_bits(bits, blocks, distance, order) == prefix);
    }
}

static void check_neighbours(uint64_t chunk, size_t bits, size_t radius, size_t capacity)
{
    size_t count;
    uint64_t *out = (uint64_t *)(void *)guarded(capacity * sizeof *out, 0);
    chunk &= bits == 0 || bits > 64 ? 0 : UINT64_MAX >> (64 - bits);
    const int status = nd_neighbours(chunk, bits, radius, out, capacity, &count);
    if (bits == 0 || bits > 64) {
        PROMISE(status == ND_ERROR_PARAMETER);
    } else if (status != ND_OK) {
        PROMISE(status == ND_ERROR_CAPACITY && count > capacity);
    } else {
        PROMISE(count == nd_neighbour_count(bits, radius) && count <= capacity && out[0] == chunk);
        for (size_t i = 1; i < count; i++) {
            const int here = __builtin_popcountll(out[i] ^ chunk), before = __builtin_popcountll(out[i - 1] ^ chunk);
            PROMISE(here <= (int)radius && (here > before || (here == before && (out[i] ^ chunk) < (out[i - 1] ^ chunk))));
            PROMISE(bits == 64 || out[i] >> bits == 0);
        }
    }
    free_guarded(out, 0);
}

static void check_keys(input *from)
{
    const size_t bits = 8 * (1 + take_number(from, 2) % 512), blocks = 1 + take_byte(from), distance = take_byte(from) % 64;
    const size_t index = take_number(from, 3), chunks = take_number(from, 2) % 600, capacity = take_number(from, 2) % 20000;
    const size_t chunk_bits = take_choice(from, 68), radius = take_choice(from, 70), slot_size = take_choice(from, 8);
    const size_t bands = take_number(from, 2), rows = take_byte(from), skew = take_choice(from, 8);
    int32_t radii = 0;
    check_neighbours(take_number(from, 8), chunk_bits, radius, capacity);
    for (size_t i = 0; i < chunks; i++)
        radii += nd_chunk_radius(chunks, distance, i) + 1;
    PROMISE(chunks == 0 || radii == (int32_t)distance + 1);
    size_t taken;
    uint8_t *start = take_bytes(from, bits / 8, skew, &taken), *code = guarded(bits / 8, skew);
    for (size_t i = 0; i < bits / 8; i++)
        code[i] = taken > 0 ? start[i % taken] : 0;
    check_chunks(code, bits, chunks);
    check_blocks(bits, blocks, distance, index);
    const size_t num_perm = slot_size > 0 ? bits / 8 / slot_size : 0;
    const int possible = (slot_size == 2 || slot_size == 4) && rows > 0 && bands <= num_perm / rows;
    int32_t *buckets = (int32_t *)(void *)guarded((possible ? bands : 0) * sizeof *buckets, 0);
    PROMISE(nd_band_buckets(code, num_perm, slot_size, bands, rows, buckets) == (possible ? ND_OK : ND_ERROR_PARAMETER));
    for (size_t i = 0; possible && i < bands; i++)
        PROMISE((uint32_t)buckets[i] == (uint32_t)nd_xxh3_64(code + i * rows * slot_size, rows * slot_size, i));
    free_guarded(buckets, 0);
    free_guarded(code, skew);
    free_guarded(start, skew);
}

/* ---- hashes ------------------------------------------------------------------------------------------------------------------------ */

/* A hash of many at once is that of each: see fuzz_text.c. Here: of any size and place, and unknown ones refused. */
static void check_hashes(input *from)
{
    const int32_t hash = (int32_t)take_choice(from, 9) - 1;
    const uint64_t seed = take_number(from, 8);
    const size_t skew = take_choice(from, 8);
    uint8_t *digest = guarded(nd_hash_size(hash), 0), again[ND_DIGEST_MAX];
    size_t size;
    uint8_t *data = take_bytes(from, from->size, skew, &size);
    const int status = nd_hash_bytes(hash, seed, data, size, digest);
    PROMISE(status == (hash >= ND_HASH_XXH3_64 && hash <= ND_HASH_SHA256 ? ND_OK : ND_ERROR_PARAMETER));
    if (status == ND_OK) {
        uint8_t *moved = guarded(size, 7 - skew);
        memcpy(moved, data, size);
        PROMISE(nd_hash_bytes(hash, hash == ND_HASH_XXH3_64 ? seed : 0, moved, size, again) == ND_OK);
        PROMISE(memcmp(digest, again, nd_hash_size(hash)) == 0);
        free_guarded(moved, 7 - skew);
    }
    free_guarded(digest, 0);
    free_guarded(data, skew);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {data, size};
    const size_t part = take_choice(&from, 4);
    if (part == 0) {
        check_keys(&from);
    } else if (part == 1) {
        check_bytes(&from);
    } else if (part == 2) {
        check_hashes(&from);
    } else {
        const numbers a = take_numbers(&from, COUNT_MAX), b = take_numbers(&from, COUNT_MAX);
        const numbers a_set = distinct(a), b_set = distinct(b);
        check_sorted(&a, &a_set, take_number(&from, 2) % 1600);
        check_simhash(&from, &b);
        check_minhash(&from, &a);
        check_jaccard(&from, &a_set, &b_set);
        free_guarded(a.items, 0);
        free_guarded(b.items, 0);
        free_guarded(a_set.items, 0);
        free_guarded(b_set.items, 0);
    }
    return 0;
}
