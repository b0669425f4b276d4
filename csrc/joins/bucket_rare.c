/* bucket_rare.c: buckets in which many meet and few match, as edits of one template do. To compare all pairs of such a bucket is a
 * square: each member meets only those that it may match (rare_sets.c). */
#include "joins/bucket_run.h"

#define SETS_A_LOOK 256 /* each set takes as long as so many candidates */

/* A member that asks. */
typedef struct asking_member {
    nd_bucket_join *join;
    size_t number;
} asking_member;

static int meet_other(void *context, int64_t id)
{
    const asking_member *asking = context;
    nd_bucket_join *join = asking->join;
    if (join->mode == ND_BUCKETS_CONNECT)
        return nd_bucket_meet_connecting(join, asking->number, id);
    return nd_bucket_asks(join, &join->items.at[asking->number], id) ? nd_bucket_add_candidate(join, asking->number, id) : ND_OK;
}

static double bound_of(void *context)
{
    return ((const asking_member *)context)->join->verifier.rule.threshold;
}

static int is_connected(void *context, int64_t id)
{
    const asking_member *asking = context;
    return nd_bucket_is_connected(asking->join, &asking->join->items.at[asking->number], id);
}

/* Asked for every set of the bucket. */
static int watched(const nd_bucket_join *join, size_t number)
{
    return nd_bucket_watched(join, (number + 1) * SETS_A_LOOK);
}

/* Looks at all sets of the bucket, for the order and the smallest. Not all members stand under the probe. */
static int survey(nd_bucket_join *join)
{
    nd_compared set;
    nd_rare_sets_begin(join->rare, join->others.count);
    for (size_t i = 0; i < join->others.count; i++) {
        ND_TRY(nd_bucket_read(join, (int64_t)join->others.at[i], 1, &set));
        ND_TRY(nd_rare_sets_count(join->rare, set.bytes, set.size));
        ND_TRY(watched(join, i));
    }
    nd_rare_sets_order(join->rare);
    for (size_t i = 0; i < join->members.count; i++) {
        ND_TRY(nd_bucket_take(join, &join->items.at[join->members.at[i]], &set));
        const size_t size = nd_elements_count(&join->verifier.rule, set.size);
        join->rare->least = size > 0 && size < join->rare->least ? size : join->rare->least;
    }
    return ND_OK;
}

/* Others from *at on that the item asks, as many as there is room for. */
static int add_others(nd_bucket_join *join, const nd_bucket_item *item, size_t *at)
{
    const size_t count = join->others.count;
    nd_compared set;
    for (; *at < count && nd_rare_sets_memory(join->rare) < ND_RARE_BYTES; ++*at) {
        const int64_t id = (int64_t)join->others.at[join->mode == ND_BUCKETS_ALL ? count - 1 - *at : *at];
        if (!nd_bucket_asks(join, item, id))
            break;
        ND_TRY(nd_bucket_read(join, id, 1, &set));
        ND_TRY(nd_rare_sets_add(join->rare, id, set.bytes, set.size));
    }
    return ND_OK;
}

static int ask_others(nd_bucket_join *join, size_t number)
{
    nd_bucket_item *item = &join->items.at[number];
    const nd_rare_asker asker = {.context = &(asking_member){join, number},
        .meet = meet_other,
        .bound = bound_of,
        .components = join->mode == ND_BUCKETS_CONNECT ? join->components : NULL,
        .is_connected = is_connected};
    nd_compared set;
    if (!item->visible || join->rare->sets.count == 0)
        return ND_OK;
    ND_TRY(nd_bucket_take(join, item, &set));
    return nd_rare_sets_ask(join->rare, set.bytes, set.size, &asker);
}

int nd_bucket_by_rare(nd_bucket_join *join, size_t first_member)
{
    if (join->rare == NULL && (join->rare = nd_rare_sets_new(&join->verifier.rule)) == NULL)
        return ND_ERROR_MEMORY;
    ND_TRY(survey(join));
    for (size_t at = 0, begun = SIZE_MAX; at < join->others.count && at != begun;) {
        begun = at;
        nd_rare_sets_forget(join->rare);
        for (size_t i = first_member; i < join->members.count; i++) {
            /* each asks those before it or, of all pairs, behind it: these are added as the members go on */
            const size_t number = join->members.at[join->mode == ND_BUCKETS_ALL ? join->members.count - 1 - i : i];
            ND_TRY(add_others(join, &join->items.at[number], &at));
            ND_TRY(ask_others(join, number));
            ND_TRY(watched(join, i));
        }
    }
    return ND_OK;
}
