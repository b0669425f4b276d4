/* prefix_lists.c: lists of the sets that have a rare value in common.
 *
 * Values are ordered by how many sets have them, the rarest first, and of a set only the first few in this order are filed or
 * sought (set_join.c says how many). Most of these values are in no other set, and need no work once that is known. So values are
 * counted in a table of bytes, by hash and without a look at collisions: at most three to four bytes of memory a value. A value
 * that was counted once is certainly in one set only. A collision makes other counts too high, which costs time and nothing else:
 * any order does, as long as it is the same for all sets. Only values counted more than once become records and are sorted. */
#include <stdlib.h>

#include "joins/prefix_lists.h"

enum { CLASSES = 256 };

/* The product of an odd number is as good as the value itself, and its high bits depend on all of the value's. */
#define SPREAD 0x9E3779B97F4A7C15u
/* Records are sorted by the key's bits from this one on; those below seldom decide anything. */
#define LOW_BITS 31

/* Set in a record of a value that is filed, and not only sought. */
#define FILED ((uint64_t)1 << 31)

typedef struct list_builder {
    const nd_sets *sets;
    double threshold;
    uint8_t *classes;   /* how rare the values of a slot are */
    unsigned shift;     /* of a slot */
    uint8_t *own;       /* the class of each value of a set */
    uint32_t *order;    /* the value in each place of a set */
    nd_record *records; /* the value * SPREAD, and set << 32 | FILED or 0 | which of the set's entries */
    size_t record_count, record_capacity;
    uint32_t *places; /* of each entry */
    size_t places_capacity;
} list_builder;

static size_t filed_count(size_t length, double threshold)
{
    return length - nd_overlap_needed(2 * length, threshold) + 1;
}

/* ---- how rare a value is ------------------------------------------------------------------------------------------------------ */

/* 0 to 128 are counts. From there on each class is reached by chance only, eight of them while the count doubles (Morris 1978). */
static inline void count_up(uint8_t *count, uint64_t *random)
{
    if (*count < CLASSES / 2) {
        ++*count;
    } else if (*count < CLASSES - 1) {
        unsigned bits = 4 + (*count - CLASSES / 2u) / 8;
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        *count = (uint8_t)(*count + (*random >> (64 - bits) == 0));
    }
}

static size_t slot_of(unsigned shift, uint64_t value)
{
    return (size_t)(value * SPREAD >> shift);
}

static int is_later(const nd_sets *sets, size_t set)
{
    return sets->leader[set] >= sets->split;
}

/* Counts the values of one collection; with `only`, those that have a count there. */
static void count_collection(const list_builder *build, int later, const uint8_t *only, uint8_t *classes)
{
    const nd_sets *sets = build->sets;
    uint64_t random = 1;
    for (size_t s = 0; s < sets->count; s++) {
        if (is_later(sets, s) != later)
            continue;
        const uint64_t *values = nd_sets_values(sets, s);
        for (size_t i = 0; i < sets->lengths[s]; i++) {
            size_t slot = slot_of(build->shift, values[i]);
            if (only == NULL || only[slot] != 0)
                count_up(&classes[slot], &random);
        }
    }
}

/* Of two collections the one with fewer values is counted, and then the other where that has values at all: a large collection
 * costs little beside a small one, whose table stays in the cache. A value of only one collection makes no pair. */
static int count_values(list_builder *build)
{
    const nd_sets *sets = build->sets;
    size_t totals[2] = {0};
    for (size_t s = 0; s < sets->count; s++)
        totals[is_later(sets, s)] += sets->lengths[s];
    int one = sets->split == ND_NO_SPLIT, later = !one && totals[1] < totals[0];
    unsigned bits = 10;
    while (((uint64_t)1 << bits) < 2 * (uint64_t)totals[later])
        bits++;
    build->shift = 64 - bits;
    build->classes = calloc((size_t)1 << bits, 1);
    if (build->classes == NULL)
        return ND_ERROR_MEMORY;
    count_collection(build, later, NULL, build->classes);
    if (one)
        return ND_OK;
    uint8_t *others = calloc((size_t)1 << bits, 1), *classes = build->classes;
    if (others == NULL)
        return ND_ERROR_MEMORY;
    count_collection(build, !later, classes, others);
    for (size_t slot = 0; slot < (size_t)1 << bits; slot++) {
        uint8_t most = classes[slot] > others[slot] ? classes[slot] : others[slot];
        classes[slot] = classes[slot] == 0 || others[slot] == 0 ? 1 : most == 1 ? 2 : most;
    }
    free(others);
    return ND_OK;
}

/* ---- what a set files and seeks ------------------------------------------------------------------------------------------------ */

/* order[]: the value in each place of a set. Returns the first place of a value that others may have; `prefix`, and no order, if
 * that is behind the prefix. */
static size_t order_by_rarity(list_builder *build, const uint64_t *values, size_t length, size_t prefix)
{
    const uint8_t *const classes = build->classes;
    const unsigned shift = build->shift;
    uint8_t *restrict own = build->own;
    uint32_t *restrict order = build->order;
    uint32_t starts[CLASSES] = {0};
    for (size_t i = 0; i < length; i++) {
        own[i] = classes[slot_of(shift, values[i])];
        starts[own[i]]++;
    }
    uint32_t alone = starts[1], start = 0;
    if (alone >= prefix)
        return prefix;
    for (size_t rarity = 0; rarity < CLASSES; rarity++) {
        uint32_t size = starts[rarity];
        starts[rarity] = start;
        start += size;
    }
    for (size_t i = 0; i < length; i++)
        order[starts[own[i]]++] = (uint32_t)i;
    return alone;
}

static int make_records(list_builder *build, size_t *starts)
{
    const nd_sets *sets = build->sets;
    for (size_t s = 0; s < sets->count; s++) {
        const uint64_t *values = nd_sets_values(sets, s);
        size_t length = sets->lengths[s], prefix = nd_prefix_count(length, build->threshold), count = build->record_count;
        size_t first = order_by_rarity(build, values, length, prefix), needed = count + prefix - first;
        uint64_t filed = filed_count(length, build->threshold);
        starts[s] = count;
        if (needed == count) /* nothing of it is shared: there may be no buffer yet to point into */
            continue;
        ND_TRY(nd_reserve(&build->records, &build->record_capacity, needed, sizeof(nd_record)));
        ND_TRY(nd_reserve(&build->places, &build->places_capacity, needed, sizeof(uint32_t)));
        nd_record *records = build->records + count;
        uint32_t *places = build->places + count;
        for (size_t place = first; place < prefix; place++) {
            *records++ = (nd_record){values[build->order[place]] * SPREAD,
                (uint64_t)s << 32 | (place < filed ? FILED : 0) | (place - first)};
            *places++ = (uint32_t)place;
        }
        build->record_count = needed;
    }
    starts[sets->count] = build->record_count;
    return ND_OK;
}

/* ---- lists ----------------------------------------------------------------------------------------------------------------------- */

/* By key, equal ones by set. other: room for all. */
static nd_record *sort_by_value(nd_record *records, nd_record *other, size_t count)
{
    nd_record *sorted = nd_sort_records(records, other, count, LOW_BITS, 64);
    other = sorted == records ? other : records;
    for (size_t at = 0, end; at < count; at = end) {
        int equal = 1;
        for (end = at + 1; end < count && sorted[end].key >> LOW_BITS == sorted[at].key >> LOW_BITS; end++)
            equal &= sorted[end].key == sorted[at].key;
        if (equal)
            continue;
        nd_record *run = nd_sort_records(sorted + at, other + at, end - at, 0, LOW_BITS);
        if (run != sorted + at)
            memcpy(sorted + at, run, (end - at) * sizeof *run);
    }
    return sorted;
}

/* Makes a list of the sets of `count` records, which have one value; returns how many postings there are now. */
static size_t make_list(nd_lists *lists, const nd_record *sorted, size_t count, uint32_t list, size_t posted)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t set = (uint32_t)(sorted[i].item >> 32);
        nd_entry *entry = &lists->entries[lists->starts[set] + (sorted[i].item & (FILED - 1))];
        entry->list = list;
        entry->end = (uint32_t)posted;
        if (sorted[i].item & FILED)
            lists->postings[posted++] = (nd_posting){set, entry->place};
    }
    return posted;
}

/* Whether the value of these records is that of a pair: there are two sets at least, and not all are of one collection. */
static int is_shared(const nd_sets *sets, const nd_record *sorted, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (nd_sets_wanted(sets, (size_t)(sorted[0].item >> 32), (size_t)(sorted[i].item >> 32)))
            return 1;
    return 0;
}

static void make_lists(const list_builder *build, nd_lists *lists, const nd_record *sorted)
{
    const uint32_t *places = build->places;
    size_t count = build->record_count, posted = 0;
    uint32_t list = 0;
    for (size_t i = 0; i < count; i++)
        lists->entries[i] = (nd_entry){ND_NO_LIST, places[i], 0};
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && sorted[end].key == sorted[at].key;)
            end++;
        if (!is_shared(build->sets, sorted + at, end - at))
            continue;
        lists->heads[list] = (uint32_t)posted;
        posted = make_list(lists, sorted + at, end - at, list++, posted);
    }
}

static int build_lists(list_builder *build, nd_lists *lists)
{
    size_t longest = build->sets->lengths[build->sets->count - 1];
    if (longest >= FILED)
        return ND_ERROR_CAPACITY;
    build->own = malloc(longest * sizeof *build->own);
    build->order = malloc(longest * sizeof *build->order);
    lists->starts = malloc((build->sets->count + 1) * sizeof *lists->starts);
    int status = build->own && build->order && lists->starts ? count_values(build) : ND_ERROR_MEMORY;
    if (status == ND_OK)
        status = make_records(build, lists->starts);
    free(build->classes);
    if (status != ND_OK || build->record_count == 0)
        return status;
    size_t count = build->record_count;
    nd_record *other = malloc(count * sizeof *other);
    if (other == NULL)
        return ND_ERROR_MEMORY;
    nd_record *sorted = sort_by_value(build->records, other, count);
    free(sorted == other ? build->records : other);
    build->records = sorted;
    lists->entries = malloc(count * sizeof *lists->entries);
    lists->postings = malloc(count * sizeof *lists->postings);
    lists->heads = malloc((count / 2 + 1) * sizeof *lists->heads);
    if (lists->entries == NULL || lists->postings == NULL || lists->heads == NULL)
        return ND_ERROR_MEMORY;
    make_lists(build, lists, sorted);
    return ND_OK;
}

int nd_lists_new(nd_lists *lists, const nd_sets *sets, double threshold)
{
    list_builder build = {.sets = sets, .threshold = threshold};
    *lists = (nd_lists){0};
    int status = build_lists(&build, lists);
    free(build.own);
    free(build.order);
    free(build.records);
    free(build.places);
    return status;
}

void nd_lists_free(nd_lists *lists)
{
    free(lists->starts);
    free(lists->entries);
    free(lists->postings);
    free(lists->heads);
}
