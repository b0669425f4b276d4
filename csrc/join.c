/* join.c: all pairs of codes within a distance, by sorting them once a block table (Manku, Jain and Das Sarma 2007).
 *
 * Codes within `distance` bits agree on m - distance of m blocks at least, so that in the table with those blocks in front they
 * stand in one run of equal prefixes. A pair agrees on the leading blocks of several tables; it is reported by the first of
 * them, whose leading blocks are the most significant ones that agree: there no trailing block that is more significant than
 * a leading one may agree. So nothing has to be remembered to report each pair once. */
#include <stdlib.h>

#include "join.h"

#define BLOCKS_MAX 256
#define FOUND_BLOCK 1024

typedef struct code_join {
    const uint8_t *codes;
    size_t count, bits, size, distance;
    size_t blocks; /* 0: compare all with all */
    nd_record *records, *other;
    nd_pairs *pairs;
} code_join;

/* ---- how many blocks ------------------------------------------------------------------------------------------------------ */

/* Rough costs in nanoseconds: sorting a record once a table, and comparing two codes. */
#define SORTED_NS 40.0
#define COMPARED_NARROW_NS 1.0
#define COMPARED_WIDE_NS 5.0

static size_t choose_blocks(size_t count, size_t bits, size_t distance)
{
    const size_t most_tables = 4096, more_blocks = 12;
    double n = (double)count, all = n * n / 2 * (bits <= 64 ? COMPARED_NARROW_NS : COMPARED_WIDE_NS), best_cost = all;
    size_t best = 0;
    for (size_t blocks = distance + 1; blocks <= distance + more_blocks && blocks <= bits && blocks <= BLOCKS_MAX; blocks++) {
        size_t tables = nd_block_table_count(blocks, distance);
        if (tables == 0 || tables > most_tables)
            break;
        double in_runs = all;
        for (size_t prefix = bits * (blocks - distance) / blocks; prefix > 0 && in_runs > 1; prefix--)
            in_runs /= 2;
        double cost = (double)tables * (n * SORTED_NS + in_runs);
        if (cost < best_cost) {
            best_cost = cost;
            best = blocks;
        }
    }
    return best;
}

/* ---- codes of up to 64 bits: the record's key is the permuted code -------------------------------------------------------- */

/* Masks, in the permuted code, of the trailing blocks that must differ where this table is to report a pair. */
static size_t must_differ(const code_join *join, const uint8_t *order, uint64_t *masks)
{
    size_t leading = join->blocks - join->distance, count = 0, at = join->bits;
    for (size_t i = 0; i < join->blocks; i++) {
        size_t start = nd_block_start(join->bits, join->blocks, order[i]);
        size_t width = nd_block_start(join->bits, join->blocks, (size_t)order[i] + 1) - start;
        at -= width;
        if (i >= leading && order[i] > order[leading - 1])
            masks[count++] = UINT64_MAX >> (64 - width) << at;
    }
    return count;
}

static int report(nd_pairs *pairs, const uint64_t *found, size_t count)
{
    int status = ND_OK;
    for (size_t i = 0; i < count && status == ND_OK; i++)
        status = nd_pairs_add(pairs, found[i], 0);
    return status;
}

/* order NULL: all with all. */
static int join_narrow(const code_join *join, const uint8_t *order, size_t prefix)
{
    uint64_t masks[64], found[FOUND_BLOCK];
    nd_near near = {
        .second = 1,
        .prefix_mask = prefix == 0 ? 0 : UINT64_MAX >> (64 - prefix) << (join->bits - prefix),
        .max_distance = join->distance,
        .must_differ = masks,
        .must_differ_count = order == NULL ? 0 : must_differ(join, order, masks),
    };
    for (size_t i = 0; i < join->count; i++) {
        uint64_t code = nd_load_big(join->codes + i * join->size, join->size);
        join->records[i].key = order == NULL ? code : nd_permute_number(code, join->bits, join->blocks, order);
        join->records[i].item = i;
    }
    const nd_record *sorted = nd_sort_records(join->records, join->other, join->count, (unsigned)(join->bits - prefix),
        (unsigned)join->bits);
    size_t count;
    do {
        count = nd_kernels_active()->near_pairs(sorted, join->count, &near, found, FOUND_BLOCK);
        int status = report(join->pairs, found, count);
        if (status != ND_OK)
            return status;
    } while (count == FOUND_BLOCK);
    return ND_OK;
}

/* ---- wider codes: the record's key is the first 64 bits of the prefix at most ---------------------------------------------- */

static int block_agrees(const code_join *join, const uint8_t *a, const uint8_t *b, size_t block)
{
    size_t at = join->bits - nd_block_start(join->bits, join->blocks, block + 1);
    size_t end = join->bits - nd_block_start(join->bits, join->blocks, block);
    while (at < end) {
        size_t width = end - at < 48 ? end - at : 48;
        if (nd_read_bits(a, at, width) != nd_read_bits(b, at, width))
            return 0;
        at += width;
    }
    return 1;
}

/* Whether the leading blocks of the table are the most significant ones that agree. */
static int is_first_table(const code_join *join, const uint8_t *order, const uint8_t *a, const uint8_t *b)
{
    size_t leading = join->blocks - join->distance;
    for (size_t i = 0; i < join->blocks; i++) {
        if (i >= leading && order[i] < order[leading - 1])
            break;
        if (block_agrees(join, a, b, order[i]) != (i < leading))
            return 0;
    }
    return 1;
}

/* The first key_bits, 64 at most, of the permuted code: leading blocks one after another, the last one cut. */
static uint64_t prefix_key(const code_join *join, const uint8_t *order, size_t key_bits, const uint8_t *code)
{
    uint64_t key = 0;
    for (size_t block = 0, filled = 0; filled < key_bits; block++) {
        size_t at = join->bits - nd_block_start(join->bits, join->blocks, (size_t)order[block] + 1);
        size_t end = join->bits - nd_block_start(join->bits, join->blocks, order[block]);
        while (at < end && filled < key_bits) {
            size_t width = end - at < 32 ? end - at : 32;
            width = width < key_bits - filled ? width : key_bits - filled;
            key = key << width | nd_read_bits(code, at, width);
            at += width;
            filled += width;
        }
    }
    return key;
}

static int join_wide(const code_join *join, const uint8_t *order, size_t prefix)
{
    const nd_kernels *kernels = nd_kernels_active();
    unsigned key_bits = prefix < 64 ? (unsigned)prefix : 64;
    for (size_t i = 0; i < join->count; i++) {
        join->records[i].item = i;
        join->records[i].key = order == NULL ? 0 : prefix_key(join, order, key_bits, join->codes + i * join->size);
    }
    const nd_record *sorted = nd_sort_records(join->records, join->other, join->count, 0, key_bits);
    for (size_t first = 0; first < join->count; first++) {
        const uint8_t *a = join->codes + sorted[first].item * join->size;
        for (size_t second = first + 1; second < join->count && sorted[second].key == sorted[first].key; second++) {
            const uint8_t *b = join->codes + sorted[second].item * join->size;
            if (kernels->hamming(a, b, join->size) > join->distance || (order != NULL && !is_first_table(join, order, a, b)))
                continue;
            /* The sort is stable: within a run the smaller index comes first. */
            int status = nd_pairs_add(join->pairs, sorted[first].item << 32 | sorted[second].item, 0);
            if (status != ND_OK)
                return status;
        }
    }
    return ND_OK;
}

/* ---- all ------------------------------------------------------------------------------------------------------------------ */

static int join_table(const code_join *join, const uint8_t *order)
{
    size_t prefix = order == NULL ? 0 : nd_block_prefix_bits(join->bits, join->blocks, join->distance, order);
    return join->bits <= 64 ? join_narrow(join, order, prefix) : join_wide(join, order, prefix);
}

static int join_tables(const code_join *join)
{
    uint8_t order[BLOCKS_MAX];
    if (join->blocks == 0)
        return join_table(join, NULL);
    size_t tables = nd_block_table_count(join->blocks, join->distance);
    int status = ND_OK;
    for (size_t table = 0; table < tables && status == ND_OK; table++) {
        status = nd_block_table(join->blocks, join->distance, table, order);
        if (status == ND_OK)
            status = join_table(join, order);
    }
    return status;
}

int nd_find_all(const uint8_t *codes, size_t count, size_t bits, size_t max_distance, size_t blocks, nd_pairs *pairs)
{
    nd_pairs_reset(pairs);
    if (bits == 0 || bits % 8 != 0)
        return ND_ERROR_PARAMETER;
    if (blocks != 0 && (blocks > bits || nd_block_table_count(blocks, max_distance) == 0))
        return ND_ERROR_PARAMETER;
    if (count > UINT32_MAX)
        return ND_ERROR_CAPACITY;
    if (count < 2)
        return ND_OK;
    code_join join = {
        .codes = codes,
        .count = count,
        .bits = bits,
        .size = bits / 8,
        .distance = max_distance,
        .blocks = blocks != 0 ? blocks : choose_blocks(count, bits, max_distance),
        .records = malloc(count * sizeof(nd_record)),
        .other = malloc(count * sizeof(nd_record)),
        .pairs = pairs,
    };
    int status = ND_ERROR_MEMORY;
    if (join.records != NULL && join.other != NULL)
        status = join_tables(&join);
    free(join.records);
    free(join.other);
    if (status == ND_OK)
        status = nd_pairs_finish(pairs);
    if (status != ND_OK)
        nd_pairs_reset(pairs);
    return status;
}
