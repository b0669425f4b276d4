/* bucket_pairs.c: pairs that are compared at once or in the order of their values, and those that match. */
#include <stdlib.h>

#include "joins/bucket_run.h"

static int in_order(int64_t a, int64_t b, int64_t next_a, int64_t next_b)
{
    return a != b ? (a > b) - (a < b) : (next_a > next_b) - (next_a < next_b);
}

static int compare_pairs(const void *a, const void *b)
{
    const nd_bucket_pair *x = a, *y = b;
    return in_order(x->id, y->id, x->other, y->other);
}

/* By the other one first: so the caller finds what belongs to these in the order of its tables. */
static int compare_others(const void *a, const void *b)
{
    const nd_bucket_pair *x = a, *y = b;
    return in_order(x->other, y->other, x->id, y->id);
}

/* Each pair once, in order. */
static void sort_pairs(nd_bucket_join *join)
{
    nd_bucket_pair *pairs = join->pairs.at;
    size_t kept = 0;
    if (join->pairs.count > 1)
        qsort(pairs, join->pairs.count, sizeof *pairs, join->mode == ND_BUCKETS_FOREIGN ? compare_others : compare_pairs);
    for (size_t i = 0; i < join->pairs.count; i++)
        if (i == 0 || pairs[kept - 1].id != pairs[i].id || pairs[kept - 1].other != pairs[i].other)
            pairs[kept++] = pairs[i];
    join->pairs.count = kept;
}

/* Room for one more. A pair may be met again in another table: twice as many as are allowed are held before that is looked at. */
static int room_for_pair(nd_bucket_join *join)
{
    int repeated = join->mode == ND_BUCKETS_FOREIGN;
    if (join->pairs.count >> repeated >= join->most) {
        if (repeated)
            sort_pairs(join);
        if (join->pairs.count >= join->most)
            return ND_ERROR_CAPACITY;
    }
    return ND_ROOM(join->pairs, join->pairs.count + 1);
}

static int add_pair(nd_bucket_join *join, int64_t id, int64_t other, const nd_verdict *verdict)
{
    ND_TRY(room_for_pair(join));
    join->pairs.at[join->pairs.count++] = (nd_bucket_pair){id, other, verdict->similarity, verdict->distance};
    return join->mode == ND_BUCKETS_CONNECT ? nd_components_join(join->components, id, other) : ND_OK;
}

nd_bucket_pair *nd_bucket_join_pairs(nd_bucket_join *join, size_t *count)
{
    nd_bucket_pair *pairs = join->pairs.at;
    sort_pairs(join);
    *count = join->pairs.count;
    memset(&join->pairs, 0, sizeof join->pairs);
    return pairs;
}

int nd_bucket_measure(nd_bucket_join *join, nd_bucket_item *item, int64_t other, nd_verdict *verdict)
{
    nd_compared own, others;
    ND_TRY(nd_bucket_take(join, item, &own));
    ND_TRY(nd_bucket_read(join, other, 1, &others));
    return nd_bucket_verify(join, own, others, verdict);
}

int nd_bucket_try(nd_bucket_join *join, nd_bucket_item *item, int64_t other, int *matched)
{
    nd_verdict verdict;
    ND_TRY(nd_bucket_measure(join, item, other, &verdict));
    *matched = verdict.matches;
    if (*matched)
        ND_TRY(nd_bucket_look(join, other, matched));
    item->matched |= *matched;
    return *matched ? add_pair(join, item->id, other, &verdict) : ND_OK;
}

int nd_bucket_meet_connecting(nd_bucket_join *join, size_t number, int64_t other)
{
    nd_bucket_item *item = &join->items.at[number];
    int matched;
    return nd_bucket_is_connected(join, item, other) ? ND_OK : nd_bucket_try(join, item, other, &matched);
}

int nd_bucket_meet_near(nd_bucket_join *join, size_t number, int64_t other)
{
    const nd_compared own = nd_bucket_compared(join, &join->items.at[number]);
    nd_verdict verdict;
    ND_TRY(nd_bucket_watched(join, join->pairs.count));
    ND_TRY(nd_bucket_verify(join, own, (nd_compared){other, join->near, own.size}, &verdict));
    return verdict.matches ? add_pair(join, own.id, other, &verdict) : ND_OK;
}

static nd_bucket_item *item_of(const nd_bucket_join *join, uint64_t candidate)
{
    return &join->items.at[candidate & (((uint64_t)1 << ND_ITEM_BITS) - 1)];
}

/* Compares candidates whose items are loaded. */
static int compare_candidates(nd_bucket_join *join, const uint64_t *candidates, size_t count)
{
    nd_compared present = {.id = -1};
    int visible = 1;
    for (size_t i = 0; i < count; i++) {
        const nd_bucket_item *item = item_of(join, candidates[i]);
        const int64_t other = (int64_t)(candidates[i] >> ND_ITEM_BITS);
        nd_verdict verdict = {0};
        ND_TRY(nd_bucket_watched(join, i));
        if (join->is_sparse && nd_bucket_is_connected(join, item, other))
            continue;
        if (other != present.id) {
            ND_TRY(nd_bucket_read(join, other, 0, &present));
            if (join->mode == ND_BUCKETS_CONNECT)
                ND_TRY(nd_bucket_look(join, other, &visible));
        }
        if (visible)
            ND_TRY(nd_bucket_verify(join, nd_bucket_compared(join, item), present, &verdict));
        if (verdict.matches)
            ND_TRY(add_pair(join, item->id, other, &verdict));
    }
    return ND_OK;
}

/* Each pair once, others in the order of their ids, so that each is read once. */
int nd_bucket_drain(nd_bucket_join *join)
{
    uint64_t *candidates = join->candidates.at;
    size_t count = nd_sort_distinct(candidates, join->candidates.count);
    join->candidates.count = 0;
    for (size_t first = 0, end; first < count; first = end) {
        if (nd_bucket_is_loaded_full(join))
            nd_bucket_forget(join);
        for (end = first; end < count && !nd_bucket_is_loaded_full(join); end++)
            ND_TRY(nd_bucket_load(join, item_of(join, candidates[end])));
        ND_TRY(compare_candidates(join, candidates + first, end - first));
    }
    return ND_OK;
}

int nd_bucket_add_candidate(nd_bucket_join *join, size_t item, int64_t other)
{
    ND_TRY(nd_bucket_watched(join, join->candidates.count));
    if (join->candidates.count == ND_CANDIDATES_MAX) {
        join->candidates.count = nd_sort_distinct(join->candidates.at, join->candidates.count);
        if (2 * join->candidates.count > ND_CANDIDATES_MAX)
            ND_TRY(nd_bucket_drain(join));
    }
    return ND_PUSH(join->candidates, (uint64_t)other << ND_ITEM_BITS | item);
}
