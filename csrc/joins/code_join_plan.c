/* code_join_plan.c: which tables find all pairs of codes within a distance, and what they cost. Permuted blocks (Manku, Jain and Das
 * Sarma 2007) are not among them: chunks are no dearer but for millions of codes of 24 or 32 bits. */
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

/* Chunk 0 is the most significant one. */
static nd_span span_of(const nd_join_plan *plan, size_t chunk, size_t radius)
{
    const size_t end = nd_block_start(plan->bits, plan->chunks, plan->chunks - chunk);
    return (nd_span){plan->bits - end, nd_chunk_bits(plan->bits, plan->chunks, chunk), radius};
}

static void consider_chunks(size_t chunks, nd_join_plan *best)
{
    nd_join_plan plan = {best->count, best->bits, best->distance, chunks, 0};
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

nd_join_plan nd_plan_join(size_t count, size_t bits, size_t distance)
{
    nd_join_plan best = {count, bits, distance, 0, (double)count * (double)count / 2 * LOOKED_NS};
    for (size_t chunks = 1; chunks <= bits && chunks <= ND_PARTS_MAX && chunks <= distance + 1; chunks++)
        consider_chunks(chunks, &best);
    return best;
}

/* A chunk with no radius has no pairs. */
void nd_plan_table(const nd_join_plan *plan, size_t index, nd_join_table *table)
{
    table->count = 1;
    table->spans[0] = (nd_span){0, 0, 0};
    if (plan->chunks == 0)
        return;
    const int radius = nd_chunk_radius(plan->chunks, plan->distance, index);
    table->count = radius >= 0 ? 1 + index : 0;
    if (radius < 0)
        return;
    table->spans[0] = span_of(plan, index, (size_t)radius);
    for (size_t chunk = 0; chunk < index; chunk++)
        table->spans[1 + chunk] = span_of(plan, chunk, (size_t)nd_chunk_radius(plan->chunks, plan->distance, chunk));
}
