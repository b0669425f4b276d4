/* bucket_values.c: the join of buckets over values in memory, for a caller whose candidate table is somewhere else: it hands over
 * whole buckets with the values in them. */
#include <stdlib.h>

#include "joins/bucket_run.h"
#include "joins/joins.h"

typedef struct value_table {
    const nd_scheme *scheme;
    const uint8_t *data;
    const uint64_t *ends;
    const int64_t *buckets; /* of each row, ascending */
    const int64_t *items;
    size_t row_count;
} value_table;

static int read_value(void *context, int64_t id, const uint8_t **bytes, size_t *size)
{
    const value_table *table = context;
    const size_t start = id == 0 ? 0 : (size_t)table->ends[id - 1];
    *bytes = table->data + start;
    *size = (size_t)table->ends[id] - start;
    return *size > 0 ? ND_OK : ND_ERROR_DAMAGED; /* none was deleted */
}

static int check_table(const value_table *table, size_t count, const int64_t *known)
{
    if (table->scheme->plan != ND_PLAN_BANDS)
        return ND_ERROR_PARAMETER;
    if (count > UINT32_MAX)
        return ND_ERROR_CAPACITY;
    for (size_t i = 0; i < table->row_count; i++)
        if (table->items[i] < 0 || (uint64_t)table->items[i] >= count || (i > 0 && table->buckets[i] < table->buckets[i - 1]))
            return ND_ERROR_PARAMETER;
    for (size_t i = 0; i < count; i++)
        if ((known != NULL && (known[i] < 0 || (uint64_t)known[i] >= count)) || (i > 0 && table->ends[i] < table->ends[i - 1]))
            return ND_ERROR_PARAMETER;
    return ND_OK;
}

static int join_known(nd_components *components, const int64_t *known, size_t count)
{
    for (size_t i = 0; known != NULL && i < count; i++)
        if (known[i] != (int64_t)i)
            ND_TRY(nd_components_join(components, (int64_t)i, known[i]));
    return ND_OK;
}

/* Page after page; every page meets the whole table. */
static int run(nd_bucket_join *join, const value_table *table, size_t first, size_t count)
{
    join->is_sparse = 1;
    for (int64_t id = (int64_t)first, next; id < (int64_t)count; id = next) {
        ND_TRY(nd_bucket_join_begin_rows(join, id, (int64_t)count - 1));
        for (size_t i = 0; i < join->items.count; i++)
            join->items.at[i].matched = 1; /* it may be connected before it is compared */
        for (size_t i = 0; i < table->row_count; i++)
            ND_TRY(nd_bucket_join_add_row(join, 0, table->buckets[i], table->items[i], 0));
        ND_TRY(nd_bucket_join_end_rows(join, &next));
        ND_TRY(nd_bucket_join_run(join));
    }
    return ND_OK;
}

static int list_pairs(nd_bucket_join *join, nd_pairs *pairs)
{
    for (size_t i = 0; i < join->pairs.count; i++) {
        const nd_bucket_pair *pair = &join->pairs.at[i];
        ND_TRY(nd_pairs_add(pairs, (uint64_t)pair->other << 32 | (uint64_t)pair->id, pair->similarity));
    }
    return nd_pairs_finish(pairs);
}

int nd_scheme_connect(const nd_scheme *scheme, const uint8_t *data, const uint64_t *ends, size_t count, size_t first,
    const int64_t *buckets, const int64_t *items, size_t row_count, const int64_t *known, nd_pairs *pairs)
{
    value_table table =
        {.scheme = scheme, .data = data, .ends = ends, .buckets = buckets, .items = items, .row_count = row_count};
    const nd_bucket_reader reader = {.context = &table, .read_value = read_value};
    nd_pairs_reset(pairs);
    ND_TRY(check_table(&table, count, known));
    nd_bucket_join *join = nd_bucket_join_new(scheme, ND_BUCKETS_CONNECT, ND_PAIRS_MAX, &reader);
    int status = join == NULL ? ND_ERROR_MEMORY : join_known(join->components, known, count);
    if (status == ND_OK)
        status = run(join, &table, first, count);
    if (status == ND_OK)
        status = list_pairs(join, pairs);
    nd_bucket_join_free(join);
    return status;
}
