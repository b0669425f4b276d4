/* dedup_rare.c: records that stay in hot buckets, where many meet and few match, by their rarest elements. Where c of n elements must be
 * common, the n - c + 1 rarest hold one of these, by any order that is the same for all sets (prefix filter: Chaudhuri et al. 2006,
 * Bayardo et al. 2007), and the places of the first common element bound how many can be common (positional filter: Xiao et al. 2008).
 * Elements of a signature are its slots with their numbers. The order is by how many of these records have an element, or one that is
 * counted with it; it is taken anew when they have doubled. */
#include <stdlib.h>

#include "joins/bitmaps.h"
#include "joins/deduplicator.h"

/* A record that has an element, and `rest` elements from it on in the order. */
typedef struct rare_posting {
    uint32_t record, rest, next;
    uint32_t count; /* of this and those before it */
} rare_posting;

struct nd_dedup_rare {
    uint32_t counts[ND_RARE_COUNTERS]; /* records that have an element, by hashes, when the order was taken */
    size_t ranked, next_order;         /* records; how many there are when it is taken anew */
    ND_LIST(nd_record) elements;
    ND_LIST(nd_record) sorted; /* elements of one set in the order */
    ND_LIST(uint64_t) plain;   /* elements of one set as they come */
    size_t size;               /* of it */
    nd_sized_bitmaps *bitmaps; /* of all these records */
    nd_dedup_buckets heads;    /* by element: its newest posting */
    ND_LIST(rare_posting) postings;
};

void nd_dedup_free_rare(nd_dedup_rare *rare)
{
    if (rare == NULL)
        return;
    free(rare->elements.at);
    free(rare->sorted.at);
    free(rare->heads.at);
    free(rare->postings.at);
    free(rare->plain.at);
    nd_sized_bitmaps_free(rare->bitmaps);
    free(rare);
}

static int is_signature(const nd_scheme *rule)
{
    return rule->kind == ND_SCHEME_MINHASH && rule->evidence == ND_EVIDENCE_NONE;
}

int nd_dedup_has_rare(const nd_deduplicator *deduplicator)
{
    return (is_signature(&deduplicator->rule) || nd_dedup_has_sets(deduplicator)) && deduplicator->rule.threshold > 0;
}

static uint32_t *counter_of(nd_dedup_rare *rare, uint64_t element)
{
    return &rare->counts[(size_t)((element ^ element >> 32) * 0x9E3779B97F4A7C15u >> 24) & (ND_RARE_COUNTERS - 1)];
}

static int take_elements(nd_dedup_rare *rare, const nd_scheme *rule, const uint8_t *bytes, size_t size)
{
    const size_t width = is_signature(rule) ? (size_t)rule->slot_bits / 8 : sizeof(uint64_t);
    rare->size = size / width;
    int status = ND_ROOM(rare->elements, rare->size);
    if (status == ND_OK)
        status = ND_ROOM(rare->sorted, rare->size);
    if (status == ND_OK)
        status = ND_ROOM(rare->plain, rare->size);
    for (size_t i = 0; i < rare->size && status == ND_OK; i++) {
        uint64_t element = 0;
        memcpy(&element, bytes + i * width, width);
        element = width == sizeof element ? element : (uint64_t)i << 32 | element;
        rare->elements.at[i].item = rare->plain.at[i] = element;
    }
    return status;
}

/* Puts the elements of a set into the order: `sorted`. */
static int rank_elements(nd_dedup_rare *rare, const nd_scheme *rule, const uint8_t *bytes, size_t size)
{
    uint64_t counts = 1;
    const int status = take_elements(rare, rule, bytes, size);
    if (status != ND_OK)
        return status;
    nd_record *elements = rare->elements.at;
    for (size_t i = 0; i < rare->size; i++)
        counts |= elements[i].key = *counter_of(rare, elements[i].item);
    if (nd_sort_records(elements, rare->sorted.at, rare->size, 0, 64 - (unsigned)__builtin_clzll(counts)) == elements)
        memcpy(rare->sorted.at, elements, rare->size * sizeof *elements);
    return ND_OK;
}

/* ---- records that stay ------------------------------------------------------------------------------------------------------ */

static int post(nd_deduplicator *deduplicator, uint32_t record)
{
    nd_dedup_rare *rare = deduplicator->rare;
    const uint8_t *bytes;
    size_t size;
    int status = nd_dedup_read(deduplicator, record, &bytes, &size);
    if (status == ND_OK)
        status = rank_elements(rare, &deduplicator->rule, bytes, size);
    if (status != ND_OK)
        return status;
    const size_t prefix = nd_prefix_count(rare->size, deduplicator->rule.threshold);
    if (rare->postings.count + prefix > UINT32_MAX)
        return ND_ERROR_CAPACITY;
    status = ND_ROOM(rare->postings, rare->postings.count + prefix);
    for (size_t i = 0; i < prefix && status == ND_OK; i++) {
        uint32_t older;
        status = nd_dedup_file(&rare->heads, rare->sorted.at[i].item, (uint32_t)rare->postings.count, &older);
        if (status != ND_OK)
            break;
        const uint32_t count = older == ND_NO_RECORD ? 1 : rare->postings.at[older].count + 1;
        rare->postings.at[rare->postings.count++] = (rare_posting){record, (uint32_t)(rare->size - i), older, count};
    }
    return status;
}

static int count_elements(nd_deduplicator *deduplicator, uint32_t record)
{
    nd_dedup_rare *rare = deduplicator->rare;
    const uint8_t *bytes;
    size_t size;
    int status = nd_dedup_read(deduplicator, record, &bytes, &size);
    if (status == ND_OK)
        status = take_elements(rare, &deduplicator->rule, bytes, size);
    for (size_t i = 0; i < rare->size && status == ND_OK; i++)
        ++*counter_of(rare, rare->elements.at[i].item);
    return status;
}

/* Takes the order anew. */
static int order(nd_deduplicator *deduplicator)
{
    nd_dedup_rare *rare = deduplicator->rare;
    const uint32_t count = (uint32_t)deduplicator->kept.count;
    int status = ND_OK;
    rare->next_order = 2 * rare->ranked;
    memset(rare->counts, 0, sizeof rare->counts);
    for (uint32_t i = 0; i < count && status == ND_OK; i++)
        if (deduplicator->kept.at[i].is_ranked)
            status = count_elements(deduplicator, i);
    for (size_t i = 0; i < rare->heads.capacity; i++)
        rare->heads.at[i] = (nd_dedup_bucket){.newest = ND_NO_RECORD};
    rare->heads.used = rare->postings.count = 0;
    for (uint32_t i = 0; i < count && status == ND_OK; i++)
        if (deduplicator->kept.at[i].is_ranked)
            status = post(deduplicator, i);
    return status;
}

int nd_dedup_rank(nd_deduplicator *deduplicator, uint32_t record)
{
    if (deduplicator->kept.at[record].is_ranked)
        return ND_OK;
    if (deduplicator->rare == NULL) {
        deduplicator->rare = calloc(1, sizeof *deduplicator->rare);
        if (deduplicator->rare == NULL || (deduplicator->rare->bitmaps = nd_sized_bitmaps_new()) == NULL)
            return ND_ERROR_MEMORY;
        deduplicator->rare->next_order = ND_RANKED_FIRST;
    }
    nd_dedup_rare *rare = deduplicator->rare;
    deduplicator->kept.at[record].is_ranked = 1;
    rare->ranked++;
    int status = rare->ranked >= rare->next_order ? order(deduplicator) : post(deduplicator, record);
    const uint8_t *bytes;
    size_t size;
    if (status == ND_OK)
        status = nd_dedup_read(deduplicator, record, &bytes, &size);
    if (status == ND_OK)
        status = take_elements(rare, &deduplicator->rule, bytes, size);
    if (status != ND_OK)
        return status;
    const size_t words = nd_bitmaps_words(rare->size, deduplicator->rule.threshold);
    return nd_sized_bitmaps_add(rare->bitmaps, record, rare->plain.at, rare->size, words > 0 ? words : ND_BITMAPS_WORDS_MAX);
}

/* ---- the present record ------------------------------------------------------------------------------------------------------- */

/* Whether the bitmaps of all records are sooner looked at than those that have one of its rarest elements. */
static int is_common(nd_deduplicator *deduplicator)
{
    const nd_dedup_rare *rare = deduplicator->rare;
    const size_t prefix = nd_prefix_count(rare->size, nd_dedup_bound(deduplicator));
    size_t count = 0;
    for (size_t i = 0; i < prefix; i++) {
        const uint32_t newest = nd_dedup_newest(&rare->heads, rare->sorted.at[i].item);
        count += newest == ND_NO_RECORD ? 0 : rare->postings.at[newest].count;
    }
    return ND_BITMAP_WORDS_FOR * count > nd_sized_bitmaps_words(rare->bitmaps);
}

static size_t needed_of(void *context, size_t size, size_t other_size)
{
    return nd_dedup_needed(context, size, other_size, nd_dedup_bound(context));
}

static int meet_record(void *context, uint32_t record)
{
    return nd_dedup_meet(context, record, 0);
}

int nd_dedup_ask_rare(nd_deduplicator *deduplicator)
{
    nd_dedup_rare *rare = deduplicator->rare;
    int status = rank_elements(rare, &deduplicator->rule, deduplicator->bytes, deduplicator->size);
    if (status != ND_OK)
        return status;
    if (is_common(deduplicator))
        return nd_sized_bitmaps_ask(rare->bitmaps, rare->plain.at, rare->size,
            &(nd_bitmap_asker){deduplicator, needed_of, meet_record});
    for (size_t i = 0; status == ND_OK; i++) {
        const double bound = nd_dedup_bound(deduplicator);
        if (i >= nd_prefix_count(rare->size, bound))
            break;
        const size_t mine = rare->size - i;
        uint32_t next = nd_dedup_newest(&rare->heads, rare->sorted.at[i].item);
        for (; next != ND_NO_RECORD && status == ND_OK; next = rare->postings.at[next].next) {
            const rare_posting *posting = &rare->postings.at[next];
            const size_t rest = mine < posting->rest ? mine : posting->rest;
            if (rest >= nd_dedup_needed(deduplicator, rare->size, posting->rest, bound)) /* the other set is no smaller */
                status = nd_dedup_meet(deduplicator, posting->record, 0);
        }
    }
    return status;
}
