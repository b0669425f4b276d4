/* deduplicator.c: which of many records stay, in the order of preference: the first maximal independent set of the graph of pairs. A
 * record is looked up in the buckets of those that stay, which do not match each other: copies of one text cost one comparison each.
 * Where many stay in one bucket, they are found by their rarest elements (rare_sets.c), whose order is taken anew when they have
 * doubled. */
#include <stdlib.h>

#include "joins/newest.h"
#include "joins/rare_sets.h"
#include "joins/verifier.h"
#include "kernels/kernels.h"

#define NONE ND_NO_NUMBER
#define HOT_BUCKET (UINT32_MAX - 1) /* in place of the newest: the records of this bucket are found by their rarest elements */

/* A record that stays. */
typedef struct kept_record {
    int64_t number; /* of all records that were added */
    int64_t group_id;
    size_t end;        /* of its value, which begins where that of the record before ends */
    uint32_t asked_by; /* the last record that was compared with it */
    int is_ranked;     /* found by its rarest elements */
} kept_record;

/* Of the records in a bucket. */
typedef struct bucket_link {
    uint32_t record, next;
    uint32_t check; /* the bits of the key that the table does not have */
} bucket_link;

struct nd_deduplicator {
    nd_scheme scheme;
    nd_verifier verifier;
    uint32_t count; /* records that were added */
    ND_LIST(kept_record) kept;
    ND_LIST(uint8_t) values;
    nd_newest by_value; /* key: hash of value and group */
    nd_newest by_bucket;
    ND_LIST(bucket_link) links;
    nd_keys *probed, *filed, *others;
    nd_rare_sets *rare;        /* NULL until a bucket is hot */
    size_t ranked, next_order; /* its records; how many there are when their order is taken anew */
    ND_LIST(uint32_t) places;

    /* The present record, and what it matches best. */
    const uint8_t *value;
    size_t value_size;
    nd_compared own;
    int64_t group_id;
    nd_numbers numbers[2]; /* of packed values: of the present record and of another one */
    uint32_t best;
    double similarity;     /* with it */
    uint64_t max_distance; /* beyond which nothing is better */
};

nd_deduplicator *nd_deduplicator_new(const nd_scheme *scheme)
{
    nd_deduplicator *deduplicator = calloc(1, sizeof *deduplicator);
    if (deduplicator == NULL)
        return NULL;
    deduplicator->scheme = *scheme;
    nd_verifier_begin(&deduplicator->verifier, scheme);
    deduplicator->probed = nd_keys_new();
    deduplicator->filed = nd_keys_new();
    deduplicator->others = nd_keys_new();
    if (deduplicator->probed != NULL && deduplicator->filed != NULL && deduplicator->others != NULL)
        return deduplicator;
    nd_deduplicator_free(deduplicator);
    return NULL;
}

void nd_deduplicator_free(nd_deduplicator *deduplicator)
{
    if (deduplicator == NULL)
        return;
    free(deduplicator->kept.at);
    free(deduplicator->values.at);
    free(deduplicator->by_value.at);
    free(deduplicator->by_bucket.at);
    free(deduplicator->links.at);
    free(deduplicator->places.at);
    for (int i = 0; i < 2; i++)
        free(deduplicator->numbers[i].at);
    nd_verifier_release(&deduplicator->verifier);
    nd_keys_free(deduplicator->probed);
    nd_keys_free(deduplicator->filed);
    nd_keys_free(deduplicator->others);
    nd_rare_sets_free(deduplicator->rare);
    free(deduplicator);
}

/* ---- comparing -------------------------------------------------------------------------------------------------------------- */

static const uint8_t *value_of(const nd_deduplicator *deduplicator, uint32_t record, size_t *size)
{
    const size_t start = record == 0 ? 0 : deduplicator->kept.at[record - 1].end;
    *size = deduplicator->kept.at[record].end - start;
    return deduplicator->values.at + start;
}

/* What is compared of a record that stays, valid until the next one. */
static int read_kept(nd_deduplicator *deduplicator, uint32_t record, const uint8_t **bytes, size_t *size)
{
    *bytes = value_of(deduplicator, record, size);
    return nd_unpack(&deduplicator->scheme, &deduplicator->numbers[1], bytes, size);
}

/* The threshold that a better match has to reach. */
static double bound_of(void *context)
{
    const nd_deduplicator *deduplicator = context;
    const double threshold = deduplicator->verifier.rule.threshold;
    return deduplicator->best != NONE && deduplicator->similarity > threshold ? deduplicator->similarity : threshold;
}

static int compare(nd_deduplicator *deduplicator, uint32_t record, nd_verdict *verdict)
{
    nd_compared other = {.id = deduplicator->kept.at[record].number};
    ND_TRY(read_kept(deduplicator, record, &other.bytes, &other.size));
    return nd_verify(&deduplicator->verifier, deduplicator->own, other, bound_of(deduplicator), verdict);
}

/* Whether the present record and another one, of a plan of bands, are in one bucket. */
static int share_bucket(nd_deduplicator *deduplicator, uint32_t record, int *shared)
{
    size_t size, i = 0, j = 0;
    const uint8_t *value = value_of(deduplicator, record, &size);
    ND_TRY(nd_scheme_file_keys(&deduplicator->scheme, 0, value, size, deduplicator->others));
    const nd_key *own = deduplicator->probed->rows, *others = deduplicator->others->rows;
    const size_t own_count = deduplicator->probed->count, count = deduplicator->others->count;
    while (i < own_count && j < count && !*shared) {
        *shared = own[i].low == others[j].low;
        if (own[i].low < others[j].low)
            i++;
        else
            j++;
    }
    return ND_OK;
}

/* Compares the present record with one that stays. Not `shared`: whether they share a bucket is not known, without which they do not
 * match. */
static int meet(nd_deduplicator *deduplicator, uint32_t record, int shared)
{
    kept_record *other = &deduplicator->kept.at[record];
    nd_verdict verdict;
    if (other->asked_by == deduplicator->count + 1 || other->group_id != deduplicator->group_id)
        return ND_OK;
    other->asked_by = deduplicator->count + 1;
    ND_TRY(compare(deduplicator, record, &verdict));
    if (!verdict.matches)
        return ND_OK;
    const int is_better = deduplicator->best == NONE || verdict.similarity > deduplicator->similarity ||
                          (verdict.similarity >= deduplicator->similarity && record < deduplicator->best);
    shared |= deduplicator->scheme.plan != ND_PLAN_BANDS;
    if (is_better && !shared)
        ND_TRY(share_bucket(deduplicator, record, &shared));
    if (!is_better || !shared)
        return ND_OK;
    deduplicator->best = record;
    deduplicator->similarity = verdict.similarity;
    if (verdict.distance >= 0 && verdict.similarity > 0) /* those farther away are less similar, unless all are 0 */
        deduplicator->max_distance = (uint64_t)verdict.distance;
    return ND_OK;
}

/* ---- hot buckets ------------------------------------------------------------------------------------------------------------ */

static int meet_rare(void *context, int64_t record)
{
    return meet(context, (uint32_t)record, 0);
}

static int add_rare(nd_deduplicator *deduplicator, uint32_t record)
{
    const uint8_t *bytes;
    size_t size;
    ND_TRY(read_kept(deduplicator, record, &bytes, &size));
    return nd_rare_sets_add(deduplicator->rare, record, bytes, size);
}

/* Takes the order anew. */
static int order(nd_deduplicator *deduplicator)
{
    const uint32_t count = (uint32_t)deduplicator->kept.count;
    const uint8_t *bytes;
    size_t size;
    deduplicator->next_order = 2 * deduplicator->ranked;
    nd_rare_sets_begin(deduplicator->rare, deduplicator->ranked);
    for (uint32_t i = 0; i < count; i++)
        if (deduplicator->kept.at[i].is_ranked) {
            ND_TRY(read_kept(deduplicator, i, &bytes, &size));
            ND_TRY(nd_rare_sets_count(deduplicator->rare, bytes, size));
        }
    nd_rare_sets_order(deduplicator->rare);
    deduplicator->rare->least = 0; /* others may come that are smaller */
    for (uint32_t i = 0; i < count; i++)
        if (deduplicator->kept.at[i].is_ranked)
            ND_TRY(add_rare(deduplicator, i));
    return ND_OK;
}

/* From now on the record is found by its rarest elements. */
static int rank(nd_deduplicator *deduplicator, uint32_t record)
{
    if (deduplicator->kept.at[record].is_ranked)
        return ND_OK;
    if (deduplicator->rare == NULL) {
        deduplicator->rare = nd_rare_sets_new(&deduplicator->verifier.rule);
        deduplicator->next_order = ND_RANKED_FIRST;
    }
    if (deduplicator->rare == NULL)
        return ND_ERROR_MEMORY;
    deduplicator->kept.at[record].is_ranked = 1;
    deduplicator->ranked++;
    return deduplicator->ranked >= deduplicator->next_order ? order(deduplicator) : add_rare(deduplicator, record);
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
    const uint32_t record = nd_newest_get(&deduplicator->by_value, value_key(deduplicator));
    if (record == NONE || deduplicator->kept.at[record].group_id != deduplicator->group_id)
        return NONE;
    size_t size;
    const uint8_t *value = value_of(deduplicator, record, &size);
    return size == deduplicator->value_size && memcmp(value, deduplicator->value, size) == 0 ? record : NONE;
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
    ND_TRY(ND_ROOM(deduplicator->places, ND_SCANNED_STEP));
    for (size_t first = 0; first < deduplicator->kept.count; first += ND_SCANNED_STEP) {
        const size_t rest = deduplicator->kept.count - first, step = rest < ND_SCANNED_STEP ? rest : ND_SCANNED_STEP;
        const size_t found = nd_kernels_active()->keep_near(deduplicator->values.at + first * width, step, width,
            deduplicator->value, deduplicator->max_distance, deduplicator->places.at);
        for (size_t i = 0; i < found; i++)
            ND_TRY(meet(deduplicator, (uint32_t)first + deduplicator->places.at[i], 1));
    }
    return ND_OK;
}

static int look_up(nd_deduplicator *deduplicator)
{
    int is_hot = 0;
    ND_TRY(nd_scheme_probe_keys(&deduplicator->scheme, deduplicator->group_id, deduplicator->value, deduplicator->value_size,
        deduplicator->probed));
    const nd_key *keys = deduplicator->probed->rows;
    const size_t count = deduplicator->probed->count;
    for (size_t i = 0; i < count; i++) {
        const uint64_t key = key_in_group(deduplicator->group_id, (uint64_t)keys[i].low);
        uint32_t next = nd_newest_get(&deduplicator->by_bucket, key);
        if (next == HOT_BUCKET) {
            is_hot = 1;
            continue;
        }
        for (; next != NONE; next = deduplicator->links.at[next].next)
            if (deduplicator->links.at[next].check == (uint32_t)key)
                ND_TRY(meet(deduplicator, deduplicator->links.at[next].record, 1));
    }
    const nd_rare_asker asker = {.context = deduplicator, .meet = meet_rare, .bound = bound_of};
    return is_hot ? nd_rare_sets_ask(deduplicator->rare, deduplicator->own.bytes, deduplicator->own.size, &asker) : ND_OK;
}

/* ---- staying ----------------------------------------------------------------------------------------------------------------- */

static int keep_value(nd_deduplicator *deduplicator)
{
    const size_t end = deduplicator->values.count + deduplicator->value_size;
    uint32_t older;
    ND_TRY(ND_ROOM(deduplicator->values, end));
    ND_TRY(ND_ROOM(deduplicator->kept, deduplicator->kept.count + 1));
    ND_TRY(nd_newest_put(&deduplicator->by_value, value_key(deduplicator), (uint32_t)deduplicator->kept.count, &older));
    memcpy(deduplicator->values.at + deduplicator->values.count, deduplicator->value, deduplicator->value_size);
    deduplicator->values.count = end;
    deduplicator->kept.at[deduplicator->kept.count++] = (kept_record){.number = deduplicator->count,
        .group_id = deduplicator->group_id,
        .end = end};
    return ND_OK;
}

/* The records of a bucket are found by their rarest elements from now on, if they are too many. link: the newest. */
static int heat(nd_deduplicator *deduplicator, uint64_t key, uint32_t link)
{
    const bucket_link *links = deduplicator->links.at;
    uint32_t count = 0;
    for (uint32_t next = link; next != NONE && count <= ND_HOT_FROM; next = links[next].next)
        count++;
    if (count <= ND_HOT_FROM)
        return ND_OK;
    for (uint32_t next = link; next != NONE; next = links[next].next)
        ND_TRY(rank(deduplicator, links[next].record));
    return nd_newest_put(&deduplicator->by_bucket, key, HOT_BUCKET, &link);
}

/* Files the newest record under a key. */
static int file_under(nd_deduplicator *deduplicator, uint64_t key)
{
    const uint32_t record = (uint32_t)deduplicator->kept.count - 1, link = (uint32_t)deduplicator->links.count;
    uint32_t older;
    if (nd_newest_get(&deduplicator->by_bucket, key) == HOT_BUCKET)
        return rank(deduplicator, record);
    if (link >= HOT_BUCKET)
        return ND_ERROR_CAPACITY;
    ND_TRY(ND_ROOM(deduplicator->links, deduplicator->links.count + 1));
    ND_TRY(nd_newest_put(&deduplicator->by_bucket, key, link, &older));
    deduplicator->links.at[deduplicator->links.count++] = (bucket_link){record, older, (uint32_t)key};
    return nd_has_elements(&deduplicator->verifier.rule) ? heat(deduplicator, key, link) : ND_OK;
}

static int stay(nd_deduplicator *deduplicator)
{
    const nd_scheme *scheme = &deduplicator->scheme;
    ND_TRY(keep_value(deduplicator));
    if (scheme->plan == ND_PLAN_SCAN)
        return ND_OK;
    nd_keys *filed = scheme->plan == ND_PLAN_BANDS ? deduplicator->probed
                                                   : deduplicator->filed; /* bands are looked up as filed */
    if (filed == deduplicator->filed)
        ND_TRY(nd_scheme_file_keys(scheme, deduplicator->group_id, deduplicator->value, deduplicator->value_size, filed));
    for (size_t i = 0; i < filed->count; i++)
        ND_TRY(file_under(deduplicator, key_in_group(deduplicator->group_id, (uint64_t)filed->rows[i].low)));
    return ND_OK;
}

/* ---- records ------------------------------------------------------------------------------------------------------------------- */

/* Makes a value the present one. */
static int begin(nd_deduplicator *deduplicator, const uint8_t *value, size_t size, int64_t group_id)
{
    const nd_scheme *scheme = &deduplicator->scheme;
    deduplicator->value = value;
    deduplicator->value_size = size;
    deduplicator->own = (nd_compared){deduplicator->count, value, size};
    deduplicator->verifier.last = deduplicator->count; /* of two texts this one is indexed */
    deduplicator->group_id = group_id;
    deduplicator->max_distance = (uint64_t)scheme->max_distance;
    return nd_read_value(scheme, &deduplicator->numbers[0], &deduplicator->own.bytes, &deduplicator->own.size);
}

static int decide(nd_deduplicator *deduplicator, const uint8_t *value, size_t size, int64_t group_id)
{
    deduplicator->best = NONE;
    deduplicator->similarity = 1.0;
    if (size == 0)
        return ND_OK;
    ND_TRY(begin(deduplicator, value, size, group_id));
    deduplicator->best = find_equal(deduplicator);
    if (deduplicator->best == NONE)
        ND_TRY(is_scanned(deduplicator) ? scan(deduplicator) : look_up(deduplicator));
    return deduplicator->best == NONE ? stay(deduplicator) : ND_OK;
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
        const int stays = deduplicator->best == NONE;
        kept[i] = stays ? -1 : deduplicator->kept.at[deduplicator->best].number;
        similarities[i] = stays ? 1.0 : deduplicator->similarity;
        deduplicator->count++;
    }
    return ND_OK;
}
