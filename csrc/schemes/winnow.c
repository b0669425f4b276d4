/* winnow.c: the hashes under which a sequence of tokens is filed (winnowing: Schleimer, Wilkerson and Aiken, SIGMOD 2003).
 *
 * Each run of k tokens has a hash. In each window of w such runs the smallest is selected, the last of equal ones. A run of
 * w + k - 1 = shortest tokens is one whole window, so two texts that share it have selected the same hash there. */
#include "schemes/schemes.h"

#define SPREAD UINT64_C(0x9E3779B97F4A7C15)
#define BASE UINT64_C(0xD6E8FEB86659FD93)

/* The hash of a run from its polynomial in BASE. */
static inline uint64_t mix(uint64_t sum)
{
    sum = (sum ^ sum >> 32) * BASE;
    sum = (sum ^ sum >> 32) * BASE;
    return sum ^ sum >> 32;
}

static inline uint64_t spread(const uint8_t *value, size_t token)
{
    return nd_token_hash(value, token) * SPREAD;
}

/* The runs of the window that may be selected: their hashes ascend, from the first of the queue to its last. */
typedef struct queue {
    uint64_t *hashes, *places; /* of `room` entries, in a ring */
    size_t room, first, last;  /* entries first to last - 1 are in it */
} queue;

static inline void queue_add(queue *runs, uint64_t hash, uint64_t place)
{
    const size_t mask = runs->room - 1;
    while (runs->last > runs->first && runs->hashes[(runs->last - 1) & mask] >= hash)
        runs->last--;
    runs->hashes[runs->last & mask] = hash;
    runs->places[runs->last++ & mask] = place;
}

int nd_winnow(const uint8_t *value, size_t count, size_t k, size_t shortest, nd_scratch *scratch, uint64_t **selected,
    size_t *selected_count)
{
    const size_t window = shortest - k + 1, runs = count < shortest ? 0 : count - k + 1;
    queue open = {.room = 1};
    while (open.room < window + 1)
        open.room *= 2;
    *selected_count = 0;
    const int status = nd_scratch_hashes(scratch, 2 * open.room + runs, selected);
    if (status != ND_OK || runs == 0)
        return status;
    open.hashes = *selected + runs; /* what is selected stands in front */
    open.places = open.hashes + open.room;
    uint64_t sum = 0, highest = 1; /* BASE^(k - 1) */
    size_t chosen = runs;          /* the place that was selected last */
    for (size_t i = 1; i < k; i++) {
        highest *= BASE;
        sum = sum * BASE + spread(value, i - 1);
    }
    for (size_t place = 0; place < runs; place++) {
        sum = sum * BASE + spread(value, place + k - 1);
        queue_add(&open, mix(sum), place);
        sum -= spread(value, place) * highest;
        if (place + 1 < window)
            continue;
        const size_t mask = open.room - 1;
        while (open.places[open.first & mask] + window <= place)
            open.first++;
        if (open.places[open.first & mask] != chosen) {
            chosen = open.places[open.first & mask];
            (*selected)[(*selected_count)++] = open.hashes[open.first & mask];
        }
    }
    return ND_OK;
}
