/* components.c: disjoint sets of numbers, for the connected components of a graph whose edges come one by one. */
#include <stdlib.h>

#include "schemes/schemes.h"

#define EMPTY INT64_MIN

typedef struct node {
    int64_t member, parent;
} node;

/* Open addressing; a node of member EMPTY is a free place. */
struct nd_components {
    node *nodes;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

nd_components *nd_components_new(void)
{
    return calloc(1, sizeof(nd_components));
}

void nd_components_free(nd_components *components)
{
    if (components == NULL)
        return;
    free(components->nodes);
    free(components);
}

static size_t place_of(const nd_components *components, int64_t member)
{
    size_t mask = components->capacity - 1;
    size_t place = (size_t)((uint64_t)member * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (components->nodes[place].member != EMPTY && components->nodes[place].member != member)
        place = (place + 1) & mask;
    return place;
}

static int grow(nd_components *components)
{
    nd_components larger = {.capacity = components->capacity == 0 ? ND_FIRST_CAPACITY : 2 * components->capacity};
    larger.nodes = malloc(larger.capacity * sizeof *larger.nodes);
    if (larger.nodes == NULL)
        return ND_ERROR_MEMORY;
    for (size_t i = 0; i < larger.capacity; i++)
        larger.nodes[i].member = EMPTY;
    for (size_t i = 0; i < components->capacity; i++)
        if (components->nodes[i].member != EMPTY)
            larger.nodes[place_of(&larger, components->nodes[i].member)] = components->nodes[i];
    larger.count = components->count;
    free(components->nodes);
    *components = larger;
    return ND_OK;
}

int64_t nd_components_find(const nd_components *components, int64_t member)
{
    if (components->count == 0)
        return member;
    for (;;) {
        size_t place = place_of(components, member);
        if (components->nodes[place].member == EMPTY || components->nodes[place].parent == member)
            return member;
        /* Every second one is hung a step higher, so that paths stay short. */
        size_t above = place_of(components, components->nodes[place].parent);
        components->nodes[place].parent = components->nodes[above].parent;
        member = components->nodes[place].parent;
    }
}

int nd_components_has(const nd_components *components, int64_t member)
{
    return components->count > 0 && components->nodes[place_of(components, member)].member != EMPTY;
}

static int enter(nd_components *components, int64_t member)
{
    if (components->capacity == 0 || 4 * (components->count + 1) > 3 * components->capacity)
        ND_TRY(grow(components));
    size_t place = place_of(components, member);
    if (components->nodes[place].member == EMPTY) {
        components->nodes[place] = (node){member, member};
        components->count++;
    }
    return ND_OK;
}

int nd_components_join(nd_components *components, int64_t a, int64_t b)
{
    ND_TRY(enter(components, a));
    ND_TRY(enter(components, b));
    components->nodes[place_of(components, nd_components_find(components, a))].parent = nd_components_find(components, b);
    return ND_OK;
}
