/* deduplicator.c: which of many records stay, in the order of preference: the first maximal independent set of the graph of pairs. A
 * record is looked up in the buckets of those that stay, which do not match each other: copies of one text cost one comparison each. */
#include <stdlib.h>

#include "kernels/kernels.h"
#include "joins/deduplicator.h"

int nd_deduplicator_new(const nd_scheme *scheme, nd_deduplicator **out)
{
    *out = NULL;
    nd_deduplicator *deduplicator = calloc(1, sizeof *deduplicator);
    if (deduplicator == NULL)
        return ND_ERROR_MEMORY;
    deduplicator->scheme = deduplicator->rule = *scheme;
    if (scheme->evidence == ND_EVIDENCE_PACKED)
        deduplicator->rule.evidence = ND_EVIDENCE_HASHES;
    deduplicator->probed = nd_keys_new();
    deduplicator->filed = nd_keys_new();
    deduplicator->others = nd_keys_new();
    if (deduplicator->probed == NULL || deduplicator->filed == NULL || deduplicator->others == NULL) {
        nd_deduplicator_free(deduplicator);
        return ND_ERROR_MEMORY;
    }
    *out = deduplicator;
    return ND_OK;
}

void nd_deduplicator_free(nd_deduplicator *deduplicator)
{
    if (deduplicator == NULL)
        return;
    free(deduplicator->kept.at);
    free(deduplicator->values.at);
    free(deduplicator->by_value.at);
    free(deduplicator->by_bucket.at);
    free(deduplicator->links);
    free(deduplicator->places.at);
    for (int i = 0; i < 2; i++)
        free(deduplicator->numbers[i].at);
    nd_passages_free(deduplicator->text);
    nd_keys_free(deduplicator->probed);
    nd_keys_free(deduplicator->filed);
    nd_keys_free(deduplicator->others);
    nd_dedup_free_rare(deduplicator->rare);
    free(deduplicator);
}

/* A key that groups do not share, but by a chance that comparisons put right. Without groups keys stay what they are. */
static uint64_t key_in_group(int64_t group_id, uint64_t key)
{
    return group_id == 0 ? key : key ^ nd_xxh3_64((const uint8_t *)&group_id, sizeof group_id, 0);
}

/* ---- looking up ------------------------------------------------------------------------------------------------------------- */

static uint64_t value_key(const nd_deduplicator *deduplicator)
{
    return key_in_group(deduplicator->group_id, nd_xxh3_64(deduplicator->value, deduplicator->value_size, 0));
}

/* The record with the value of the present one. Of two values with one hash only the newer is found here. */
static uint32_t find_equal(const nd_deduplicator *deduplicator)
{
    const uint32_t record = nd_dedup_newest(&deduplicator->by_value, value_key(deduplicator));
    if (record == ND_NO_RECORD || deduplicator->kept.at[record].group_id != deduplicator->group_id)
        return ND_NO_RECORD;
    size_t size;
    const uint8_t *value = nd_dedup_value(deduplicator, record, &size);
    return size == deduplicator->value_size && memcmp(value, deduplicator->value, size) == 0 ? record : ND_NO_RECORD;
}

/* Codes that are few for the buckets of a query, or are all in one, are compared one after another. */
static int is_scanned(const nd_deduplicator *deduplicator)
{
    const nd_scheme *scheme = &deduplicator->scheme;
    return scheme->plan == ND_PLAN_SCAN ||
           (nd_scheme_has_buckets(scheme) && deduplicator->kept.count / ND_SCANNED_FOR <= nd_scheme_probe_count(scheme));
}

static int scan(nd_deduplicator *deduplicator)
{
    const size_t width = (size_t)deduplicator->scheme.bits / 8;
    int status = ND_ROOM(deduplicator->places, ND_SCANNED_STEP);
    for (size_t first = 0; first < deduplicator->kept.count && status == ND_OK; first += ND_SCANNED_STEP) {
        const size_t rest = deduplicator->kept.count - first, step = rest < ND_SCANNED_STEP ? rest : ND_SCANNED_STEP;
        const size_t found = nd_kernels_active()->keep_near(deduplicator->values.at + first * width, step, width,
            deduplicator->bytes, deduplicator->max_distance, deduplicator->places.at);
        for (size_t i = 0; i < found && status == ND_OK; i++)
            status = nd_dedup_meet(deduplicator, (uint32_t)first + deduplicator->places.at[i], 1);
    }
    return status;
}

static int look_up(nd_deduplicator *deduplicator)
{
    int is_hot = 0;
    int status = nd_scheme_probe_keys(&deduplicator->scheme, deduplicator->group_id, deduplicator->value,
        deduplicator->value_size, deduplicator->probed);
    const nd_key *keys = nd_keys_rows(deduplicator->probed);
    const size_t count = nd_keys_count(deduplicator->probed);
    for (size_t i = 0; i < count && status == ND_OK; i++) {
        const uint64_t key = key_in_group(deduplicator->group_id, (uint64_t)keys[i].low);
        uint32_t next = nd_dedup_newest(&deduplicator->by_bucket, key);
        if (next == ND_HOT_BUCKET) {
            is_hot = 1;
            continue;
        }
        for (; next != ND_NO_RECORD && status == ND_OK; next = deduplicator->links[next].next)
            if (deduplicator->links[next].check == (uint32_t)key)
                status = nd_dedup_meet(deduplicator, deduplicator->links[next].record, 1);
    }
    return status == ND_OK && is_hot ? nd_dedup_ask_rare(deduplicator) : status;
}

/* ---- staying ----------------------------------------------------------------------------------------------------------------- */

static int keep_value(nd_deduplicator *deduplicator)
{
    const size_t end = deduplicator->values.count + deduplicator->value_size;
    uint32_t older;
    ND_TRY(ND_ROOM(deduplicator->values, end));
    ND_TRY(ND_ROOM(deduplicator->kept, deduplicator->kept.count + 1));
    ND_TRY(nd_dedup_file(&deduplicator->by_value, value_key(deduplicator), (uint32_t)deduplicator->kept.count, &older));
    memcpy(deduplicator->values.at + deduplicator->values.count, deduplicator->value, deduplicator->value_size);
    deduplicator->values.count = end;
    deduplicator->kept.at[deduplicator->kept.count++] = (nd_kept_record){.number = deduplicator->count,
        .group_id = deduplicator->group_id,
        .end = end};
    return ND_OK;
}

/* The records of a bucket are found by their rarest elements from now on, if they are too many. link: the newest. */
static int heat(nd_deduplicator *deduplicator, uint64_t key, uint32_t link)
{
    uint32_t count = 0;
    int status = ND_OK;
    for (uint32_t next = link; next != ND_NO_RECORD && count <= ND_HOT_FROM; next = deduplicator->links[next].next)
        count++;
    if (count <= ND_HOT_FROM)
        return ND_OK;
    for (uint32_t next = link; next != ND_NO_RECORD && status == ND_OK; next = deduplicator->links[next].next)
        status = nd_dedup_rank(deduplicator, deduplicator->links[next].record);
    return status == ND_OK ? nd_dedup_file(&deduplicator->by_bucket, key, ND_HOT_BUCKET, &link) : status;
}

/* Files the newest record under a key. */
static int file_under(nd_deduplicator *deduplicator, uint64_t key)
{
    const uint32_t record = (uint32_t)deduplicator->kept.count - 1, link = (uint32_t)deduplicator->link_count;
    uint32_t older;
    if (nd_dedup_newest(&deduplicator->by_bucket, key) == ND_HOT_BUCKET)
        return nd_dedup_rank(deduplicator, record);
    if (link >= ND_HOT_BUCKET)
        return ND_ERROR_CAPACITY;
    ND_TRY(nd_reserve(&deduplicator->links, &deduplicator->links_capacity, deduplicator->link_count + 1,
        sizeof *deduplicator->links));
    ND_TRY(nd_dedup_file(&deduplicator->by_bucket, key, link, &older));
    deduplicator->links[deduplicator->link_count++] = (struct nd_dedup_link){record, older, (uint32_t)key};
    return nd_dedup_has_rare(deduplicator) ? heat(deduplicator, key, link) : ND_OK;
}

static int stay(nd_deduplicator *deduplicator)
{
    const nd_scheme *scheme = &deduplicator->scheme;
    int status = keep_value(deduplicator);
    if (status != ND_OK || scheme->plan == ND_PLAN_SCAN)
        return status;
    nd_keys *filed = scheme->plan == ND_PLAN_BANDS ? deduplicator->probed
                                                   : deduplicator->filed; /* bands are looked up as filed */
    if (filed == deduplicator->filed)
        status = nd_scheme_file_keys(scheme, deduplicator->group_id, deduplicator->value, deduplicator->value_size, filed);
    for (size_t i = 0; i < nd_keys_count(filed) && status == ND_OK; i++)
        status = file_under(deduplicator, key_in_group(deduplicator->group_id, (uint64_t)nd_keys_rows(filed)[i].low));
    return status;
}

/* ---- records ------------------------------------------------------------------------------------------------------------------- */

static int decide(nd_deduplicator *deduplicator, const uint8_t *value, size_t size, int64_t group_id)
{
    deduplicator->best = ND_NO_RECORD;
    deduplicator->similarity = 1.0;
    if (size == 0)
        return ND_OK;
    ND_TRY(nd_dedup_begin(deduplicator, value, size, group_id));
    deduplicator->best = find_equal(deduplicator);
    if (deduplicator->best == ND_NO_RECORD)
        ND_TRY(is_scanned(deduplicator) ? scan(deduplicator) : look_up(deduplicator));
    return deduplicator->best == ND_NO_RECORD ? stay(deduplicator) : ND_OK;
}

int nd_deduplicator_add(nd_deduplicator *deduplicator, const uint8_t *data, const uint64_t *ends, size_t count,
    const int64_t *groups, int64_t *kept, double *similarities)
{
    size_t start = 0;
    if (count > UINT32_MAX - 1 - deduplicator->count)
        return ND_ERROR_CAPACITY;
    for (size_t i = 0; i < count; start = (size_t)ends[i], i++) {
        if (ends[i] < start)
            return ND_ERROR_PARAMETER;
        ND_TRY(decide(deduplicator, data + start, (size_t)ends[i] - start, groups == NULL ? 0 : groups[i]));
        const int stays = deduplicator->best == ND_NO_RECORD;
        kept[i] = stays ? -1 : deduplicator->kept.at[deduplicator->best].number;
        similarities[i] = stays ? 1.0 : deduplicator->similarity;
        deduplicator->count++;
    }
    return ND_OK;
}
