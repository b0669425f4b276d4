/* dedup_rare.c: records that stay in hot buckets, where many meet and few match, by their rarest elements (rarity.h). The order is
 * taken anew when these records have doubled. */
#include <stdlib.h>

#include "joins/bitmaps.h"
#include "joins/deduplicator.h"
#include "joins/rarity.h"

/* A record that has an element, and `rest` elements from it on in the order. */
typedef struct rare_posting {
    uint32_t record, rest, next;
    uint32_t count; /* of this and those before it */
} rare_posting;

struct nd_dedup_rare {
    nd_rarity order;
    size_t ranked, next_order; /* records; how many there are when it is taken anew */
    nd_sized_bitmaps *bitmaps; /* of all these records */
    nd_dedup_buckets heads;    /* by element: its newest posting */
    ND_LIST(rare_posting) postings;
};

void nd_dedup_free_rare(nd_dedup_rare *rare)
{
    if (rare == NULL)
        return;
    free(rare->heads.at);
    free(rare->postings.at);
    nd_rarity_release(&rare->order);
    nd_sized_bitmaps_free(rare->bitmaps);
    free(rare);
}

int nd_dedup_has_rare(const nd_deduplicator *deduplicator)
{
    return (nd_rarity_is_signature(&deduplicator->rule) || nd_dedup_has_sets(deduplicator)) && deduplicator->rule.threshold > 0;
}

/* ---- records that stay ------------------------------------------------------------------------------------------------------ */

static int post(nd_deduplicator *deduplicator, uint32_t record)
{
    nd_dedup_rare *rare = deduplicator->rare;
    const uint8_t *bytes;
    size_t size;
    ND_TRY(nd_dedup_read(deduplicator, record, &bytes, &size));
    ND_TRY(nd_rarity_take(&rare->order, &deduplicator->rule, bytes, size));
    nd_rarity_sort(&rare->order);
    const size_t prefix = nd_prefix_count(rare->order.size, deduplicator->rule.threshold);
    if (rare->postings.count + prefix > UINT32_MAX)
        return ND_ERROR_CAPACITY;
    ND_TRY(ND_ROOM(rare->postings, rare->postings.count + prefix));
    for (size_t i = 0; i < prefix; i++) {
        uint32_t older;
        ND_TRY(nd_dedup_file(&rare->heads, rare->order.sorted.at[i].item, (uint32_t)rare->postings.count, &older));
        const uint32_t count = older == ND_NO_RECORD ? 1 : rare->postings.at[older].count + 1;
        rare->postings.at[rare->postings.count++] = (rare_posting){record, (uint32_t)(rare->order.size - i), older, count};
    }
    return ND_OK;
}

static int count_elements(nd_deduplicator *deduplicator, uint32_t record)
{
    nd_dedup_rare *rare = deduplicator->rare;
    const uint8_t *bytes;
    size_t size;
    ND_TRY(nd_dedup_read(deduplicator, record, &bytes, &size));
    ND_TRY(nd_rarity_take(&rare->order, &deduplicator->rule, bytes, size));
    for (size_t i = 0; i < rare->order.size; i++)
        ++*nd_rarity_counter(&rare->order, rare->order.plain.at[i]);
    return ND_OK;
}

/* Takes the order anew. */
static int order(nd_deduplicator *deduplicator)
{
    nd_dedup_rare *rare = deduplicator->rare;
    const uint32_t count = (uint32_t)deduplicator->kept.count;
    int status = ND_OK;
    rare->next_order = 2 * rare->ranked;
    memset(rare->order.counts, 0, sizeof rare->order.counts);
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
    const uint8_t *bytes;
    size_t size;
    ND_TRY(rare->ranked >= rare->next_order ? order(deduplicator) : post(deduplicator, record));
    ND_TRY(nd_dedup_read(deduplicator, record, &bytes, &size));
    ND_TRY(nd_rarity_take(&rare->order, &deduplicator->rule, bytes, size));
    const size_t words = nd_bitmaps_words(rare->order.size, deduplicator->rule.threshold);
    return nd_sized_bitmaps_add(rare->bitmaps, record, rare->order.plain.at, rare->order.size,
        words > 0 ? words : ND_BITMAPS_WORDS_MAX);
}

/* ---- the present record ------------------------------------------------------------------------------------------------------- */

/* Whether the bitmaps of all records are sooner looked at than those that have one of its rarest elements. */
static int is_common(nd_deduplicator *deduplicator)
{
    const nd_dedup_rare *rare = deduplicator->rare;
    const size_t prefix = nd_prefix_count(rare->order.size, nd_dedup_bound(deduplicator));
    size_t count = 0;
    for (size_t i = 0; i < prefix; i++) {
        const uint32_t newest = nd_dedup_newest(&rare->heads, rare->order.sorted.at[i].item);
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
    ND_TRY(nd_rarity_take(&rare->order, &deduplicator->rule, deduplicator->bytes, deduplicator->size));
    nd_rarity_sort(&rare->order);
    if (is_common(deduplicator))
        return nd_sized_bitmaps_ask(rare->bitmaps, rare->order.plain.at, rare->order.size,
            &(nd_bitmap_asker){deduplicator, needed_of, meet_record});
    for (size_t i = 0;; i++) {
        const double bound = nd_dedup_bound(deduplicator);
        if (i >= nd_prefix_count(rare->order.size, bound))
            return ND_OK;
        const size_t mine = rare->order.size - i;
        uint32_t next = nd_dedup_newest(&rare->heads, rare->order.sorted.at[i].item);
        for (; next != ND_NO_RECORD; next = rare->postings.at[next].next) {
            const rare_posting *posting = &rare->postings.at[next];
            const size_t rest = mine < posting->rest ? mine : posting->rest;
            if (rest >= nd_dedup_needed(deduplicator, rare->order.size, posting->rest, bound)) /* the other set is no smaller */
                ND_TRY(nd_dedup_meet(deduplicator, posting->record, 0));
        }
    }
}
