/* result_lists.c: growing lists of results: stored values, keys. */
#include <stdlib.h>

#include "schemes/schemes.h"

void nd_scratch_free(nd_scratch *scratch)
{
    free(scratch->a);
    free(scratch->hashes.at);
    free(scratch->counters.at);
}

int nd_scratch_family(nd_scratch *scratch, int32_t family, uint64_t seed, size_t num_perm)
{
    if (scratch->num_perm == num_perm && scratch->family == family && scratch->seed == seed)
        return ND_OK;
    if (num_perm > scratch->slots_capacity) {
        uint32_t *block = malloc(3 * num_perm * sizeof *block);
        if (block == NULL)
            return ND_ERROR_MEMORY;
        free(scratch->a);
        scratch->a = block;
        scratch->b = block + num_perm;
        scratch->slots = block + 2 * num_perm;
        scratch->slots_capacity = num_perm;
    }
    scratch->num_perm = 0;
    ND_TRY(nd_minhash_coefficients(family, seed, num_perm, scratch->a, scratch->b));
    scratch->family = family;
    scratch->seed = seed;
    scratch->num_perm = num_perm;
    return ND_OK;
}

int nd_scratch_hashes(nd_scratch *scratch, size_t count, uint64_t **out)
{
    const int status = ND_ROOM(scratch->hashes, count);
    *out = scratch->hashes.at;
    return status;
}

nd_values *nd_values_new(void)
{
    nd_values *const values = calloc(1, sizeof *values + sizeof(nd_scratch));
    if (values != NULL)
        values->scratch = (nd_scratch *)(values + 1);
    return values;
}

void nd_values_watch(nd_values *values, int (*stopped)(void *context), void *context)
{
    values->scratch->watch = (nd_watch){stopped, context};
}

void nd_values_free(nd_values *values)
{
    if (values == NULL)
        return;
    nd_scratch_free(values->scratch);
    free(values->bytes);
    free(values->ends);
    free(values->tokens);
    free(values);
}

void nd_values_clear(nd_values *values)
{
    nd_values_truncate(values, 0);
}

int nd_values_append(nd_values *values, size_t size, size_t token_count, uint8_t **out)
{
    ND_TRY(nd_reserve(&values->bytes, &values->bytes_capacity, values->bytes_size + size, 1));
    ND_TRY(nd_reserve(&values->ends, &values->ends_capacity, values->count + 1, sizeof(uint64_t)));
    ND_TRY(nd_reserve(&values->tokens, &values->tokens_capacity, values->count + 1, sizeof(uint64_t)));
    *out = size == 0 ? NULL : values->bytes + values->bytes_size;
    values->bytes_size += size;
    values->ends[values->count] = values->bytes_size;
    values->tokens[values->count] = token_count;
    values->count++;
    return ND_OK;
}

void nd_values_truncate(nd_values *values, size_t count)
{
    if (count >= values->count)
        return;
    values->count = count;
    values->bytes_size = count == 0 ? 0 : (size_t)values->ends[count - 1];
}

nd_keys *nd_keys_new(void)
{
    nd_keys *const keys = calloc(1, sizeof *keys + sizeof(nd_scratch));
    if (keys != NULL)
        keys->scratch = (nd_scratch *)(keys + 1);
    return keys;
}

void nd_keys_watch(nd_keys *keys, int (*stopped)(void *context), void *context)
{
    keys->scratch->watch = (nd_watch){stopped, context};
}

void nd_keys_free(nd_keys *keys)
{
    if (keys == NULL)
        return;
    nd_scratch_free(keys->scratch);
    free(keys->rows);
    free(keys);
}

int nd_keys_append(nd_keys *keys, int64_t table_no, int64_t low, int64_t high)
{
    ND_TRY(nd_reserve(&keys->rows, &keys->rows_capacity, keys->count + 1, sizeof(nd_key)));
    keys->rows[keys->count++] = (nd_key){.table_no = table_no, .low = low, .high = high};
    return ND_OK;
}
