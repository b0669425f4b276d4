/* deduplicator.h: what the files of the deduplicator share: dedup_kept.c, dedup_rare.c and deduplicator.c, each of
 * which calls only those before it. */
#ifndef NEARDUP_DEDUPLICATOR_H
#define NEARDUP_DEDUPLICATOR_H

#include "schemes/schemes.h"

#define ND_NO_RECORD UINT32_MAX
#define ND_HOT_BUCKET (UINT32_MAX - 1) /* in place of the newest: the records of this bucket are found by their rarest elements */

/* A record that stays. */
typedef struct nd_kept_record {
    int64_t number; /* of all records that were added */
    int64_t group_id;
    size_t end;        /* of its value, which begins where that of the record before ends */
    uint32_t asked_by; /* the last record that was compared with it */
    int is_ranked;     /* found by its rarest elements */
} nd_kept_record;

typedef struct nd_dedup_rare nd_dedup_rare; /* dedup_rare.c */

/* Records that stay, by keys: the newest under each; in bucket_rare.c the groups of elements. Open addressing; `newest` ND_NO_RECORD:
 * a free place. Only 32 bits of a key are stored, because the tables are most of the memory: whoever looks a key up may meet records
 * of another one, and compares. */
typedef struct nd_dedup_bucket {
    uint32_t hash;
    uint32_t newest;
} nd_dedup_bucket;

typedef struct nd_dedup_buckets {
    nd_dedup_bucket *at;
    size_t capacity, used;
} nd_dedup_buckets;

struct nd_deduplicator {
    nd_scheme scheme;
    nd_scheme rule; /* compares what is read of values */
    uint32_t count; /* records that were added */
    ND_LIST(nd_kept_record) kept;
    ND_LIST(uint8_t) values;
    nd_dedup_buckets by_value; /* key: hash of value and group */
    nd_dedup_buckets by_bucket;
    struct nd_dedup_link {
        uint32_t record, next;
        uint32_t check; /* the bits of the key that the table does not have */
    } * links;          /* of the records in a bucket */
    size_t link_count, links_capacity;
    nd_keys *probed, *filed, *others;
    nd_dedup_rare *rare; /* NULL until a bucket is hot */
    ND_LIST(uint32_t) places;

    /* The present record, and what it matches best. */
    const uint8_t *value;
    size_t value_size;
    const uint8_t *bytes; /* that are compared */
    size_t size;
    int64_t group_id;
    ND_LIST(uint64_t) numbers[2]; /* of packed values: of the present record and of another one */
    nd_passages *text;            /* Passages: the present record, once it is indexed */
    int is_indexed;
    uint32_t best;
    double similarity;     /* with it */
    uint64_t max_distance; /* beyond which nothing is better */
};

/* dedup_kept.c */

/* The newest record under a key; ND_NO_RECORD if there is none. */
uint32_t nd_dedup_newest(const nd_dedup_buckets *buckets, uint64_t key);
/* Makes a record, a link or a posting the newest under a key; *older is the newest until now. */
int nd_dedup_file(nd_dedup_buckets *buckets, uint64_t key, uint32_t newest, uint32_t *older);
const uint8_t *nd_dedup_value(const nd_deduplicator *deduplicator, uint32_t record, size_t *size);
/* Whether what is compared is a set, and by the whole sets. */
int nd_dedup_has_sets(const nd_deduplicator *deduplicator);
/* The bytes that are compared of a record that stays, valid until the next call. */
int nd_dedup_read(nd_deduplicator *deduplicator, uint32_t record, const uint8_t **bytes, size_t *size);
/* Makes a value the present one. */
int nd_dedup_begin(nd_deduplicator *deduplicator, const uint8_t *value, size_t size, int64_t group_id);
/* Compares the present record with one that stays. Not `shared`: whether they share a bucket is not known, without which they do not
 * match. */
int nd_dedup_meet(nd_deduplicator *deduplicator, uint32_t record, int shared);
/* The threshold that a better match has to reach. */
double nd_dedup_bound(const nd_deduplicator *deduplicator);

/* How many elements must be common to two sets, or signatures, of these sizes; more than either has: none would do. */
size_t nd_dedup_needed(const nd_deduplicator *deduplicator, size_t size, size_t other_size, double bound);

/* dedup_rare.c */

/* Whether what is compared has elements that a filter can go by. */
int nd_dedup_has_rare(const nd_deduplicator *deduplicator);
/* From now on the record is found by its rarest elements. */
int nd_dedup_rank(nd_deduplicator *deduplicator, uint32_t record);
/* The present record meets those that it may match by its rarest elements. */
int nd_dedup_ask_rare(nd_deduplicator *deduplicator);
void nd_dedup_free_rare(nd_dedup_rare *rare);

#endif
