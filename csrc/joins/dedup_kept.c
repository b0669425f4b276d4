/* dedup_kept.c: the records that stay, and the comparison of the present record with one of them. */
#include <stdlib.h>

#include "joins/deduplicator.h"

/* ---- hash tables -------------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(uint64_t key)
{
    return (uint32_t)((key ^ key >> 32) * 0x9E3779B97F4A7C15u >> 32);
}

/* Where a hash stands, or is to stand. */
static nd_dedup_bucket *bucket_of(const nd_dedup_buckets *buckets, uint32_t hash)
{
    const size_t mask = buckets->capacity - 1;
    size_t place = hash & mask;
    while (buckets->at[place].newest != ND_NO_RECORD && buckets->at[place].hash != hash)
        place = (place + 1) & mask;
    return &buckets->at[place];
}

/* Room for one more key. */
static int reserve(nd_dedup_buckets *buckets)
{
    if (4 * (buckets->used + 1) <= 3 * buckets->capacity)
        return ND_OK;
    nd_dedup_buckets grown = {.capacity = buckets->capacity == 0 ? ND_FIRST_CAPACITY : 2 * buckets->capacity};
    grown.at = malloc(grown.capacity * sizeof *grown.at);
    if (grown.at == NULL)
        return ND_ERROR_MEMORY;
    for (size_t i = 0; i < grown.capacity; i++)
        grown.at[i] = (nd_dedup_bucket){.newest = ND_NO_RECORD};
    for (size_t i = 0; i < buckets->capacity; i++)
        if (buckets->at[i].newest != ND_NO_RECORD)
            *bucket_of(&grown, buckets->at[i].hash) = buckets->at[i];
    grown.used = buckets->used;
    free(buckets->at);
    *buckets = grown;
    return ND_OK;
}

uint32_t nd_dedup_newest(const nd_dedup_buckets *buckets, uint64_t key)
{
    return buckets->capacity == 0 ? ND_NO_RECORD : bucket_of(buckets, hash_of(key))->newest;
}

int nd_dedup_file(nd_dedup_buckets *buckets, uint64_t key, uint32_t newest, uint32_t *older)
{
    const uint32_t hash = hash_of(key);
    if (reserve(buckets) != ND_OK)
        return ND_ERROR_MEMORY;
    nd_dedup_bucket *bucket = bucket_of(buckets, hash);
    *older = bucket->newest;
    buckets->used += bucket->newest == ND_NO_RECORD;
    *bucket = (nd_dedup_bucket){hash, newest};
    return ND_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------------- */

const uint8_t *nd_dedup_value(const nd_deduplicator *deduplicator, uint32_t record, size_t *size)
{
    const size_t start = record == 0 ? 0 : deduplicator->kept.at[record - 1].end;
    *size = deduplicator->kept.at[record].end - start;
    return deduplicator->values.at + start;
}

static int is_packed(const nd_deduplicator *deduplicator)
{
    return deduplicator->scheme.kind == ND_SCHEME_MINHASH && deduplicator->scheme.evidence == ND_EVIDENCE_PACKED;
}

int nd_dedup_has_sets(const nd_deduplicator *deduplicator)
{
    const nd_scheme *rule = &deduplicator->rule;
    return rule->kind == ND_SCHEME_MINHASH ? rule->evidence == ND_EVIDENCE_HASHES
                                           : rule->kind == ND_SCHEME_BOTTOMK && rule->measure == ND_MEASURE_FINGERPRINT;
}

/* Packed hashes are compared as numbers. which: the list that these go to. */
static int read_value(nd_deduplicator *deduplicator, int which, const uint8_t **bytes, size_t *size)
{
    if (!is_packed(deduplicator))
        return ND_OK;
    const size_t count = nd_set_count(*size);
    ND_TRY(count == 0 ? ND_ERROR_DAMAGED : ND_ROOM(deduplicator->numbers[which], count));
    ND_TRY(nd_set_read(*bytes, *size, deduplicator->numbers[which].at));
    *bytes = (const uint8_t *)deduplicator->numbers[which].at;
    *size = count * sizeof(uint64_t);
    return ND_OK;
}

int nd_dedup_read(nd_deduplicator *deduplicator, uint32_t record, const uint8_t **bytes, size_t *size)
{
    *bytes = nd_dedup_value(deduplicator, record, size);
    return read_value(deduplicator, 1, bytes, size);
}

/* ---- the present record ------------------------------------------------------------------------------------------------- */

int nd_dedup_begin(nd_deduplicator *deduplicator, const uint8_t *value, size_t size, int64_t group_id)
{
    deduplicator->value = deduplicator->bytes = value;
    deduplicator->value_size = deduplicator->size = size;
    deduplicator->group_id = group_id;
    deduplicator->max_distance = (uint64_t)deduplicator->scheme.max_distance;
    deduplicator->is_indexed = 0;
    const int status = read_value(deduplicator, 0, &deduplicator->bytes, &deduplicator->size);
    return status == ND_OK && !is_packed(deduplicator) ? nd_scheme_value_check(&deduplicator->scheme, value, size) : status;
}

double nd_dedup_bound(const nd_deduplicator *deduplicator)
{
    const double threshold = deduplicator->rule.threshold;
    return deduplicator->best != ND_NO_RECORD && deduplicator->similarity > threshold ? deduplicator->similarity : threshold;
}

size_t nd_dedup_needed(const nd_deduplicator *deduplicator, size_t size, size_t other_size, double bound)
{
    return nd_dedup_has_sets(deduplicator) ? nd_overlap_needed(size + other_size, bound) : nd_share_needed(size, bound);
}

/* Whether a set of so many bytes, as it is stored, can match, or match better. */
static int is_near_in_size(const nd_deduplicator *deduplicator, size_t value_size)
{
    const size_t own = deduplicator->size / 8, other = is_packed(deduplicator) ? nd_set_count(value_size) : value_size / 8;
    const double bound = nd_dedup_bound(deduplicator);
    const size_t needed = bound > 0 ? nd_overlap_needed(own + other, bound) : 0;
    return needed <= own && needed <= other;
}

static int compare_texts(nd_deduplicator *deduplicator, const uint8_t *other, size_t size, double *similarity)
{
    int status = ND_OK;
    if (deduplicator->text == NULL && (deduplicator->text = nd_passages_new()) == NULL)
        return ND_ERROR_MEMORY;
    if (!deduplicator->is_indexed)
        status = nd_passages_begin(deduplicator->text, deduplicator->bytes, deduplicator->size,
            (size_t)deduplicator->rule.shortest);
    deduplicator->is_indexed = status == ND_OK;
    return status == ND_OK ? nd_passages_share(deduplicator->text, other, size, similarity) : status;
}

/* By how much the present record and another match; *matches 0 where they do not, or less than one that is known. */
static int compare(nd_deduplicator *deduplicator, uint32_t record, double *similarity, int64_t *distance, int *matches)
{
    const nd_scheme *rule = &deduplicator->rule;
    const int has_sets = nd_dedup_has_sets(deduplicator);
    size_t size;
    const uint8_t *other = nd_dedup_value(deduplicator, record, &size);
    *matches = 0;
    *distance = -1;
    if (has_sets && !is_near_in_size(deduplicator, size))
        return ND_OK;
    ND_TRY(read_value(deduplicator, 1, &other, &size));
    if (has_sets)
        *similarity = nd_jaccard_bytes(deduplicator->bytes, deduplicator->size / 8, other, size / 8,
            nd_dedup_bound(deduplicator));
    else if (rule->kind == ND_SCHEME_PASSAGES)
        ND_TRY(compare_texts(deduplicator, other, size, similarity));
    else
        ND_TRY(nd_scheme_similarity(rule, deduplicator->bytes, deduplicator->size, other, size, similarity, distance));
    *matches = *distance >= 0 ? *distance <= rule->max_distance : *similarity >= nd_scheme_threshold(rule);
    return ND_OK;
}

/* Whether the present record and another one, of a plan of bands, are in one bucket. */
static int share_bucket(nd_deduplicator *deduplicator, uint32_t record, int *shared)
{
    size_t size, i = 0, j = 0;
    const uint8_t *value = nd_dedup_value(deduplicator, record, &size);
    const int status = nd_scheme_file_keys(&deduplicator->scheme, 0, value, size, deduplicator->others);
    const nd_key *own = nd_keys_rows(deduplicator->probed), *others = nd_keys_rows(deduplicator->others);
    const size_t own_count = nd_keys_count(deduplicator->probed), count = nd_keys_count(deduplicator->others);
    *shared = 0;
    while (status == ND_OK && i < own_count && j < count && !*shared) {
        *shared = own[i].low == others[j].low;
        if (own[i].low < others[j].low)
            i++;
        else
            j++;
    }
    return status;
}

int nd_dedup_meet(nd_deduplicator *deduplicator, uint32_t record, int shared)
{
    nd_kept_record *other = &deduplicator->kept.at[record];
    double similarity;
    int64_t distance;
    int matches;
    if (other->asked_by == deduplicator->count + 1 || other->group_id != deduplicator->group_id)
        return ND_OK;
    other->asked_by = deduplicator->count + 1;
    int status = compare(deduplicator, record, &similarity, &distance, &matches);
    if (status != ND_OK || !matches)
        return status;
    const int is_better = deduplicator->best == ND_NO_RECORD || similarity > deduplicator->similarity ||
                          (similarity >= deduplicator->similarity && record < deduplicator->best);
    shared |= deduplicator->scheme.plan != ND_PLAN_BANDS;
    if (is_better && !shared)
        status = share_bucket(deduplicator, record, &shared);
    if (status != ND_OK || !is_better || !shared)
        return status;
    deduplicator->best = record;
    deduplicator->similarity = similarity;
    if (distance >= 0 && similarity > 0) /* those farther away are less similar, unless all are 0 */
        deduplicator->max_distance = (uint64_t)distance;
    return ND_OK;
}
