/* set_join.c: all pairs of sets with Jaccard similarity at or above a threshold, exactly (prefix filter: Chaudhuri, Ganti and
 * Kaushik 2006; Bayardo, Ma and Srikant 2007; positional filter: Xiao, Wang, Lin and Yu 2008).
 *
 * 1. Equal arrays are joined once: the first of them stands for its group.
 * 2. The values of every set are ordered by how many sets have them, the rarest first (prefix_lists.c).
 * 3. Sets are taken by length. Two sets with an overlap of c share one of their first length - c + 1 values; a set seeks its first
 *    length - o + 1 values (any partner) among those that earlier, shorter sets have filed, which are the first
 *    length - need(2 * length) + 1 of each (partners as long or longer).
 * 4. What is met often enough is verified by nd_jaccard: the verdict is never a filter's.
 * Where looking at the bitmaps of all sets of a possible length (bitmaps.c) is cheaper than 2 and 3, or for one set than
 * the lists that it would have to walk, that is done instead.
 * Every bound is found by testing the verdict itself (compare.c), so that no pair exactly at the threshold is lost. */
#include <stdlib.h>

#include "joins/joins.h"
#include "joins/bitmaps.h"
#include "joins/prefix_lists.h"

#define NONE UINT32_MAX
#define DEAD UINT32_MAX

/* With the set that seeks: how many values were met, 0 = none yet, DEAD = it cannot reach what it needs. */
typedef struct meeting {
    uint32_t overlap, needed;
} meeting;

struct nd_set_join {
    nd_sets sets;
    double threshold;
    nd_pairs *pairs; /* of the present piece */
    size_t count;    /* of input arrays */
    uint32_t *next;  /* of input array i: the next one equal to it, or NONE */
    nd_lists lists;
    meeting *meetings; /* with each set */
    uint32_t *met;
    nd_bitmaps bitmaps;
    int listed;        /* lists are made, else there are bitmaps only */
    size_t next_set;   /* with which the next piece begins, */
    size_t first_long; /* and the first set that is long enough to be its partner */
};

static size_t start_of(const nd_set_join *join, size_t array)
{
    return array == 0 ? 0 : (size_t)join->sets.ends[array - 1];
}

static size_t length_of(const nd_set_join *join, size_t array)
{
    return (size_t)join->sets.ends[array] - start_of(join, array);
}

static const uint8_t *bytes_of(const nd_set_join *join, size_t array)
{
    return (const uint8_t *)(join->sets.values + start_of(join, array));
}

/* ---- 1. groups of equal arrays --------------------------------------------------------------------------------------------- */

static int check_input(const uint64_t *values, const uint64_t *ends, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t start = i == 0 ? 0 : ends[i - 1];
        if (ends[i] < start || ends[i] > ends[count - 1])
            return ND_ERROR_DAMAGED;
        for (uint64_t at = start + 1; at < ends[i]; at++)
            if (values[at - 1] >= values[at])
                return ND_ERROR_DAMAGED;
    }
    return ND_OK;
}

/* Equal arrays of two collections are not one set, but a pair to be found like any other. */
static int equal_arrays(const nd_set_join *join, size_t a, size_t b)
{
    size_t length = length_of(join, a), split = join->sets.split;
    return (a < split) == (b < split) && length == length_of(join, b) &&
           memcmp(bytes_of(join, a), bytes_of(join, b), 8 * length) == 0;
}

/* Chains equal arrays and makes the first of each chain a set, ordered by length. */
static void group_equal(nd_set_join *join, nd_record *records, nd_record *other)
{
    size_t filled = 0;
    for (size_t i = 0; i < join->count; i++) {
        join->next[i] = NONE;
        if (length_of(join, i) > 0)
            records[filled++] = (nd_record){nd_xxh3_64(bytes_of(join, i), 8 * length_of(join, i), 0), i};
    }
    nd_record *sorted = nd_sort_records(records, other, filled, 0, 64);
    nd_record *leaders = sorted == records ? other : records;
    for (size_t i = 0, run = 0; i < filled; i++) {
        /* Different arrays with one hash are very rare: the leaders of a run are tried in turn. */
        if (i == 0 || sorted[i].key != sorted[i - 1].key)
            run = join->sets.count;
        size_t array = (size_t)sorted[i].item, at = run;
        while (at < join->sets.count && !equal_arrays(join, (size_t)leaders[at].item, array))
            at++;
        if (at == join->sets.count) {
            leaders[join->sets.count++] = (nd_record){length_of(join, array), array};
        } else {
            size_t first = (size_t)leaders[at].item;
            join->next[array] = join->next[first];
            join->next[first] = (uint32_t)array;
        }
    }
    const nd_record *by_length = nd_sort_records(leaders, sorted, join->sets.count, 0, 32);
    for (size_t s = 0; s < join->sets.count; s++) {
        join->sets.leader[s] = (uint32_t)by_length[s].item;
        join->sets.lengths[s] = (uint32_t)by_length[s].key;
    }
}

/* ---- 3. seeking ---------------------------------------------------------------------------------------------------------------- */

/* Counts what set s has in common with the sets filed under the values of its prefix; returns how many it met. */
static size_t probe(nd_set_join *join, size_t s)
{
    const uint32_t *lengths = join->sets.lengths;
    nd_lists *lists = &join->lists;
    size_t length = lengths[s], shortest = nd_share_needed(length, join->threshold), met = 0;
    for (size_t e = lists->starts[s]; e < lists->starts[s + 1]; e++) {
        nd_entry own = lists->entries[e];
        if (own.list == ND_NO_LIST)
            continue;
        for (size_t p = lists->heads[own.list]; p < own.end; p++) {
            nd_posting other = lists->postings[p];
            size_t other_length = lengths[other.set];
            if (other_length < shortest) {
                /* Lists are ordered by length and so are the seeking sets: no later set needs this posting. */
                lists->heads[own.list] = (uint32_t)p + 1;
                continue;
            }
            if (!nd_sets_wanted(&join->sets, s, other.set))
                continue;
            meeting *with = &join->meetings[other.set];
            if (with->overlap == DEAD)
                continue;
            if (with->overlap == 0) {
                join->met[met++] = other.set;
                with->needed = (uint32_t)nd_overlap_needed(length + other_length, join->threshold);
            }
            size_t rest = length - own.place < other_length - other.place ? length - own.place : other_length - other.place;
            if (with->overlap + rest < with->needed)
                with->overlap = DEAD;
            else
                with->overlap++;
        }
    }
    return met;
}

/* ---- 4. verification ------------------------------------------------------------------------------------------------------------ */

static int add_pair(nd_set_join *join, uint32_t a, uint32_t b, double similarity)
{
    return nd_pairs_add(join->pairs, a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a, similarity);
}

/* Every member of one chain with every member of the other; with chain == other, every two members once. */
static int add_chains(nd_set_join *join, uint32_t chain, uint32_t other, double similarity)
{
    for (uint32_t a = chain; a != NONE; a = join->next[a])
        for (uint32_t b = chain == other ? join->next[a] : other; b != NONE; b = join->next[b])
            ND_TRY(add_pair(join, a, b, similarity));
    return ND_OK;
}

static int verify_one(nd_set_join *join, size_t s, size_t other)
{
    uint32_t a = join->sets.leader[s], b = join->sets.leader[other];
    double similarity = nd_jaccard(bytes_of(join, a), length_of(join, a), bytes_of(join, b), length_of(join, b), join->threshold);
    return similarity >= join->threshold ? add_chains(join, a, b, similarity) : ND_OK;
}

static int verify(nd_set_join *join, size_t s, size_t met)
{
    for (size_t i = 0; i < met; i++) {
        int dead = join->meetings[join->met[i]].overlap == DEAD;
        join->meetings[join->met[i]].overlap = 0;
        if (!dead)
            ND_TRY(verify_one(join, s, join->met[i]));
    }
    return ND_OK;
}

/* ---- bitmaps instead of lists ------------------------------------------------------------------------------------------------ */

/* Rough costs in nanoseconds: of a word of a pair of bitmaps; of ranking and filing a value; of an entry of a list; of a merge. */
#define WORD_NS 0.15
#define VALUE_NS 40.0
#define POSTING_NS 3.0
#define VERDICT_NS 100.0

/* The first set that is long enough to be a partner of set s, from `first` on. */
static size_t first_partner(const nd_set_join *join, size_t s, size_t first)
{
    size_t shortest = nd_share_needed(join->sets.lengths[s], join->threshold);
    while (join->sets.lengths[first] < shortest)
        first++;
    return first;
}

/* Whether all sets are better compared by bitmaps than by the lists of their values. */
static int prefers_bitmaps(const nd_set_join *join, size_t total)
{
    double most = (double)total * VALUE_NS / (WORD_NS * (double)join->bitmaps.words), looked = 0;
    for (size_t s = 0, first = 0; s < join->sets.count && looked <= most; s++) {
        first = first_partner(join, s, first);
        looked += (double)(s - first);
    }
    return looked <= most;
}

/* Whether set s, with sets from `first` on for partners, is. */
static int lists_are_longer(const nd_set_join *join, size_t s, size_t first)
{
    const nd_lists *lists = &join->lists;
    double walked = 0;
    for (size_t e = lists->starts[s]; e < lists->starts[s + 1]; e++)
        if (lists->entries[e].list != ND_NO_LIST)
            walked += (double)lists->entries[e].end - (double)lists->heads[lists->entries[e].list];
    return walked * POSTING_NS > (double)(s - first) * (double)join->bitmaps.words * WORD_NS;
}

/* What a pair of bitmaps of so many words costs, in ns, by a sample of the sets: *looking, and *verifying what is not ruled out. */
static int sample_costs(const nd_set_join *join, size_t words, double *looking, double *verifying)
{
    uint32_t found[ND_BITMAPS_STEP];
    size_t step = (join->sets.count + ND_JOIN_SAMPLE - 1) / ND_JOIN_SAMPLE, count = (join->sets.count + step - 1) / step,
           left = 0;
    nd_bitmaps sample;
    int status = nd_bitmaps_new(&sample, words, count, join->sets.lengths[(count - 1) * step], join->threshold);
    for (size_t i = 0; i < count && status == ND_OK; i++) {
        size_t length = join->sets.lengths[i * step], first = 0;
        nd_bitmaps_add(&sample, i, nd_sets_values(&join->sets, i * step), length);
        while (first < i)
            left += nd_bitmaps_find(&sample, i, length, &first, found);
    }
    nd_bitmaps_free(&sample);
    *looking = (double)words * WORD_NS;
    *verifying = (double)left * VERDICT_NS / ((double)count * (double)(count - 1) / 2);
    return status;
}

/* The fewest words are enough for sets with nothing in common. Where all have much in common, short of the threshold, many pairs
 * would be verified in vain, and more words are cheaper. */
static int choose_words(const nd_set_join *join, size_t *words)
{
    double looking, verifying, least;
    if (join->sets.count < 4 * ND_JOIN_SAMPLE)
        return ND_OK;
    ND_TRY(sample_costs(join, *words, &looking, &verifying));
    for (size_t more = 2 * *words; more <= ND_BITMAPS_WORDS_MAX && verifying > looking; more *= 2) {
        least = looking + verifying;
        ND_TRY(sample_costs(join, more, &looking, &verifying));
        if (looking + verifying >= least)
            break;
        *words = more;
    }
    return ND_OK;
}

static int make_bitmaps(nd_set_join *join)
{
    /* The length that nine sets of ten have at most: longer ones are looked at in vain, and then verified. */
    size_t usual = join->sets.lengths[join->sets.count * 9 / 10], longest = join->sets.lengths[join->sets.count - 1];
    size_t words = nd_bitmaps_words(usual, join->threshold);
    if (words == 0)
        return ND_OK;
    ND_TRY(choose_words(join, &words));
    ND_TRY(nd_bitmaps_new(&join->bitmaps, words, join->sets.count, longest, join->threshold));
    for (size_t s = 0; s < join->sets.count; s++)
        nd_bitmaps_add(&join->bitmaps, s, nd_sets_values(&join->sets, s), join->sets.lengths[s]);
    return ND_OK;
}

static int look_at_bitmaps(nd_set_join *join, size_t s, size_t first)
{
    uint32_t found[ND_BITMAPS_STEP];
    while (first < s) {
        size_t count = nd_bitmaps_find(&join->bitmaps, s, join->sets.lengths[s], &first, found);
        for (size_t i = 0; i < count; i++)
            if (nd_sets_wanted(&join->sets, s, found[i]))
                ND_TRY(verify_one(join, s, found[i]));
    }
    return ND_OK;
}

/* ---- all ---------------------------------------------------------------------------------------------------------------------- */

/* The pairs of one set after the other, the longer of each pair, until there are `most` of them or no set is left. */
static int join_sets(nd_set_join *join, size_t most)
{
    for (; join->next_set < join->sets.count && join->pairs->count < most; join->next_set++) {
        size_t s = join->next_set, first = join->first_long = first_partner(join, s, join->first_long);
        if (!join->listed || (join->bitmaps.words > 0 && lists_are_longer(join, s, first)))
            ND_TRY(look_at_bitmaps(join, s, first));
        else
            ND_TRY(verify(join, s, probe(join, s)));
        if (join->sets.split == ND_NO_SPLIT)
            ND_TRY(add_chains(join, join->sets.leader[s], join->sets.leader[s], 1.0));
    }
    return ND_OK;
}

static int make_lists(nd_set_join *join)
{
    join->meetings = calloc(join->sets.count, sizeof *join->meetings);
    join->met = malloc(join->sets.count * sizeof *join->met);
    if (join->meetings == NULL || join->met == NULL)
        return ND_ERROR_MEMORY;
    return nd_lists_new(&join->lists, &join->sets, join->threshold);
}

static int make_groups(nd_set_join *join)
{
    nd_record *records = malloc(join->count * sizeof *records), *other = malloc(join->count * sizeof *other);
    join->sets.leader = malloc(join->count * sizeof *join->sets.leader);
    join->sets.lengths = malloc(join->count * sizeof *join->sets.lengths);
    join->next = malloc(join->count * sizeof *join->next);
    int complete = records && other && join->sets.leader && join->sets.lengths && join->next;
    if (complete)
        group_equal(join, records, other);
    free(records);
    free(other);
    return complete ? ND_OK : ND_ERROR_MEMORY;
}

static int prepare(nd_set_join *join)
{
    ND_TRY(make_groups(join));
    ND_TRY(make_bitmaps(join));
    size_t total = 0;
    for (size_t s = 0; s < join->sets.count; s++)
        total += join->sets.lengths[s];
    join->listed = join->bitmaps.words == 0 || !prefers_bitmaps(join, total);
    return join->listed ? make_lists(join) : ND_OK;
}

/* ---- a piece at a time -------------------------------------------------------------------------------------------------------- */

int nd_set_join_begin(nd_set_join *join, const uint64_t *values, const uint64_t *ends, size_t count, size_t split,
    double threshold)
{
    *join = (nd_set_join){.sets = {.values = values, .ends = ends, .split = split}, .threshold = threshold, .count = count};
    if (!(threshold > 0))
        return ND_ERROR_PARAMETER;
    int status = count == 0 ? ND_OK : check_input(values, ends, count);
    if (status != ND_OK || count < 2 || ends[count - 1] == 0 || threshold > 1)
        return status;
    if (count >= NONE || ends[count - 1] >= UINT32_MAX)
        return ND_ERROR_CAPACITY;
    status = prepare(join);
    if (status != ND_OK)
        join->next_set = join->sets.count;
    return status;
}

int nd_set_join_next(nd_set_join *join, size_t most, nd_pairs *pairs)
{
    nd_pairs_reset(pairs);
    if (join->next_set >= join->sets.count)
        return ND_DONE;
    join->pairs = pairs;
    int status = join_sets(join, most);
    if (status == ND_OK)
        status = nd_pairs_finish(pairs);
    if (status != ND_OK) {
        nd_pairs_reset(pairs);
        join->next_set = join->sets.count;
    }
    return status;
}

nd_set_join *nd_set_join_new(void)
{
    return calloc(1, sizeof(nd_set_join));
}

void nd_set_join_free(nd_set_join *join)
{
    if (join == NULL)
        return;
    free(join->sets.leader);
    free(join->sets.lengths);
    free(join->next);
    free(join->meetings);
    free(join->met);
    nd_lists_free(&join->lists);
    nd_bitmaps_free(&join->bitmaps);
    free(join);
}
