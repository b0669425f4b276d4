/* code_join.c: all pairs of codes within a distance (tables: Norouzi, Punjani and Fleet 2012).
 *
 * A table puts every code into a bucket by some of its bits, its key, so that a pair of the table meets in one bucket or in two
 * whose keys differ in a few bits. Within and between buckets all are compared with all, on a few words of the code. What is near
 * there is verified, and reported by the first of the tables in which it meets (code_join_plan.c says which pairs are a table's own):
 * nothing has to be remembered, and nothing sorted out, to report each pair once.
 *
 * Buckets are made in two steps, because scattering over 65,536 places misses the caches at nearly every code: first into up to
 * 512 parts, which are written like as many streams, then each part, which fits into the second cache, into its buckets. Where
 * pairs meet within one bucket, a part is joined at once and its room serves the next. */
#include <stdlib.h>

#include "kernels/kernels.h"
#include "joins/joins.h"

#define PLANES_MAX 4

typedef struct code_join {
    const uint8_t *codes;
    size_t count, bits, size, distance;
    size_t split;
    nd_join_plan plan;
    size_t planes; /* words of a code that are compared first; the whole code where bits <= 64 */
    nd_join_table table;
    size_t key_bits, part_bits;
    nd_record *parts; /* part after part: key = first word of the code, item = key of the bucket << 32 | which code */
    size_t part_ends[1 << ND_JOIN_PARTS];
    uint64_t *in_buckets; /* bucket after bucket, word w of a code at [w * count + place], */
    uint32_t *items;      /* and which code it is */
    uint32_t *ends;       /* of buckets */
    size_t ends_capacity;
    uint64_t *flips; /* differences of the keys of buckets that are looked at together, the first 0 */
    size_t flip_count;
    nd_near near;
    uint64_t found[ND_FOUND_BLOCK];
    nd_pairs *pairs;
} code_join;

/* ---- codes as words and keys ----------------------------------------------------------------------------------------------------- */

/* Enough words that those of codes with nothing in common differ in more than `distance` bits, by four standard deviations. */
static size_t plane_count(size_t bits, size_t distance)
{
    if (bits <= 64 || distance <= 16)
        return 1;
    return bits <= 128 || distance <= 41 ? 2 : PLANES_MAX;
}

static uint64_t word_of(const code_join *join, size_t item, size_t word)
{
    size_t rest = 8 * word < join->size ? join->size - 8 * word : 0;
    return rest == 0 ? 0 : nd_load_big(join->codes + item * join->size + 8 * word, rest < 8 ? rest : 8);
}

/* `width` bits, 1 to 56, of a code from bit `at` on. */
static uint64_t bits_at(const code_join *join, const uint8_t *code, size_t at, size_t width)
{
    if (at / 8 + 8 <= join->size)
        return nd_load_big(code + at / 8, 8) << at % 8 >> (64 - width);
    return nd_read_bits(code, at, width);
}

/* First words and keys of up to ND_JOIN_BATCH codes; a key is the first key_bits bits of the span in which they meet. */
static void load_batch(const code_join *join, size_t first, size_t count, uint64_t *words, uint32_t *keys)
{
    const size_t at = join->table.spans[0].at, width = join->key_bits;
    const size_t shift = width > 0 && join->bits <= 64 ? join->bits - at - width : 0; /* without a key all bits would go */
    const uint64_t ones = ((uint64_t)1 << width) - 1;
    if (join->size == 8) {
        for (size_t i = 0; i < count; i++) {
            words[i] = nd_load_big(join->codes + 8 * (first + i), 8);
            keys[i] = (uint32_t)(words[i] >> shift & ones);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        words[i] = word_of(join, first + i, 0);
        if (join->bits <= 64)
            keys[i] = (uint32_t)(words[i] >> shift & ones);
        else
            keys[i] = width == 0 ? 0 : (uint32_t)bits_at(join, join->codes + (first + i) * join->size, at, width);
    }
}

/* ---- buckets ------------------------------------------------------------------------------------------------------------------ */

/* Turns sizes into starts, the first at `start`. */
static void sizes_to_starts(uint32_t *sizes, size_t count, size_t start)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = sizes[i];
        sizes[i] = (uint32_t)start;
        start += size;
    }
}

static void fill_parts(code_join *join)
{
    uint64_t words[ND_JOIN_BATCH];
    uint32_t keys[ND_JOIN_BATCH], next[1 << ND_JOIN_PARTS] = {0};
    size_t part_count = (size_t)1 << join->part_bits, low_bits = join->key_bits - join->part_bits;
    for (size_t first = 0; first < join->count; first += ND_JOIN_BATCH) {
        size_t size = join->count - first < ND_JOIN_BATCH ? join->count - first : ND_JOIN_BATCH;
        load_batch(join, first, size, words, keys);
        for (size_t i = 0; i < size; i++)
            next[keys[i] >> low_bits]++;
    }
    sizes_to_starts(next, part_count, 0);
    for (size_t first = 0; first < join->count; first += ND_JOIN_BATCH) {
        size_t size = join->count - first < ND_JOIN_BATCH ? join->count - first : ND_JOIN_BATCH;
        load_batch(join, first, size, words, keys);
        for (size_t i = 0; i < size; i++)
            join->parts[next[keys[i] >> low_bits]++] = (nd_record){words[i], (uint64_t)keys[i] << 32 | (first + i)};
    }
    for (size_t part = 0; part < part_count; part++)
        join->part_ends[part] = next[part];
}

static size_t part_start(const code_join *join, size_t part)
{
    return part == 0 ? 0 : join->part_ends[part - 1];
}

/* Places the codes of a part in buckets from `start` on; ends: of the part's buckets. */
static void fill_buckets(const code_join *join, size_t part, size_t start, uint32_t *ends)
{
    size_t bucket_count = (size_t)1 << (join->key_bits - join->part_bits);
    const nd_record *first = join->parts + part_start(join, part), *end = join->parts + join->part_ends[part];
    memset(ends, 0, bucket_count * sizeof *ends);
    for (const nd_record *record = first; record < end; record++)
        ends[record->item >> 32 & (bucket_count - 1)]++;
    sizes_to_starts(ends, bucket_count, start);
    for (const nd_record *record = first; record < end; record++) {
        uint32_t place = ends[record->item >> 32 & (bucket_count - 1)]++;
        join->in_buckets[place] = record->key;
        join->items[place] = (uint32_t)record->item;
    }
    for (size_t w = 1; w < join->planes; w++)
        for (size_t place = start; place < start + (size_t)(end - first); place++)
            join->in_buckets[w * join->count + place] = word_of(join, join->items[place], w);
}

/* ---- pairs of a table ------------------------------------------------------------------------------------------------------------ */

/* Of codes of 64 bits at most, by the differing bits. */
static int met_in_word(const code_join *join, uint64_t difference)
{
    difference <<= 64 - join->bits;
    for (size_t i = 0; i < join->table.count; i++) {
        const nd_span *span = &join->table.spans[i];
        const uint64_t differing = span->width == 0 ? 0 : difference << span->at >> (64 - span->width);
        const int met = differing == 0 || (span->radius > 0 && (size_t)__builtin_popcountll(differing) <= span->radius);
        if (met != (i == 0))
            return 0;
    }
    return 1;
}

static int met_in_span(const code_join *join, const nd_span *span, const uint8_t *a, const uint8_t *b)
{
    size_t distance = 0;
    for (size_t done = 0; done < span->width && distance <= span->radius;) {
        size_t width = span->width - done < 56 ? span->width - done : 56;
        uint64_t difference = bits_at(join, a, span->at + done, width) ^ bits_at(join, b, span->at + done, width);
        if (difference != 0)
            distance += span->radius == 0 ? 1 : (size_t)__builtin_popcountll(difference);
        done += width;
    }
    return distance <= span->radius;
}

static int met_in_spans(const code_join *join, const uint8_t *a, const uint8_t *b)
{
    for (size_t i = 0; i < join->table.count; i++)
        if (met_in_span(join, &join->table.spans[i], a, b) != (i == 0))
            return 0;
    return 1;
}

/* Keeps those of the pairs (row << 32 | column) that are the table's own, as keys of the list of pairs. */
static size_t keep_own(const code_join *join, uint64_t *found, size_t count)
{
    const nd_kernels *kernels = nd_kernels_active();
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t row = (size_t)(found[i] >> 32), column = (size_t)(found[i] & UINT32_MAX);
        uint64_t a = join->items[row], b = join->items[column];
        found[kept] = a < b ? a << 32 | b : b << 32 | a;
        if (join->split != ND_NO_SPLIT && (a < join->split) == (b < join->split))
            continue;
        if (join->bits <= 64) {
            kept += (size_t)met_in_word(join, join->in_buckets[row] ^ join->in_buckets[column]);
        } else {
            const uint8_t *left = join->codes + a * join->size, *right = join->codes + b * join->size;
            kept += met_in_spans(join, left, right) && kernels->hamming(left, right, join->size) <= join->distance;
        }
    }
    return kept;
}

static int join_buckets(code_join *join, size_t row, size_t row_end, size_t column, size_t column_end)
{
    const nd_kernels *kernels = nd_kernels_active();
    nd_near *near = &join->near;
    near->row = near->next_row = row;
    near->row_end = row_end;
    near->column = column;
    near->column_end = column_end;
    while (near->column < column_end) {
        size_t count = kernels->near_pairs(near, join->found, ND_FOUND_BLOCK);
        if (count == 0)
            continue;
        ND_TRY(nd_pairs_add_keys(join->pairs, join->found, keep_own(join, join->found, count)));
    }
    return ND_OK;
}

/* ---- tables ------------------------------------------------------------------------------------------------------------------------ */

/* Pairs within one bucket: part by part. */
static int join_within(code_join *join)
{
    size_t part_count = (size_t)1 << join->part_bits, bucket_count = (size_t)1 << (join->key_bits - join->part_bits);
    for (size_t part = 0; part < part_count; part++) {
        fill_buckets(join, part, 0, join->ends);
        for (size_t b = 0, start = 0; b < bucket_count; start = join->ends[b++])
            if (join->ends[b] > start + 1)
                ND_TRY(join_buckets(join, start, join->ends[b], start, join->ends[b]));
    }
    return ND_OK;
}

/* Pairs of one bucket and of two whose keys differ by a flip: all buckets must be there. */
static int join_between(code_join *join)
{
    size_t part_count = (size_t)1 << join->part_bits, bucket_count = (size_t)1 << (join->key_bits - join->part_bits);
    for (size_t part = 0; part < part_count; part++)
        fill_buckets(join, part, part_start(join, part), join->ends + part * bucket_count);
    bucket_count *= part_count;
    for (size_t b = 0, start = 0; b < bucket_count; start = join->ends[b++]) {
        size_t end = join->ends[b];
        if (start == end)
            continue;
        ND_TRY(join_buckets(join, start, end, start, end));
        for (size_t f = 1; f < join->flip_count; f++) {
            size_t other = b ^ (size_t)join->flips[f];
            if (other > b && join->ends[other - 1] < join->ends[other])
                ND_TRY(join_buckets(join, start, end, join->ends[other - 1], join->ends[other]));
        }
    }
    return ND_OK;
}

static int reserve_buckets(code_join *join, size_t buckets)
{
    if (buckets > join->ends_capacity) {
        free(join->ends);
        join->ends = malloc(buckets * sizeof *join->ends);
        join->ends_capacity = join->ends == NULL ? 0 : buckets;
    }
    free(join->flips);
    join->flips = malloc(join->flip_count * sizeof *join->flips);
    return join->ends == NULL || join->flips == NULL ? ND_ERROR_MEMORY : ND_OK;
}

static int join_table(code_join *join)
{
    const size_t width = join->table.spans[0].width, radius = join->table.spans[0].radius;
    double cost;
    join->key_bits = nd_plan_key_bits(join->plan.count, width, radius, &cost);
    join->part_bits = join->key_bits < ND_JOIN_PARTS ? join->key_bits : ND_JOIN_PARTS;
    join->flip_count = (size_t)nd_neighbour_count(join->key_bits, radius);
    ND_TRY(reserve_buckets(join, (size_t)1 << (radius == 0 ? join->key_bits - join->part_bits : join->key_bits)));
    if (join->flip_count > 1)
        ND_TRY(nd_neighbours(0, join->key_bits, radius, join->flips, join->flip_count, &join->flip_count));
    fill_parts(join);
    return radius == 0 ? join_within(join) : join_between(join);
}

static int join_tables(code_join *join)
{
    for (size_t t = 0; t == 0 || t < join->plan.chunks; t++) {
        nd_plan_table(&join->plan, t, &join->table);
        if (join->table.count > 0)
            ND_TRY(join_table(join));
    }
    return ND_OK;
}

/* ---- all --------------------------------------------------------------------------------------------------------------------------- */

static void release(code_join *join)
{
    free(join->parts);
    free(join->in_buckets);
    free(join->items);
    free(join->ends);
    free(join->flips);
    free(join);
}

static code_join *new_join(const uint8_t *codes, size_t count, size_t split, const nd_join_plan *plan)
{
    code_join *join = calloc(1, sizeof *join);
    if (join == NULL)
        return NULL;
    join->codes = codes;
    join->count = count;
    join->split = split;
    join->plan = *plan;
    join->bits = plan->bits;
    join->size = plan->bits / 8;
    join->distance = plan->distance;
    join->planes = plane_count(plan->bits, plan->distance);
    join->parts = malloc(count * sizeof *join->parts);
    join->in_buckets = malloc(join->planes * count * sizeof *join->in_buckets);
    join->items = malloc(count * sizeof *join->items);
    join->near = (nd_near){
        .planes = join->in_buckets,
        .stride = count,
        .plane_count = join->planes,
        .max_distance = join->distance,
    };
    if (join->parts != NULL && join->in_buckets != NULL && join->items != NULL)
        return join;
    release(join);
    return NULL;
}

int nd_join_codes(const uint8_t *codes, size_t count, size_t split, const nd_join_plan *plan, nd_pairs *pairs)
{
    nd_pairs_reset(pairs);
    code_join *join = new_join(codes, count, split, plan);
    if (join == NULL)
        return ND_ERROR_MEMORY;
    join->pairs = pairs;
    int status = join_tables(join);
    release(join);
    if (status == ND_OK)
        status = nd_pairs_finish_keys(pairs);
    if (status != ND_OK)
        nd_pairs_reset(pairs);
    return status;
}

int nd_find_all(const uint8_t *codes, size_t count, size_t split, size_t bits, size_t max_distance, nd_pairs *pairs)
{
    nd_pairs_reset(pairs);
    if (bits == 0 || bits % 8 != 0)
        return ND_ERROR_PARAMETER;
    if (count > UINT32_MAX)
        return ND_ERROR_CAPACITY;
    if (count < 2)
        return ND_OK;
    nd_join_plan plan = nd_plan_join(count, bits, max_distance < bits ? max_distance : bits);
    return nd_join_codes(codes, count, split, &plan, pairs);
}
