/* code_join_plan.c: which tables find all pairs of codes within a distance, and what they cost. */
#include "joins/joins.h"

/* In nanoseconds, measured with a million codes: putting a code into its bucket (and more for each bit that makes the buckets
 * too many for the second cache), looking at a pair, taking a code to a bucket, taking a bucket to a bucket. */
#define MOVED_NS 4.0
#define SCATTERED_NS 1.5
#define SCATTERED_BITS 16
#define LOOKED_NS 0.2
#define ROW_NS 0.8
#define BUCKET_NS 8.0
#define KEY_BITS_MAX 24
#define RADIUS_MAX 3
#define TABLES_MAX 4096

size_t nd_plan_key_bits(size_t count, size_t width, size_t radius, double *cost)
{
    double n = (double)count;
    size_t best = 0;
    *cost = n * n / 2 * LOOKED_NS;
    for (size_t key_bits = radius + 1; key_bits <= width && key_bits <= KEY_BITS_MAX; key_bits++) {
        double buckets = (double)((uint64_t)1 << key_bits), near = 0;
        for (size_t flips = 0; flips <= radius; flips++)
            near += (double)nd_binomial(key_bits, flips, UINT32_MAX);
        double moved = MOVED_NS + (key_bits > SCATTERED_BITS ? SCATTERED_NS * (double)(key_bits - SCATTERED_BITS) : 0);
        double looked = n * (n / buckets) * near / 2 * LOOKED_NS, visits = (near + 1) / 2;
        double total = n * moved + looked + visits * (n * ROW_NS + buckets * BUCKET_NS);
        if (total < *cost) {
            *cost = total;
            best = key_bits;
        }
    }
    return best;
}

static size_t part_start(const nd_join_plan *plan, size_t part)
{
    return nd_block_start(plan->bits, plan->parts, part);
}

/* Blocks are counted from the least significant end, spans from the most significant one. */
static nd_span span_of(const nd_join_plan *plan, size_t block, size_t radius)
{
    size_t end = part_start(plan, block + 1);
    return (nd_span){plan->bits - end, end - part_start(plan, block), radius};
}

static void consider_blocks(size_t blocks, nd_join_plan *best)
{
    nd_join_plan plan = {ND_JOIN_BLOCKS, best->count, best->bits, best->distance, blocks, 0};
    size_t tables = nd_block_table_count(blocks, plan.distance);
    if (tables == 0 || tables > TABLES_MAX)
        return;
    nd_plan_key_bits(plan.count, plan.bits * (blocks - plan.distance) / blocks, 0, &plan.cost);
    plan.cost *= (double)tables;
    if (plan.cost < best->cost)
        *best = plan;
}

static void consider_chunks(size_t chunks, nd_join_plan *best)
{
    nd_join_plan plan = {ND_JOIN_CHUNKS, best->count, best->bits, best->distance, chunks, 0};
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        int radius = nd_chunk_radius(chunks, plan.distance, chunk);
        double cost = 0;
        if (radius > RADIUS_MAX)
            return;
        if (radius >= 0)
            nd_plan_key_bits(plan.count, plan.bits / chunks, (size_t)radius, &cost);
        plan.cost += cost;
    }
    if (plan.cost < best->cost)
        *best = plan;
}

nd_join_plan nd_plan_join(size_t count, size_t bits, size_t distance, size_t blocks)
{
    const size_t more_blocks = 12;
    if (blocks > 0)
        return (nd_join_plan){ND_JOIN_BLOCKS, count, bits, distance, blocks, 0};
    nd_join_plan best = {ND_JOIN_ALL, count, bits, distance, 1, (double)count * (double)count / 2 * LOOKED_NS};
    for (size_t chunks = 1; chunks <= bits && chunks <= ND_PARTS_MAX && chunks <= distance + 1; chunks++)
        consider_chunks(chunks, &best);
    for (size_t more = distance + 2; more <= distance + more_blocks && more <= bits && more <= 64; more++)
        consider_blocks(more, &best);
    return best;
}

size_t nd_plan_tables(const nd_join_plan *plan)
{
    if (plan->kind == ND_JOIN_BLOCKS)
        return nd_block_table_count(plan->parts, plan->distance);
    return plan->parts;
}

/* A pair agrees on the leading blocks of several tables. It is one of the table whose leading blocks are the most significant ones
 * that agree: no trailing block before the last leading one may agree. */
static int block_table(const nd_join_plan *plan, size_t index, nd_join_table *table)
{
    uint8_t order[ND_PARTS_MAX];
    size_t leading = plan->parts - plan->distance;
    ND_TRY(nd_block_table(plan->parts, plan->distance, index, order));
    table->meeting = leading;
    table->count = 0;
    for (size_t i = 0; i < plan->parts; i++)
        if (i < leading || order[i] > order[leading - 1])
            table->spans[table->count++] = span_of(plan, order[i], 0);
    return ND_OK;
}

/* A pair is one of the first chunk in which it meets. A chunk with no radius has no pairs: its table is empty, meeting == 0. */
static void chunk_table(const nd_join_plan *plan, size_t index, nd_join_table *table)
{
    int radius = nd_chunk_radius(plan->parts, plan->distance, index);
    table->meeting = radius >= 0;
    table->count = 0;
    if (radius < 0)
        return;
    table->spans[table->count++] = span_of(plan, plan->parts - 1 - index, (size_t)radius);
    for (size_t chunk = 0; chunk < index; chunk++)
        table->spans[table->count++] = span_of(plan, plan->parts - 1 - chunk,
            (size_t)nd_chunk_radius(plan->parts, plan->distance, chunk));
}

int nd_plan_table(const nd_join_plan *plan, size_t index, nd_join_table *table)
{
    if (plan->kind == ND_JOIN_BLOCKS)
        return block_table(plan, index, table);
    if (plan->kind == ND_JOIN_CHUNKS) {
        chunk_table(plan, index, table);
    } else {
        table->meeting = table->count = 1;
        table->spans[0] = (nd_span){0, 0, 0};
    }
    return ND_OK;
}
