/* passages.c: what two sequences of token hashes have in common: the tokens that lie in common runs of `shortest` tokens or more,
 * and the longest of these runs.
 *
 * One sequence, the text asked for, is indexed by its windows of `shortest` tokens: one look-up tells whether a window of another
 * text is among them. Windows are compared token by token, so a hash decides nothing. Of periodic texts many windows are equal:
 * these stand in one chain. Both texts cost one step a token, whatever they are. */
#include <stdlib.h>

#include "schemes/schemes.h"

#define NONE UINT32_MAX

/* Where the windows of one content stand. */
typedef struct slot {
    uint32_t place; /* the first one + 1; 0: free */
    uint32_t tag;   /* of the window's hash */
} slot;

struct nd_passages {
    const uint8_t *value;
    size_t count, shortest, windows;
    uint64_t highest; /* of runs of `shortest` tokens */
    ND_LIST(slot) slots;
    size_t mask;
    ND_LIST(uint32_t) first; /* of each window, the first one of the same content, */
    ND_LIST(uint32_t) next;  /* the next one (NONE: none), kept for the first one and for those behind it, */
    ND_LIST(uint32_t) seen;  /* and for the first one the number of the comparison that met it last */
    uint32_t comparison;
    ND_LIST(uint64_t) met;       /* windows of the text asked for */
    ND_LIST(uint64_t) met_other; /* and of the other, ascending */
    ND_LIST(nd_passage) found;
    nd_runs *runs;
};

nd_passages *nd_passages_new(void)
{
    return calloc(1, sizeof(nd_passages));
}

void nd_passages_free(nd_passages *passages)
{
    if (passages == NULL)
        return;
    free(passages->slots.at);
    free(passages->first.at);
    free(passages->next.at);
    free(passages->seen.at);
    free(passages->met.at);
    free(passages->met_other.at);
    free(passages->found.at);
    nd_runs_free(passages->runs);
    free(passages);
}

/* ---- windows ------------------------------------------------------------------------------------------------------------ */

static inline uint64_t hash_of(uint64_t sum)
{
    sum = (sum ^ sum >> 32) * ND_RUN_BASE;
    return sum ^ sum >> 29;
}

static inline int same_window(const nd_passages *passages, uint32_t place, const uint8_t *other, size_t at)
{
    return memcmp(passages->value + 4 * (size_t)place, other + 4 * at, 4 * passages->shortest) == 0;
}

/* The slot of a window, or the free one where it would stand. */
static inline slot *find_slot(const nd_passages *passages, uint64_t hash, const uint8_t *other, size_t at)
{
    const uint32_t tag = (uint32_t)(hash >> 32);
    for (size_t i = hash & passages->mask;; i = (i + 1) & passages->mask) {
        slot *const found = &passages->slots.at[i];
        if (found->place == 0 || (found->tag == tag && same_window(passages, found->place - 1, other, at)))
            return found;
    }
}

/* The window of the text asked for that is equal to the window `at` of another: where the one before was equal to `before`, the
 * one behind it is, if one more token is. NONE: there is none. */
static inline uint32_t find_window(const nd_passages *passages, uint32_t before, uint64_t sum, const uint8_t *other, size_t at)
{
    const size_t shortest = passages->shortest;
    if (before != NONE && before + 1 < passages->windows &&
        nd_token_hash(passages->value, before + shortest) == nd_token_hash(other, at + shortest - 1))
        return before + 1;
    const slot *const found = find_slot(passages, hash_of(sum), other, at);
    return found->place == 0 ? NONE : found->place - 1;
}

static int make_room(nd_passages *passages, size_t windows)
{
    size_t slots = 16;
    while (slots < 2 * windows)
        slots *= 2;
    ND_TRY(ND_ROOM(passages->slots, slots));
    ND_TRY(ND_ROOM(passages->first, windows));
    ND_TRY(ND_ROOM(passages->next, windows));
    ND_TRY(ND_ROOM(passages->seen, windows));
    memset(passages->slots.at, 0, slots * sizeof(slot));
    if (windows > 0)
        memset(passages->seen.at, 0, windows * sizeof(uint32_t));
    passages->mask = slots - 1;
    return ND_OK;
}

int nd_passages_begin(nd_passages *passages, const uint8_t *value, size_t size, size_t shortest)
{
    const size_t count = size / 4, windows = count < shortest ? 0 : count - shortest + 1;
    if (size % 4 != 0 || shortest == 0)
        return ND_ERROR_DAMAGED;
    if (count >= NONE)
        return ND_ERROR_CAPACITY;
    ND_TRY(make_room(passages, windows));
    passages->value = value;
    passages->count = count;
    passages->shortest = shortest;
    passages->windows = windows;
    passages->comparison = 0;
    passages->highest = nd_run_highest(shortest);
    uint64_t sum = windows > 0 ? nd_run_first(value, shortest) : 0;
    uint32_t *const first = passages->first.at, *const next = passages->next.at;
    for (size_t place = 0; place < windows; place++) {
        if (place > 0)
            sum = nd_run_next(value, shortest, passages->highest, sum, place - 1);
        /* Where the window before repeats an earlier one, and the token behind it too, so does this one. */
        uint32_t known = NONE;
        if (place > 0 && first[place - 1] != place - 1 &&
            nd_token_hash(value, first[place - 1] + shortest) == nd_token_hash(value, place + shortest - 1))
            known = first[first[place - 1] + 1];
        slot *const found = known == NONE ? find_slot(passages, hash_of(sum), value, place) : NULL;
        if (found != NULL && found->place != 0)
            known = found->place - 1;
        if (known == NONE) {
            *found = (slot){(uint32_t)place + 1, (uint32_t)(hash_of(sum) >> 32)};
            first[place] = (uint32_t)place;
            next[place] = NONE;
        } else {
            first[place] = known;
            next[place] = next[known];
            next[known] = (uint32_t)place;
        }
    }
    return ND_OK;
}

/* ---- tokens in common runs ------------------------------------------------------------------------------------------------ */

/* How many tokens lie in windows at these places, ascending. */
static size_t covered_by(const uint64_t *places, size_t count, size_t shortest)
{
    size_t covered = 0;
    for (size_t i = 0; i < count; i++)
        covered += i > 0 && places[i] - places[i - 1] < shortest ? (size_t)(places[i] - places[i - 1]) : shortest;
    return covered;
}

/* Lists the windows of both that the other has, ascending. */
static int meet(nd_passages *passages, const uint8_t *other, size_t size)
{
    const size_t shortest = passages->shortest, count = size / 4, windows = count < shortest ? 0 : count - shortest + 1;
    if (size % 4 != 0)
        return ND_ERROR_DAMAGED;
    if (count >= NONE)
        return ND_ERROR_CAPACITY;
    passages->met.count = passages->met_other.count = 0;
    if (windows == 0 || passages->windows == 0)
        return ND_OK;
    if (++passages->comparison == 0) { /* after 2^32 comparisons */
        memset(passages->seen.at, 0, passages->windows * sizeof(uint32_t));
        passages->comparison = 1;
    }
    uint64_t sum = nd_run_first(other, shortest);
    uint32_t before = NONE;
    int repeats = 0;
    for (size_t at = 0; at < windows; at++) {
        if (at > 0)
            sum = nd_run_next(other, shortest, passages->highest, sum, at - 1);
        before = find_window(passages, before, sum, other, at);
        if (before == NONE)
            continue;
        ND_TRY(ND_PUSH(passages->met_other, at));
        const uint32_t first = passages->first.at[before];
        if (passages->seen.at[first] == passages->comparison)
            continue;
        passages->seen.at[first] = passages->comparison;
        for (uint32_t place = first; place != NONE; place = passages->next.at[place]) {
            repeats |= passages->met.count > 0 && passages->met.at[passages->met.count - 1] > place;
            ND_TRY(ND_PUSH(passages->met, place));
        }
    }
    if (repeats)
        passages->met.count = nd_sort_distinct(passages->met.at, passages->met.count);
    return ND_OK;
}

int nd_passages_compare(nd_passages *passages, const uint8_t *other, size_t size, uint64_t *covered, uint64_t *other_covered)
{
    ND_TRY(meet(passages, other, size));
    *covered = covered_by(passages->met.at, passages->met.count, passages->shortest);
    *other_covered = covered_by(passages->met_other.at, passages->met_other.count, passages->shortest);
    return ND_OK;
}

double nd_passage_share(uint64_t covered, size_t count, uint64_t other_covered, size_t other_count)
{
    if (count == other_count)
        return (double)(covered > other_covered ? covered : other_covered) / (double)count;
    return count < other_count ? (double)covered / (double)count : (double)other_covered / (double)other_count;
}

int nd_passages_share(nd_passages *passages, const uint8_t *other, size_t size, double *similarity)
{
    uint64_t covered, other_covered;
    ND_TRY(nd_passages_compare(passages, other, size, &covered, &other_covered));
    *similarity = nd_passage_share(covered, passages->count, other_covered, size / 4);
    return ND_OK;
}

int nd_passages_similarity(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, size_t shortest, double *similarity)
{
    nd_passages *passages = nd_passages_new();
    if (passages == NULL)
        return ND_ERROR_MEMORY;
    int status = nd_passages_begin(passages, a, a_size, shortest);
    if (status == ND_OK)
        status = nd_passages_share(passages, b, b_size, similarity);
    nd_passages_free(passages);
    return status;
}

/* ---- the runs themselves ---------------------------------------------------------------------------------------------------- */

int nd_passages_find(nd_passages *passages, const uint8_t *other, size_t size, const nd_passage **out, size_t *count)
{
    *count = 0;
    passages->found.count = 0;
    if (passages->runs == NULL && (passages->runs = nd_runs_new()) == NULL)
        return ND_ERROR_MEMORY;
    ND_TRY(meet(passages, other, size));
    const size_t shortest = passages->shortest;
    /* The other's tokens that lie in common windows go into the automaton, stretch by stretch; those of the text asked for run
     * through it. */
    ND_TRY(nd_runs_begin(passages->runs));
    for (size_t i = 0; i < passages->met_other.count; i++) {
        const size_t place = passages->met_other.at[i], end = i > 0 ? passages->met_other.at[i - 1] + shortest : 0;
        if (i == 0 || place > end)
            nd_runs_restart(passages->runs);
        for (size_t at = i > 0 && place < end ? end : place; at < place + shortest; at++)
            ND_TRY(nd_runs_add(passages->runs, nd_token_hash(other, at), at));
    }
    for (size_t i = 0, next; i < passages->met.count; i = next) {
        size_t start = passages->met.at[i], end = start + shortest;
        for (next = i + 1; next < passages->met.count && passages->met.at[next] <= end; next++)
            end = passages->met.at[next] + shortest;
        size_t length = 0, other_end = 0;
        uint32_t state = 0;
        for (size_t at = start; at <= end; at++) {
            const size_t before = length, before_end = other_end;
            if (at < end)
                nd_runs_step(passages->runs, nd_token_hash(passages->value, at), &state, &length, &other_end);
            if ((at == end || length != before + 1) && before >= shortest)
                ND_TRY(ND_PUSH(passages->found, ((nd_passage){at - before, before_end + 1 - before, before})));
        }
    }
    *out = passages->found.at;
    *count = passages->found.count;
    return ND_OK;
}
