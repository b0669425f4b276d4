/* bucket_rare.c: buckets in which many meet and few match, as edits of one template do. To compare all pairs of such a bucket is a
 * square: sets meet by their rarest elements (rarity.h), by how many sets of the bucket have each. Where most sets have most of these
 * in common, as edits of one text do, all bitmaps are looked at instead. */
#include <stdlib.h>

#include "joins/bitmaps.h"
#include "joins/bucket_run.h"
#include "joins/deduplicator.h"
#include "joins/rarity.h"

#define NONE UINT32_MAX
#define SETS_A_LOOK 256 /* each set takes as long as so many candidates */

/* Sets that have an element (or another one with its 32 bits in the table), and `rest` elements from it on in the bucket's order. */
typedef struct rare_group {
    int64_t name;     /* an id of the component in which all entries from `settled` on are */
    uint32_t settled; /* NONE: they were not seen in one */
    uint32_t rest;
    uint32_t fresh; /* entries that are newer */
    uint32_t head;  /* its newest entry */
    uint32_t next;  /* an older group of the same element */
} rare_group;

typedef struct rare_entry {
    uint32_t other; /* number of the other one */
    uint32_t next;
} rare_entry;

typedef struct rare_other {
    int64_t id;
    uint32_t size;
    uint32_t asked; /* the last member that was compared with it, from 1 on */
} rare_other;

struct nd_bucket_rare {
    nd_rarity order;
    size_t least;           /* size of the smallest set of the bucket */
    int by_bitmaps;         /* no set is looked up by its rarest elements */
    size_t prefix;          /* of the present set: its rarest elements that are looked up */
    size_t total, needed;   /* the last sum of two sizes, and how many of them must be common */
    nd_dedup_buckets heads; /* by element: the newest of its groups */
    ND_LIST(rare_group) groups;
    ND_LIST(rare_entry) entries;
    ND_LIST(rare_other) others;
    ND_LIST(uint64_t) majority; /* elements that most sets of the bucket have */
    size_t usual;               /* how much smaller than a set its difference from the majority is */
    nd_sized_bitmaps *bitmaps;  /* of the others */
};

void nd_bucket_free_rare(nd_bucket_join *join)
{
    nd_bucket_rare *rare = join->rare;
    if (rare == NULL)
        return;
    nd_rarity_release(&rare->order);
    free(rare->heads.at);
    free(rare->groups.at);
    free(rare->entries.at);
    free(rare->others.at);
    free(rare->majority.at);
    nd_sized_bitmaps_free(rare->bitmaps);
    free(rare);
}

int nd_bucket_has_rare(const nd_bucket_join *join)
{
    const nd_scheme *rule = &join->rule;
    int has_elements = rule->kind == ND_SCHEME_MINHASH;
    has_elements |= rule->kind == ND_SCHEME_BOTTOMK;
    return has_elements && rule->threshold > 0;
}

/* A Jaccard similarity of elements below which no two sets match. Of an estimate, s of the k smallest hashes of two sets are in both,
 * which have 2 k at the most. */
static double bound_of(const nd_scheme *rule)
{
    const int estimate = rule->kind == ND_SCHEME_BOTTOMK && rule->measure == ND_MEASURE_ESTIMATE;
    return estimate ? rule->threshold / (2 - rule->threshold) * (1 - 1e-9) : rule->threshold;
}

static void note_size(nd_bucket_rare *rare)
{
    if (rare->order.size > 0 && rare->order.size < rare->least)
        rare->least = rare->order.size;
}

/* Asked for every set of the bucket. */
static int watched(const nd_bucket_join *join, size_t number)
{
    return nd_bucket_watched(join, (number + 1) * SETS_A_LOOK);
}

/* ---- one set -------------------------------------------------------------------------------------------------------------- */

/* How many elements must be common to the present set and one of another size. */
static size_t needed_with(nd_bucket_rare *rare, const nd_scheme *rule, size_t size)
{
    if (rare->total != rare->order.size + size) {
        rare->total = rare->order.size + size;
        rare->needed = nd_rarity_is_signature(rule) ? nd_share_needed(rare->order.size, rule->threshold)
                                                    : nd_overlap_needed(rare->total, bound_of(rule));
    }
    return rare->needed;
}

/* How many of the present set, the rarest, hold one that is common with any set of the bucket that matches: the smallest set asks for
 * the fewest in common, and none for fewer than a part of this one would. */
static size_t prefix_of(nd_bucket_rare *rare, const nd_scheme *rule)
{
    const size_t part = nd_share_needed(rare->order.size, bound_of(rule)), with_least = needed_with(rare, rule, rare->least);
    /* where the smallest set is too small to match this one, no number would do: those that can match ask for the part at least */
    const size_t needed = with_least > part && with_least <= rare->order.size ? with_least : part;
    return needed > rare->order.size ? 0 : needed == 0 ? rare->order.size : rare->order.size - needed + 1;
}

/* Puts the elements of the present set into the order of the bucket: the first `prefix` of `sorted` are to be looked at. */
static void rank_elements(nd_bucket_rare *rare, const nd_scheme *rule)
{
    nd_rarity_sort(&rare->order);
    rare->prefix = rare->order.size == 0 ? 0 : prefix_of(rare, rule);
}

/* ---- the others, by their rarest elements ----------------------------------------------------------------------------------- */

static int is_full(const nd_bucket_rare *rare)
{
    return rare->groups.count * (sizeof *rare->groups.at + 2 * sizeof *rare->heads.at) +
               rare->entries.count * sizeof *rare->entries.at + rare->others.count * sizeof *rare->others.at +
               nd_sized_bitmaps_words(rare->bitmaps) * sizeof(uint64_t) >=
           ND_RARE_BYTES;
}

static int forget_others(nd_bucket_rare *rare)
{
    for (size_t i = 0; rare->heads.used > 0 && i < rare->heads.capacity; i++)
        rare->heads.at[i] = (nd_dedup_bucket){.newest = NONE};
    rare->heads.used = rare->groups.count = rare->entries.count = rare->others.count = 0;
    return nd_sized_bitmaps_begin(rare->bitmaps, rare->majority.at, rare->majority.count);
}

/* Enters one of the others into the group of an element and a rest. There are about as many groups of an element as sizes of sets. */
static int enter_group(nd_bucket_rare *rare, uint64_t element, uint32_t rest, uint32_t other)
{
    const uint32_t newest = nd_dedup_newest(&rare->heads, element);
    uint32_t number = newest, older;
    while (number != NONE && rare->groups.at[number].rest != rest)
        number = rare->groups.at[number].next;
    if (number == NONE) {
        number = (uint32_t)rare->groups.count;
        ND_TRY(ND_ROOM(rare->groups, rare->groups.count + 1));
        ND_TRY(nd_dedup_file(&rare->heads, element, number, &older));
        rare->groups.at[rare->groups.count++] = (rare_group){.settled = NONE, .rest = rest, .head = NONE, .next = newest};
    }
    rare_group *group = &rare->groups.at[number];
    rare->entries.at[rare->entries.count] = (rare_entry){other, group->head};
    group->head = (uint32_t)rare->entries.count++;
    group->fresh++;
    return ND_OK;
}

/* Counts an element. One that the next set of more than half has, or is counted with such a one, is of the majority. */
static int count_element(nd_bucket_rare *rare, uint64_t element, size_t half)
{
    if (++*nd_rarity_counter(&rare->order, element) != half + 1)
        return ND_OK;
    ND_TRY(ND_ROOM(rare->majority, rare->majority.count + 1));
    rare->majority.at[rare->majority.count++] = element;
    return ND_OK;
}

/* How much smaller a set's difference from the majority is, on an average. */
static size_t usual_gain(nd_bucket_rare *rare, size_t sets)
{
    size_t common = 0;
    for (size_t i = 0; i < rare->majority.count; i++)
        common += *nd_rarity_counter(&rare->order, rare->majority.at[i]);
    return 2 * common / sets > rare->majority.count ? 2 * common / sets - rare->majority.count : 0;
}

/* Words of a bitmap for sets of so many elements. */
static size_t words_of(const nd_bucket_rare *rare, size_t size)
{
    return nd_bitmaps_close_words(size > rare->usual ? size - rare->usual : 0);
}

/* Takes the elements of one of the others. */
static int take_other(nd_bucket_join *join, int64_t id)
{
    const uint8_t *bytes;
    size_t size;
    ND_TRY(nd_bucket_bytes(join, id, 1, &bytes, &size));
    return nd_rarity_take(&join->rare->order, &join->rule, bytes, size);
}

static int add_other(nd_bucket_join *join, int64_t id)
{
    nd_bucket_rare *rare = join->rare;
    ND_TRY(take_other(join, id));
    if (!rare->by_bitmaps)
        rank_elements(rare, &join->rule);
    ND_TRY(ND_ROOM(rare->entries, rare->entries.count + rare->prefix));
    ND_TRY(ND_ROOM(rare->others, rare->others.count + 1));
    const size_t size = rare->order.size;
    const uint32_t other = (uint32_t)rare->others.count;
    for (size_t at = 0; at < rare->prefix; at++)
        ND_TRY(enter_group(rare, rare->order.sorted.at[at].item, (uint32_t)(size - at), other));
    if (size > 0)
        ND_TRY(nd_sized_bitmaps_add(rare->bitmaps, other, rare->order.plain.at, size, words_of(rare, size)));
    rare->others.at[rare->others.count++] = (rare_other){id, (uint32_t)size, 0};
    return ND_OK;
}

/* Counts the elements of all others of the bucket. */
static int count_elements(nd_bucket_join *join)
{
    nd_bucket_rare *rare = join->rare;
    memset(rare->order.counts, 0, sizeof rare->order.counts);
    rare->majority.count = 0;
    for (size_t i = 0; i < join->others.count; i++) {
        ND_TRY(take_other(join, (int64_t)join->others.at[i]));
        note_size(rare);
        for (size_t j = 0; j < rare->order.size; j++)
            ND_TRY(count_element(rare, rare->order.plain.at[j], join->others.count / 2));
        ND_TRY(watched(join, i));
    }
    rare->majority.count = nd_sort_distinct(rare->majority.at, rare->majority.count);
    rare->usual = usual_gain(rare, join->others.count);
    return ND_OK;
}

/* Loads a member's bytes and takes their elements. */
static int take_member(nd_bucket_join *join, nd_bucket_item *item)
{
    if (nd_bucket_is_loaded_full(join))
        nd_bucket_forget(join);
    ND_TRY(nd_bucket_load(join, item));
    return nd_rarity_take(&join->rare->order, &join->rule, join->arena.at + item->offset, item->size);
}

/* Whether some members have their rarest elements in common with so many others that bitmaps are looked at sooner. */
static int choose_filter(nd_bucket_join *join)
{
    nd_bucket_rare *rare = join->rare;
    const size_t step = join->members.count / ND_BUCKET_SAMPLE + 1;
    size_t common = 0, words = 0;
    for (size_t i = 0; i < join->members.count; i += step) {
        ND_TRY(take_member(join, &join->items.at[join->members.at[i]]));
        rank_elements(rare, &join->rule);
        for (size_t at = 0; at < rare->prefix; at++)
            common += *nd_rarity_counter(&rare->order, rare->order.sorted.at[at].item);
        words += join->others.count * words_of(rare, rare->order.size);
    }
    rare->by_bitmaps = ND_BITMAP_WORDS_FOR * common > words;
    rare->prefix = 0;
    return ND_OK;
}

/* Looks at all sets of the bucket, for the order and the smallest. Not all members stand under the probe. */
static int survey(nd_bucket_join *join)
{
    join->rare->least = SIZE_MAX / 2;
    join->rare->by_bitmaps = 0;
    ND_TRY(count_elements(join));
    if (join->mode != ND_BUCKETS_CONNECT)
        ND_TRY(choose_filter(join));
    for (size_t i = 0; i < join->members.count && !join->rare->by_bitmaps; i++) {
        ND_TRY(take_member(join, &join->items.at[join->members.at[i]]));
        note_size(join->rare);
    }
    return ND_OK;
}

/* ---- the members ------------------------------------------------------------------------------------------------------------ */

/* A member that asks. */
typedef struct asking_member {
    nd_bucket_join *join;
    size_t number;
} asking_member;

static size_t needed_of(void *context, size_t size, size_t other_size)
{
    const asking_member *asking = context;
    (void)size;
    return needed_with(asking->join->rare, &asking->join->rule, other_size);
}

static int meet_other(void *context, uint32_t record)
{
    const asking_member *asking = context;
    nd_bucket_join *join = asking->join;
    const int64_t id = join->rare->others.at[record].id;
    if (join->mode == ND_BUCKETS_CONNECT)
        return nd_bucket_meet_connecting(join, asking->number, id);
    return nd_bucket_asks(join, &join->items.at[asking->number], id) ? nd_bucket_add_candidate(join, asking->number, id) : ND_OK;
}

/* A member meets the entries of a group, with each of which it has `rest` elements in common at the most. Of those that connect, a
 * group in one component, as near-copies are, is passed by from where that was seen. */
static int meet_group(nd_bucket_join *join, size_t number, rare_group *group, size_t rest)
{
    nd_bucket_rare *rare = join->rare;
    const nd_bucket_item *item = &join->items.at[number];
    const uint32_t newest = group->head;
    const int64_t name = rare->others.at[rare->entries.at[newest].other].id;
    const int64_t root = nd_components_find(join->components, name);
    int is_settled = join->mode == ND_BUCKETS_CONNECT;
    for (uint32_t at = newest; at != NONE; at = rare->entries.at[at].next) {
        if (at == group->settled && nd_bucket_is_connected(join, item, group->name)) {
            is_settled &= nd_components_find(join->components, group->name) == root;
            break;
        }
        rare_other *other = &rare->others.at[rare->entries.at[at].other];
        is_settled = is_settled && nd_components_find(join->components, other->id) == root;
        if (other->asked == number + 1 || rest < needed_with(rare, &join->rule, other->size))
            continue;
        other->asked = (uint32_t)number + 1;
        ND_TRY(meet_other(&(asking_member){join, number}, rare->entries.at[at].other));
    }
    if (is_settled) {
        group->name = name;
        group->settled = newest;
        group->fresh = 0;
    }
    return ND_OK;
}

/* Whether all bitmaps are sooner looked at than the others that have one of the rarest elements of the present set. */
static int is_common(const nd_bucket_rare *rare)
{
    size_t count = 0;
    for (size_t at = 0; at < rare->prefix; at++)
        for (uint32_t next = nd_dedup_newest(&rare->heads, rare->order.sorted.at[at].item); next != NONE;
             next = rare->groups.at[next].next)
            count += rare->groups.at[next].fresh;
    return ND_BITMAP_WORDS_FOR * count > nd_sized_bitmaps_words(rare->bitmaps);
}

/* A member meets the others that may match it. */
static int ask_others(nd_bucket_join *join, size_t number)
{
    nd_bucket_rare *rare = join->rare;
    ND_TRY(take_member(join, &join->items.at[number]));
    if (!rare->by_bitmaps)
        rank_elements(rare, &join->rule);
    if (rare->by_bitmaps || is_common(rare))
        return nd_sized_bitmaps_ask(rare->bitmaps, rare->order.plain.at, rare->order.size,
            &(nd_bitmap_asker){&(asking_member){join, number}, needed_of, meet_other});
    for (size_t at = 0; at < rare->prefix; at++) {
        const size_t mine = rare->order.size - at;
        uint32_t next = nd_dedup_newest(&rare->heads, rare->order.sorted.at[at].item);
        for (; next != NONE; next = rare->groups.at[next].next) {
            rare_group *group = &rare->groups.at[next];
            const size_t rest = mine < group->rest ? mine : group->rest;
            if (rest >= needed_with(rare, &join->rule, group->rest)) /* no set of the group is smaller */
                ND_TRY(meet_group(join, number, group, rest));
        }
    }
    return ND_OK;
}

/* Others from *at on that the item asks, as many as there is room for. */
static int add_others(nd_bucket_join *join, const nd_bucket_item *item, size_t *at)
{
    const size_t count = join->others.count;
    for (; *at < count && !is_full(join->rare); ++*at) {
        const int64_t id = (int64_t)join->others.at[join->mode == ND_BUCKETS_ALL ? count - 1 - *at : *at];
        if (!nd_bucket_asks(join, item, id))
            break;
        ND_TRY(add_other(join, id));
    }
    return ND_OK;
}

int nd_bucket_by_rare(nd_bucket_join *join, size_t first_member)
{
    if (join->rare == NULL)
        join->rare = calloc(1, sizeof *join->rare);
    if (join->rare == NULL || (join->rare->bitmaps == NULL && (join->rare->bitmaps = nd_sized_bitmaps_new()) == NULL))
        return ND_ERROR_MEMORY;
    ND_TRY(survey(join));
    for (size_t at = 0, begun = SIZE_MAX; at < join->others.count && at != begun;) {
        begun = at;
        ND_TRY(forget_others(join->rare));
        for (size_t i = first_member; i < join->members.count; i++) {
            /* each asks those before it or, of all pairs, behind it: these are added as the members go on */
            const size_t number = join->members.at[join->mode == ND_BUCKETS_ALL ? join->members.count - 1 - i : i];
            const nd_bucket_item *item = &join->items.at[number];
            ND_TRY(add_others(join, item, &at));
            if (item->visible && join->rare->others.count > 0)
                ND_TRY(ask_others(join, number));
            ND_TRY(watched(join, i));
        }
    }
    return ND_OK;
}
