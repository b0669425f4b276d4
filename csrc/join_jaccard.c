/* join_jaccard.c: all pairs of sets with Jaccard similarity at or above a threshold, exactly (prefix filter: Chaudhuri, Ganti and
 * Kaushik 2006; Bayardo, Ma and Srikant 2007; positional filter: Xiao, Wang, Lin and Yu 2008).
 *
 * 1. Equal arrays are joined once: the first of them stands for its group.
 * 2. Values are renumbered by how many sets have them, the rarest first, and every set is sorted by that rank.
 * 3. Sets are taken by length. Two sets with an overlap of c share one of their first length - c + 1 ranks; a set probes its first
 *    length - o + 1 ranks (any partner) among those that earlier, shorter sets have filed, and then files its own first
 *    length - need(2 * length) + 1 (partners as long or longer).
 * 4. What is met often enough is verified by nd_jaccard: the verdict is never a filter's.
 * Where looking at the bitmaps of all sets of a possible length (join_bitmaps.c) is cheaper than 2 and 3, or for one set than
 * the lists that it would have to walk, that is done instead.
 * Every bound is found by testing the verdict itself (compare.c), so that no pair exactly at the threshold is lost. */
#include <stdlib.h>

#include "join.h"
#include "join_bitmaps.h"

#define NONE UINT32_MAX
#define DEAD UINT32_MAX

typedef struct posting {
    uint32_t set, place;
} posting;

typedef struct set_join {
    const uint64_t *values;
    const uint64_t *ends;
    double threshold;
    nd_pairs *pairs;
    size_t count; /* of input arrays */
    size_t sets;  /* of distinct ones that are not empty, by ascending length */
    uint32_t *leader;  /* of set s: the first input array that is equal to it */
    uint32_t *next;    /* of input array i: the next one equal to it, or NONE */
    size_t *starts;    /* ranks of set s: ranks[starts[s]] .. ranks[starts[s + 1]] */
    uint32_t *ranks;
    size_t rank_count;
    posting *postings; /* of rank r: postings[list_start[r]] .. postings[list_end[r]] */
    size_t *list_start, *list_end;
    uint32_t *overlap; /* with the probing set so far, 0 = not met, DEAD = cannot reach what it needs */
    uint32_t *needed;
    uint32_t *met;
    nd_bitmaps bitmaps;
} set_join;

static size_t start_of(const set_join *join, size_t array)
{
    return array == 0 ? 0 : (size_t)join->ends[array - 1];
}

static size_t length_of(const set_join *join, size_t array)
{
    return (size_t)join->ends[array] - start_of(join, array);
}

static size_t set_length(const set_join *join, size_t set)
{
    return length_of(join, join->leader[set]);
}

static const uint8_t *bytes_of(const set_join *join, size_t array)
{
    return (const uint8_t *)(join->values + start_of(join, array));
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

static int equal_arrays(const set_join *join, size_t a, size_t b)
{
    size_t length = length_of(join, a);
    return length == length_of(join, b) && memcmp(bytes_of(join, a), bytes_of(join, b), 8 * length) == 0;
}

/* Chains equal arrays and leaves the first of each chain in leader[0 .. sets - 1], ordered by length. */
static void group_equal(set_join *join, nd_record *records, nd_record *other)
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
        /* Arrays of one hash value, and not equal, are as good as unheard of: leaders of a run are looked through in turn. */
        if (i == 0 || sorted[i].key != sorted[i - 1].key)
            run = join->sets;
        size_t array = (size_t)sorted[i].item, at = run;
        while (at < join->sets && !equal_arrays(join, (size_t)leaders[at].item, array))
            at++;
        if (at == join->sets) {
            leaders[join->sets++] = (nd_record){length_of(join, array), array};
        } else {
            size_t first = (size_t)leaders[at].item;
            join->next[array] = join->next[first];
            join->next[first] = (uint32_t)array;
        }
    }
    const nd_record *by_length = nd_sort_records(leaders, sorted, join->sets, 0, 32);
    for (size_t s = 0; s < join->sets; s++)
        join->leader[s] = (uint32_t)by_length[s].item;
}

/* ---- 2. ranks ---------------------------------------------------------------------------------------------------------------- */

/* records and other: room for one of each value of each set. */
static void rank_values(set_join *join, nd_record *records, nd_record *other, size_t total)
{
    size_t filled = 0;
    for (size_t s = 0; s < join->sets; s++) {
        join->starts[s] = filled;
        for (size_t at = start_of(join, join->leader[s]); at < join->ends[join->leader[s]]; at++)
            records[filled++] = (nd_record){join->values[at], s};
    }
    join->starts[join->sets] = total;
    nd_record *sorted = nd_sort_records(records, other, total, 0, 64);
    /* For each distinct value how often it stands there, and where first: one number, so that sorting orders by frequency. */
    uint64_t *distinct = (uint64_t *)(sorted == records ? other : records);
    for (size_t at = 0; at < total;) {
        size_t end = at + 1;
        while (end < total && sorted[end].key == sorted[at].key)
            end++;
        distinct[join->rank_count++] = (uint64_t)(end - at) << 32 | at;
        at = end;
    }
    nd_sort64(distinct, join->rank_count);
    memset(join->overlap, 0, join->sets * sizeof *join->overlap);
    for (size_t r = 0; r < join->rank_count; r++) {
        uint64_t frequency = distinct[r] >> 32, at = distinct[r] & UINT32_MAX;
        for (uint64_t i = at; i < at + frequency; i++) {
            size_t s = (size_t)sorted[i].item;
            join->ranks[join->starts[s] + join->overlap[s]++] = (uint32_t)r;
        }
    }
}

/* ---- 3. filing and probing ---------------------------------------------------------------------------------------------------- */

static size_t filed_count(const set_join *join, size_t length)
{
    return length - nd_overlap_needed(2 * length, join->threshold) + 1;
}

/* Room for each rank's postings, still empty. */
static void lay_out_lists(set_join *join)
{
    memset(join->list_start, 0, (join->rank_count + 1) * sizeof *join->list_start);
    for (size_t s = 0; s < join->sets; s++) {
        size_t filed = filed_count(join, join->starts[s + 1] - join->starts[s]);
        for (size_t i = 0; i < filed; i++)
            join->list_start[join->ranks[join->starts[s] + i] + 1]++;
    }
    for (size_t r = 0; r < join->rank_count; r++)
        join->list_start[r + 1] += join->list_start[r];
    memcpy(join->list_end, join->list_start, join->rank_count * sizeof *join->list_end);
}

/* Counts what set s has in common with the sets filed under the ranks of its prefix; returns how many it met. */
static size_t probe(set_join *join, size_t s)
{
    size_t length = join->starts[s + 1] - join->starts[s], met = 0;
    size_t shortest = nd_share_needed(length, join->threshold), prefix = nd_prefix_count(length, join->threshold);
    for (size_t i = 0; i < prefix; i++) {
        uint32_t rank = join->ranks[join->starts[s] + i];
        for (size_t p = join->list_start[rank]; p < join->list_end[rank]; p++) {
            posting other = join->postings[p];
            size_t other_length = join->starts[other.set + 1] - join->starts[other.set];
            if (other_length < shortest) {
                /* Lists are ordered by length and so are the probing sets: nobody will need it again. */
                join->list_start[rank] = p + 1;
                continue;
            }
            uint32_t *overlap = &join->overlap[other.set];
            if (*overlap == DEAD)
                continue;
            if (*overlap == 0) {
                join->met[met++] = other.set;
                join->needed[other.set] = (uint32_t)nd_overlap_needed(length + other_length, join->threshold);
            }
            size_t rest = length - i < other_length - other.place ? length - i : other_length - other.place;
            if (*overlap + rest < join->needed[other.set])
                *overlap = DEAD;
            else
                ++*overlap;
        }
    }
    return met;
}

static void file(set_join *join, size_t s)
{
    size_t filed = filed_count(join, join->starts[s + 1] - join->starts[s]);
    for (size_t i = 0; i < filed; i++) {
        uint32_t rank = join->ranks[join->starts[s] + i];
        join->postings[join->list_end[rank]++] = (posting){(uint32_t)s, (uint32_t)i};
    }
}

/* ---- 4. verification ------------------------------------------------------------------------------------------------------------ */

static int add_pair(set_join *join, uint32_t a, uint32_t b, double similarity)
{
    return nd_pairs_add(join->pairs, a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a, similarity);
}

/* Every member of one chain with every member of the other; with chain == other, every two members once. */
static int add_chains(set_join *join, uint32_t chain, uint32_t other, double similarity)
{
    int status = ND_OK;
    for (uint32_t a = chain; a != NONE && status == ND_OK; a = join->next[a])
        for (uint32_t b = chain == other ? join->next[a] : other; b != NONE && status == ND_OK; b = join->next[b])
            status = add_pair(join, a, b, similarity);
    return status;
}

static int verify_one(set_join *join, size_t s, size_t other)
{
    uint32_t a = join->leader[s], b = join->leader[other];
    double similarity = nd_jaccard_bytes(bytes_of(join, a), length_of(join, a), bytes_of(join, b), length_of(join, b), join->threshold);
    return similarity >= join->threshold ? add_chains(join, a, b, similarity) : ND_OK;
}

static int verify(set_join *join, size_t s, size_t met)
{
    int status = ND_OK;
    for (size_t i = 0; i < met && status == ND_OK; i++) {
        int dead = join->overlap[join->met[i]] == DEAD;
        join->overlap[join->met[i]] = 0;
        if (!dead)
            status = verify_one(join, s, join->met[i]);
    }
    return status;
}

/* ---- bitmaps instead of lists ------------------------------------------------------------------------------------------------ */

/* Rough costs in nanoseconds: of a word of a pair of bitmaps; of ranking and filing a value; of an entry of a list. */
#define WORD_NS 0.15
#define VALUE_NS 40.0
#define POSTING_NS 3.0

/* The first set that is long enough to be a partner of set s, from `first` on. */
static size_t first_partner(const set_join *join, size_t s, size_t first)
{
    size_t shortest = nd_share_needed(set_length(join, s), join->threshold);
    while (set_length(join, first) < shortest)
        first++;
    return first;
}

/* Whether all sets are better compared by bitmaps than by the lists of their values. */
static int prefers_bitmaps(const set_join *join, size_t total)
{
    double most = (double)total * VALUE_NS / (WORD_NS * (double)join->bitmaps.words), looked = 0;
    for (size_t s = 0, first = 0; s < join->sets && looked <= most; s++) {
        first = first_partner(join, s, first);
        looked += (double)(s - first);
    }
    return looked <= most;
}

/* Whether set s, with sets from `first` on for partners, is. */
static int lists_are_longer(const set_join *join, size_t s, size_t first)
{
    size_t length = set_length(join, s), prefix = nd_prefix_count(length, join->threshold);
    double entries = 0;
    for (size_t i = 0; i < prefix; i++) {
        uint32_t rank = join->ranks[join->starts[s] + i];
        entries += (double)(join->list_end[rank] - join->list_start[rank]);
    }
    return entries * POSTING_NS > (double)(s - first) * (double)join->bitmaps.words * WORD_NS;
}

static int make_bitmaps(set_join *join)
{
    /* The length that nine sets of ten have at most: longer ones are looked at in vain, and then verified. */
    size_t usual = set_length(join, join->sets * 9 / 10), longest = set_length(join, join->sets - 1);
    size_t words = nd_bitmaps_words(usual, join->threshold);
    if (words == 0)
        return ND_OK;
    int status = nd_bitmaps_new(&join->bitmaps, words, join->sets, longest, join->threshold);
    for (size_t s = 0; s < join->sets && status == ND_OK; s++)
        nd_bitmaps_add(&join->bitmaps, s, join->values + start_of(join, join->leader[s]), set_length(join, s));
    return status;
}

static int look_at_bitmaps(set_join *join, size_t s, size_t first)
{
    uint32_t found[ND_BITMAPS_STEP];
    int status = ND_OK;
    while (first < s && status == ND_OK) {
        size_t count = nd_bitmaps_find(&join->bitmaps, s, set_length(join, s), &first, found);
        for (size_t i = 0; i < count && status == ND_OK; i++)
            status = verify_one(join, s, found[i]);
    }
    return status;
}

/* ---- all ---------------------------------------------------------------------------------------------------------------------- */

/* lists == 0: there are none, bitmaps only. */
static int join_sets(set_join *join, int lists)
{
    int status = ND_OK;
    for (size_t s = 0, first = 0; s < join->sets && status == ND_OK; s++) {
        first = first_partner(join, s, first);
        if (!lists || (join->bitmaps.words > 0 && lists_are_longer(join, s, first)))
            status = look_at_bitmaps(join, s, first);
        else
            status = verify(join, s, probe(join, s));
        if (status == ND_OK)
            status = add_chains(join, join->leader[s], join->leader[s], 1.0);
        if (lists)
            file(join, s);
    }
    return status;
}

static int allocate_lists(set_join *join, size_t total)
{
    join->starts = malloc((join->sets + 1) * sizeof *join->starts);
    join->overlap = malloc(join->sets * sizeof *join->overlap);
    join->needed = malloc(join->sets * sizeof *join->needed);
    join->met = malloc(join->sets * sizeof *join->met);
    join->ranks = malloc(total * sizeof *join->ranks);
    join->postings = malloc(total * sizeof *join->postings);
    join->list_start = malloc((total + 1) * sizeof *join->list_start);
    join->list_end = malloc((total + 1) * sizeof *join->list_end);
    int complete = join->starts && join->overlap && join->needed && join->met && join->ranks && join->postings &&
                   join->list_start && join->list_end;
    return complete ? ND_OK : ND_ERROR_MEMORY;
}

static void release(set_join *join)
{
    free(join->leader);
    free(join->next);
    free(join->starts);
    free(join->overlap);
    free(join->needed);
    free(join->met);
    free(join->ranks);
    free(join->postings);
    free(join->list_start);
    free(join->list_end);
    nd_bitmaps_free(&join->bitmaps);
}

/* Ranks, and lists with room for what will be filed. */
static int make_lists(set_join *join, size_t total)
{
    nd_record *records = malloc(total * sizeof *records), *other = malloc(total * sizeof *other);
    int status = records == NULL || other == NULL ? ND_ERROR_MEMORY : allocate_lists(join, total);
    if (status == ND_OK) {
        rank_values(join, records, other, total);
        memset(join->overlap, 0, join->sets * sizeof *join->overlap);
        lay_out_lists(join);
    }
    free(records);
    free(other);
    return status;
}

static int make_groups(set_join *join)
{
    nd_record *records = malloc(join->count * sizeof *records), *other = malloc(join->count * sizeof *other);
    join->leader = malloc(join->count * sizeof *join->leader);
    join->next = malloc(join->count * sizeof *join->next);
    int complete = records && other && join->leader && join->next;
    if (complete)
        group_equal(join, records, other);
    free(records);
    free(other);
    return complete ? ND_OK : ND_ERROR_MEMORY;
}

static int join_all(set_join *join)
{
    int status = make_groups(join);
    if (status == ND_OK)
        status = make_bitmaps(join);
    if (status != ND_OK)
        return status;
    size_t total = 0;
    for (size_t s = 0; s < join->sets; s++)
        total += set_length(join, s);
    if (join->bitmaps.words > 0 && prefers_bitmaps(join, total))
        return join_sets(join, 0);
    status = make_lists(join, total);
    return status == ND_OK ? join_sets(join, 1) : status;
}

int nd_jaccard_pairs(const uint64_t *values, const uint64_t *ends, size_t count, double threshold, nd_pairs *pairs)
{
    nd_pairs_reset(pairs);
    if (!(threshold > 0))
        return ND_ERROR_PARAMETER;
    if (count < 2 || ends[count - 1] == 0 || threshold > 1)
        return count == 0 ? ND_OK : check_input(values, ends, count);
    if (count >= NONE || ends[count - 1] >= UINT32_MAX)
        return ND_ERROR_CAPACITY;
    int status = check_input(values, ends, count);
    if (status != ND_OK)
        return status;
    set_join join = {.values = values, .ends = ends, .threshold = threshold, .pairs = pairs, .count = count};
    status = join_all(&join);
    release(&join);
    if (status == ND_OK)
        status = nd_pairs_finish(pairs);
    if (status != ND_OK)
        nd_pairs_reset(pairs);
    return status;
}
