/* suffix_automaton.c: a suffix automaton of a sequence of tokens: of another sequence, the longest run that ends at each token and occurs in the
 * first, and where it first ends there. Both take a step a token, however often runs repeat. */
#include <stdlib.h>

#include "schemes/schemes.h"

#define NONE UINT32_MAX

/* The runs that end at the same places. */
typedef struct run_state {
    uint32_t length; /* of the longest */
    uint32_t suffix; /* the state of the longest shorter runs, which end at more places */
    uint32_t end;    /* the first place */
    uint32_t edges;  /* the first of the list */
} run_state;

typedef struct run_edge {
    uint32_t state, token, target;
    uint32_t next;    /* of the state */
    uint32_t chained; /* of the bucket */
} run_edge;

struct nd_runs {
    ND_LIST(run_state) states;
    ND_LIST(run_edge) edges;
    ND_LIST(uint32_t) buckets;
    uint32_t last;
};

nd_runs *nd_runs_new(void)
{
    return calloc(1, sizeof(nd_runs));
}

void nd_runs_free(nd_runs *runs)
{
    if (runs == NULL)
        return;
    free(runs->states.at);
    free(runs->edges.at);
    free(runs->buckets.at);
    free(runs);
}

static size_t bucket_of(const nd_runs *runs, uint32_t state, uint32_t token)
{
    const uint64_t hash = ((uint64_t)state << 32 | token) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(hash ^ hash >> 32) & (runs->buckets.count - 1);
}

static uint32_t find_edge(const nd_runs *runs, uint32_t state, uint32_t token)
{
    uint32_t edge = runs->buckets.at[bucket_of(runs, state, token)];
    while (edge != NONE && (runs->edges.at[edge].state != state || runs->edges.at[edge].token != token))
        edge = runs->edges.at[edge].chained;
    return edge;
}

/* Twice as many buckets once there are as many edges. */
static int grow_buckets(nd_runs *runs)
{
    const size_t count = 2 * runs->buckets.count;
    ND_TRY(ND_ROOM(runs->buckets, count));
    runs->buckets.count = count;
    memset(runs->buckets.at, 0xff, count * sizeof(uint32_t));
    for (size_t i = 0; i < runs->edges.count; i++) {
        run_edge *const edge = &runs->edges.at[i];
        uint32_t *const bucket = &runs->buckets.at[bucket_of(runs, edge->state, edge->token)];
        edge->chained = *bucket;
        *bucket = (uint32_t)i;
    }
    return ND_OK;
}

static int add_edge(nd_runs *runs, uint32_t state, uint32_t token, uint32_t target)
{
    ND_TRY(runs->edges.count < runs->buckets.count ? ND_OK : grow_buckets(runs));
    ND_TRY(ND_ROOM(runs->edges, runs->edges.count + 1));
    uint32_t *const bucket = &runs->buckets.at[bucket_of(runs, state, token)];
    const uint32_t edge = (uint32_t)runs->edges.count++;
    runs->edges.at[edge] = (run_edge){state, token, target, runs->states.at[state].edges, *bucket};
    *bucket = runs->states.at[state].edges = edge;
    return ND_OK;
}

static int add_state(nd_runs *runs, uint32_t length, uint32_t suffix, uint32_t end, uint32_t *state)
{
    if (runs->states.count >= NONE / 2)
        return ND_ERROR_CAPACITY;
    ND_TRY(ND_ROOM(runs->states, runs->states.count + 1));
    *state = (uint32_t)runs->states.count++;
    runs->states.at[*state] = (run_state){length, suffix, end, NONE};
    return ND_OK;
}

int nd_runs_begin(nd_runs *runs)
{
    uint32_t root;
    runs->states.count = runs->edges.count = 0;
    runs->buckets.count = 32;
    runs->last = 0;
    ND_TRY(grow_buckets(runs));
    return add_state(runs, 0, NONE, 0, &root);
}

void nd_runs_restart(nd_runs *runs)
{
    runs->last = 0;
}

/* A state for the runs of `target` that are no longer than those of `state` and one token; edges that led to these lead to it. */
static int split_state(nd_runs *runs, uint32_t state, uint32_t token, uint32_t target, uint32_t *copy)
{
    const run_state original = runs->states.at[target];
    ND_TRY(add_state(runs, runs->states.at[state].length + 1, original.suffix, original.end, copy));
    for (uint32_t edge = original.edges; edge != NONE; edge = runs->edges.at[edge].next)
        ND_TRY(add_edge(runs, *copy, runs->edges.at[edge].token, runs->edges.at[edge].target));
    runs->states.at[target].suffix = *copy;
    for (uint32_t edge; state != NONE; state = runs->states.at[state].suffix) {
        edge = find_edge(runs, state, token);
        if (edge == NONE || runs->edges.at[edge].target != target)
            break;
        runs->edges.at[edge].target = *copy;
    }
    return ND_OK;
}

int nd_runs_add(nd_runs *runs, uint32_t token, size_t place)
{
    const uint32_t last = runs->last;
    uint32_t edge = find_edge(runs, last, token), state = last, added;
    if (edge != NONE) { /* after a restart: the run is known */
        const uint32_t target = runs->edges.at[edge].target;
        if (runs->states.at[target].length == runs->states.at[last].length + 1) {
            runs->last = target;
            return ND_OK;
        }
        return split_state(runs, last, token, target, &runs->last);
    }
    ND_TRY(add_state(runs, runs->states.at[last].length + 1, 0, (uint32_t)place, &added));
    for (; state != NONE && (edge = find_edge(runs, state, token)) == NONE; state = runs->states.at[state].suffix)
        ND_TRY(add_edge(runs, state, token, added));
    if (state != NONE) {
        const uint32_t target = runs->edges.at[edge].target;
        uint32_t suffix = target;
        if (runs->states.at[target].length != runs->states.at[state].length + 1)
            ND_TRY(split_state(runs, state, token, target, &suffix));
        runs->states.at[added].suffix = suffix;
    }
    runs->last = added;
    return ND_OK;
}

void nd_runs_step(const nd_runs *runs, uint32_t token, uint32_t *state, size_t *length, size_t *end)
{
    uint32_t edge;
    while ((edge = find_edge(runs, *state, token)) == NONE && *state != 0) {
        *state = runs->states.at[*state].suffix;
        *length = runs->states.at[*state].length;
    }
    if (edge != NONE) {
        *state = runs->edges.at[edge].target;
        ++*length;
    }
    *end = runs->states.at[*state].end;
}
