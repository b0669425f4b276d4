/* rare_sets.c: which sets of a hot bucket may match, by their rarest elements or by their bitmaps.
 *
 * Two sets that match have one of their rarest elements in common: where c of n elements must be common, the n - c + 1 rarest hold one
 * of these, by any order that is the same for all (prefix filter: Chaudhuri et al. 2006, Bayardo et al. 2007). The places of the
 * first common element bound how many can be common (positional filter: Xiao et al. 2008).
 *
 * Where most sets have the same elements, as edits of one text or sentences put together of a few phrases do, rarest elements tell too
 * little, and all bitmaps are looked at instead (bitmaps.c). Of elements M that most sets have, a bitmap holds those that its set
 * lacks, beside the others that it has, D(A) = (A | M) - (A & M): such bitmaps are small, and
 *     |A and B| = |D(A) and D(B)| + |A and M| + |B and M| - |M| */
#include <stdlib.h>

#include "joins/bitmaps.h"
#include "joins/rare_sets.h"
#include "kernels/kernels.h"

#define QUESTIONS 16 /* tell which filter is cheaper */

/* ---- elements --------------------------------------------------------------------------------------------------------------- */

static int is_signature(const nd_scheme *rule)
{
    return rule->kind == ND_SCHEME_MINHASH && rule->evidence == ND_EVIDENCE_NONE;
}

int nd_has_elements(const nd_scheme *rule)
{
    return (rule->kind == ND_SCHEME_MINHASH || rule->kind == ND_SCHEME_BOTTOMK) && rule->threshold > 0;
}

size_t nd_elements_count(const nd_scheme *rule, size_t size)
{
    return size / (is_signature(rule) ? (size_t)rule->slot_bits / 8 : sizeof(uint64_t));
}

int nd_elements_append(const nd_scheme *rule, const uint8_t *bytes, size_t size, nd_numbers *out)
{
    const size_t count = nd_elements_count(rule, size), width = is_signature(rule) ? (size_t)rule->slot_bits / 8 : 0;
    ND_TRY(ND_ROOM(*out, out->count + count));
    uint64_t *at = out->at + out->count;
    out->count += count;
    if (width == 0) {
        memcpy(at, bytes, count * sizeof *at);
        return ND_OK;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = 0;
        memcpy(&slot, bytes + i * width, width);
        at[i] = (uint64_t)i << 32 | slot;
    }
    return ND_OK;
}

/* Of signatures, s of n slots are equal. Of an estimate, s of the k smallest hashes of two sets are in both, which have 2 k at most. */
double nd_elements_bound(const nd_scheme *rule, double similarity)
{
    const int is_share = is_signature(rule) || rule->measure == ND_MEASURE_ESTIMATE;
    return is_share ? similarity / (2 - similarity) * (1 - 1e-9) : similarity;
}

/* ---- the order -------------------------------------------------------------------------------------------------------------- */

nd_rare_sets *nd_rare_sets_new(const nd_scheme *rule)
{
    nd_rare_sets *sets = calloc(1, sizeof *sets);
    if (sets != NULL)
        sets->rule = rule;
    return sets;
}

void nd_rare_sets_free(nd_rare_sets *sets)
{
    if (sets == NULL)
        return;
    nd_rare_sets_forget(sets);
    free(sets->elements.at);
    free(sets->majority.at);
    free(sets->unsorted.at);
    free(sets->sorted.at);
    free(sets->numbers.at);
    free(sets->lists.at);
    free(sets->entries.at);
    free(sets->sets.at);
    free(sets->classes.at);
    free(sets->difference.at);
    free(sets);
}

void nd_rare_sets_forget(nd_rare_sets *sets)
{
    if (sets->numbers.used > 0)
        nd_newest_clear(&sets->numbers);
    sets->lists.count = sets->entries.count = sets->sets.count = 0;
    for (size_t i = 0; i < sets->classes.count; i++) {
        free(sets->classes.at[i].blocks.at);
        free(sets->classes.at[i].numbers.at);
    }
    sets->classes.count = sets->words = 0;
}

void nd_rare_sets_begin(nd_rare_sets *sets, size_t count)
{
    nd_rare_sets_forget(sets);
    memset(sets->counts, 0, sizeof sets->counts);
    sets->majority.count = sets->gain = sets->total = 0;
    sets->least = SIZE_MAX / 2;
    sets->counted = count;
    sets->question = 0;
    sets->listed = sets->drawn = sets->by_bitmaps = 0;
}

static int take(nd_rare_sets *sets, const uint8_t *bytes, size_t size)
{
    sets->elements.count = 0;
    return nd_elements_append(sets->rule, bytes, size, &sets->elements);
}

static uint32_t *counter(nd_rare_sets *sets, uint64_t element)
{
    const size_t mixed = (size_t)((element ^ element >> 32) * 0x9E3779B97F4A7C15u >> 24);
    return &sets->counts[mixed & (ND_RARE_COUNTERS - 1)];
}

int nd_rare_sets_count(nd_rare_sets *sets, const uint8_t *bytes, size_t size)
{
    ND_TRY(take(sets, bytes, size));
    ND_TRY(ND_ROOM(sets->majority, sets->majority.count + sets->elements.count));
    sets->total += sets->elements.count;
    if (sets->elements.count > 0 && sets->elements.count < sets->least)
        sets->least = sets->elements.count;
    for (size_t i = 0; i < sets->elements.count; i++)
        if (++*counter(sets, sets->elements.at[i]) == sets->counted / 2 + 1) /* more than half have it, or one counted with it */
            sets->majority.at[sets->majority.count++] = sets->elements.at[i];
    return ND_OK;
}

void nd_rare_sets_order(nd_rare_sets *sets)
{
    size_t common = 0;
    nd_numbers *majority = &sets->majority;
    majority->count = nd_sort_distinct(majority->at, majority->count);
    for (size_t i = 0; i < majority->count; i++)
        common += *counter(sets, majority->at[i]);
    const size_t usual = majority->count > 0 ? 2 * common / sets->counted : 0;
    sets->gain = usual > majority->count ? usual - majority->count : 0;
    if (2 * sets->gain * sets->counted < sets->total)
        sets->gain = majority->count = 0; /* too little of a set to be worth while */
}

/* ---- one set ---------------------------------------------------------------------------------------------------------------- */

static void set_bound(nd_rare_sets *sets, double similarity)
{
    const double bound = nd_elements_bound(sets->rule, similarity);
    sets->sum = bound == sets->bound ? sets->sum : SIZE_MAX;
    sets->bound = bound;
}

/* How many elements must be common to the present set and one of another size; more than either has: none would do. */
static size_t needed_with(nd_rare_sets *sets, size_t size)
{
    if (sets->sum != sets->elements.count + size) {
        sets->sum = sets->elements.count + size;
        sets->needed = nd_overlap_needed(sets->sum, sets->bound);
    }
    return sets->needed;
}

/* How many of the present set, the rarest, hold one that is common with any set that matches: the smallest set asks for the fewest in
 * common, and none for fewer than a part of this one would. */
static size_t prefix_of(nd_rare_sets *sets)
{
    const size_t size = sets->elements.count, part = nd_share_needed(size, sets->bound),
                 with_least = needed_with(sets, sets->least);
    /* where the smallest set is too small to match this one, no number would do: those that can match ask for the part at least */
    const size_t needed = with_least > part && with_least <= size ? with_least : part;
    return needed > size ? 0 : needed == 0 ? size : size - needed + 1;
}

/* Takes a set, and puts its elements in order. */
static int take_ranked(nd_rare_sets *sets, const uint8_t *bytes, size_t size)
{
    uint64_t counts = 1;
    ND_TRY(take(sets, bytes, size));
    const size_t count = sets->elements.count;
    ND_TRY(ND_ROOM(sets->unsorted, count));
    ND_TRY(ND_ROOM(sets->sorted, count));
    nd_record *unsorted = sets->unsorted.at;
    for (size_t i = 0; i < count; i++) {
        unsorted[i] = (nd_record){*counter(sets, sets->elements.at[i]), sets->elements.at[i]};
        counts |= unsorted[i].key;
    }
    const unsigned bits = 64 - (unsigned)__builtin_clzll(counts);
    if (count > 0 && nd_sort_records(unsorted, sets->sorted.at, count, 0, bits) == unsorted)
        memcpy(sets->sorted.at, unsorted, count * sizeof *unsorted);
    return ND_OK;
}

/* Takes the present set's difference from the majority. *common: elements of the majority that it has. */
static int take_difference(nd_rare_sets *sets, size_t *common)
{
    const uint64_t *elements = sets->elements.at, *majority = sets->majority.at;
    const size_t size = sets->elements.count, count = sets->majority.count;
    size_t i = 0, j = 0, taken = 0;
    ND_TRY(ND_ROOM(sets->difference, size + count));
    *common = 0;
    while (i < size || j < count) {
        if (i < size && j < count && elements[i] == majority[j]) {
            ++*common;
            i++;
            j++;
        } else if (j == count || (i < size && elements[i] < majority[j]))
            sets->difference.at[taken++] = elements[i++];
        else
            sets->difference.at[taken++] = majority[j++];
    }
    sets->difference.count = taken;
    return ND_OK;
}

/* ---- sets that were there before -------------------------------------------------------------------------------------------- */

/* Enters a set into the list of an element. */
static int enter(nd_rare_sets *sets, uint64_t element, uint32_t rest, uint32_t set)
{
    uint32_t number = nd_newest_get(&sets->numbers, element), older;
    if (number == ND_NO_NUMBER) {
        number = (uint32_t)sets->lists.count;
        ND_TRY(ND_ROOM(sets->lists, sets->lists.count + 1));
        ND_TRY(nd_newest_put(&sets->numbers, element, number, &older));
        sets->lists.at[sets->lists.count++] = (nd_rare_list){.head = ND_NO_NUMBER, .settled = ND_NO_NUMBER};
    }
    nd_rare_list *list = &sets->lists.at[number];
    sets->entries.at[sets->entries.count] = (nd_rare_entry){set, list->head, rest};
    list->head = (uint32_t)sets->entries.count++;
    list->fresh++;
    return ND_OK;
}

/* The class of the present set's size, a new one perhaps; NULL if memory is out. */
static nd_rare_class *class_of(nd_rare_sets *sets)
{
    const size_t size = sets->elements.count, far = sets->gain > 0 ? 0 : nd_bitmaps_words(size, sets->rule->threshold);
    for (size_t i = 0; i < sets->classes.count; i++)
        if (sets->classes.at[i].size == size)
            return &sets->classes.at[i];
    if (ND_ROOM(sets->classes, sets->classes.count + 1) != ND_OK)
        return NULL;
    nd_rare_class *class = &sets->classes.at[sets->classes.count++];
    *class = (nd_rare_class){.size = size,
        .words = far > 0 ? far : nd_bitmaps_close_words(size > sets->gain ? size - sets->gain : 0)};
    return class;
}

/* Draws the bitmap of a set. */
static int draw(nd_rare_sets *sets, uint32_t set)
{
    nd_rare_class *class = class_of(sets);
    if (class == NULL)
        return ND_ERROR_MEMORY;
    const size_t lane = class->numbers.count % ND_SET_LANES, block = (class->words + 1) * ND_SET_LANES;
    size_t common;
    ND_TRY(take_difference(sets, &common));
    ND_TRY(ND_ROOM(class->numbers, class->numbers.count + 1));
    if (lane == 0) {
        ND_TRY(ND_ROOM(class->blocks, class->blocks.count + block));
        memset(class->blocks.at + class->blocks.count, 0, block * sizeof *class->blocks.at);
        class->blocks.count += block;
    }
    uint64_t *rows = class->blocks.at + class->blocks.count - block + lane;
    nd_bitmap_draw(sets->difference.at, sets->difference.count, class->words, rows);
    rows[class->words * ND_SET_LANES] += common;
    class->numbers.at[class->numbers.count++] = set;
    sets->words += class->words;
    return ND_OK;
}

int nd_rare_sets_add(nd_rare_sets *sets, int64_t id, const uint8_t *bytes, size_t size)
{
    ND_TRY(sets->by_bitmaps ? take(sets, bytes, size) : take_ranked(sets, bytes, size));
    set_bound(sets, sets->rule->threshold);
    const size_t count = sets->elements.count, prefix = count > 0 && !sets->by_bitmaps ? prefix_of(sets) : 0;
    const uint32_t set = (uint32_t)sets->sets.count;
    if (sets->entries.count + prefix >= ND_NO_NUMBER)
        return ND_ERROR_CAPACITY;
    ND_TRY(ND_ROOM(sets->entries, sets->entries.count + prefix));
    ND_TRY(ND_ROOM(sets->sets, sets->sets.count + 1));
    for (size_t at = 0; at < prefix; at++)
        ND_TRY(enter(sets, sets->sorted.at[at].item, (uint32_t)(count - at), set));
    sets->sets.at[sets->sets.count++] = (nd_rare_set){id, (uint32_t)count, sets->question};
    return count > 0 ? draw(sets, set) : ND_OK;
}

size_t nd_rare_sets_memory(const nd_rare_sets *sets)
{
    return sets->lists.count * (sizeof *sets->lists.at + 2 * sizeof *sets->numbers.at) +
           sets->entries.count * sizeof *sets->entries.at + sets->sets.count * sizeof *sets->sets.at +
           sets->words * sizeof(uint64_t);
}

/* ---- a question ------------------------------------------------------------------------------------------------------------- */

static int meet(nd_rare_sets *sets, uint32_t number, const nd_rare_asker *asker)
{
    nd_rare_set *set = &sets->sets.at[number];
    if (set->asked == sets->question)
        return ND_OK;
    set->asked = sets->question;
    ND_TRY(asker->meet(asker->context, set->id));
    set_bound(sets, asker->bound(asker->context));
    return ND_OK;
}

/* The present set meets the entries of a list. `mine`: its elements from the list's on. */
static int meet_list(nd_rare_sets *sets, nd_rare_list *list, size_t mine, const nd_rare_asker *asker)
{
    const nd_components *components = asker->components;
    const uint32_t newest = list->head;
    const int64_t root = components == NULL ? 0 : nd_components_find(components, sets->sets.at[sets->entries.at[newest].set].id);
    int is_settled = components != NULL;
    for (uint32_t at = newest; at != ND_NO_NUMBER; at = sets->entries.at[at].next) {
        const nd_rare_entry *entry = &sets->entries.at[at];
        const nd_rare_set *set = &sets->sets.at[entry->set];
        is_settled = is_settled && nd_components_find(components, set->id) == root;
        if (at == list->settled && asker->is_connected(asker->context, set->id))
            break;
        if ((mine < entry->rest ? mine : entry->rest) >= needed_with(sets, set->size))
            ND_TRY(meet(sets, entry->set, asker));
    }
    if (is_settled) {
        list->settled = newest;
        list->fresh = 0;
    }
    return ND_OK;
}

static int meet_lists(nd_rare_sets *sets, const nd_rare_asker *asker)
{
    double bound = sets->bound;
    for (size_t at = 0, prefix = prefix_of(sets); at < prefix; at++) {
        const uint32_t number = nd_newest_get(&sets->numbers, sets->sorted.at[at].item);
        if (number != ND_NO_NUMBER)
            ND_TRY(meet_list(sets, &sets->lists.at[number], sets->elements.count - at, asker));
        if (sets->bound > bound)
            prefix = prefix_of(sets);
        bound = sets->bound;
    }
    return ND_OK;
}

/* Of a class, the present set meets those that may have `needed` elements in common with the query. */
static int meet_class(nd_rare_sets *sets, size_t number, const uint64_t *query, uint64_t excess, size_t needed,
    const nd_rare_asker *asker)
{
    enum { BLOCKS = ND_BITMAPS_STEP / ND_SET_LANES };
    uint32_t needs[BLOCKS], found[ND_BITMAPS_STEP];
    const nd_rare_class *class = &sets->classes.at[number];
    const size_t words = (class->words + 1) * ND_SET_LANES, block_count = class->blocks.count / words;
    for (size_t i = 0; i < BLOCKS; i++)
        needs[i] = (uint32_t)needed;
    for (size_t first = 0; first < block_count; first += BLOCKS) {
        const size_t rest = block_count - first, step = rest < BLOCKS ? rest : BLOCKS;
        const size_t count = nd_kernels_active()->may_overlap(query, class->words, excess, class->blocks.at + first * words, step,
            needs, found);
        for (size_t i = 0; i < count; i++)
            if (first * ND_SET_LANES + found[i] < class->numbers.count)
                ND_TRY(meet(sets, class->numbers.at[first * ND_SET_LANES + found[i]], asker));
    }
    return ND_OK;
}

static int meet_bitmaps(nd_rare_sets *sets, const nd_rare_asker *asker)
{
    uint64_t query[(ND_BITMAPS_WORDS_MAX + 1) * ND_SET_LANES], excess = 0;
    size_t drawn = 0, common;
    ND_TRY(take_difference(sets, &common));
    for (size_t i = 0; i < sets->classes.count; i++) {
        const nd_rare_class *class = &sets->classes.at[i];
        const size_t needed = needed_with(sets, class->size), words = class->words;
        if (needed > sets->elements.count || needed > class->size)
            continue;
        if (drawn != words) {
            memset(query, 0, (words + 1) * ND_SET_LANES * sizeof *query);
            nd_bitmap_draw(sets->difference.at, sets->difference.count, words, query);
            excess = sets->majority.count > 0 ? UINT32_MAX
                                              : query[words * ND_SET_LANES]; /* with a majority the sets tell alone */
            for (size_t w = 0; w < words; w++)
                query[w] = query[w * ND_SET_LANES];
        }
        drawn = words;
        ND_TRY(meet_class(sets, i, query, excess, needed + sets->majority.count - common, asker));
    }
    return ND_OK;
}

/* Whether all bitmaps are sooner looked at than the sets that have one of the rarest elements of the present one. Where this is so for
 * most, and no list is passed by, elements are not put in order any more. */
static int is_common(nd_rare_sets *sets, int is_connecting)
{
    const size_t prefix = prefix_of(sets);
    size_t count = 0;
    for (size_t at = 0; at < prefix; at++) {
        const uint32_t number = nd_newest_get(&sets->numbers, sets->sorted.at[at].item);
        count += number == ND_NO_NUMBER ? 0 : sets->lists.at[number].fresh;
    }
    sets->listed += (double)(ND_BITMAP_WORDS_FOR * count);
    sets->drawn += (double)sets->words;
    sets->by_bitmaps = !is_connecting && sets->question > QUESTIONS && sets->listed > 4 * sets->drawn;
    return ND_BITMAP_WORDS_FOR * count > sets->words;
}

int nd_rare_sets_ask(nd_rare_sets *sets, const uint8_t *bytes, size_t size, const nd_rare_asker *asker)
{
    ND_TRY(sets->by_bitmaps ? take(sets, bytes, size) : take_ranked(sets, bytes, size));
    if (sets->elements.count == 0)
        return ND_OK;
    set_bound(sets, asker->bound(asker->context));
    sets->question++;
    if (sets->by_bitmaps || is_common(sets, asker->components != NULL))
        return meet_bitmaps(sets, asker);
    return meet_lists(sets, asker);
}
