/* bucket_large.c: buckets that many share. All pairs of such a bucket would be too many, and most of its members match each
 * other: a member is compared with one after another of each part of the bucket that is connected already, until one of that
 * part matches. So a bucket in which all are alike costs as much as it has members, not the square of it. Where too many
 * comparisons find no match, the rest of the bucket goes by its rarest elements (bucket_rare.c). */
#include <stdlib.h>

#include "joins/bucket_run.h"

/* Puts the link behind `before` at the head: what has matched once, as the text that all others are edits of, may match the next. */
static void move_to_head(nd_bucket_join *join, nd_bucket_part *part, size_t before)
{
    nd_bucket_link *links = join->links.at;
    const size_t moved = links[before].next;
    links[before].next = links[moved].next;
    links[moved].next = part->head;
    part->head = moved;
}

/* Compares an item with each part that it is not yet connected with, the newest member first, and the one that matched last. */
static int ask_parts(nd_bucket_join *join, nd_bucket_item *item)
{
    int status = ND_OK;
    for (size_t i = 0; i < join->parts.count && status == ND_OK; i++) {
        int matched = 0;
        if (item->matched &&
            nd_components_find(join->components, join->parts.at[i].name) == nd_components_find(join->components, item->id))
            continue;
        size_t before = SIZE_MAX;
        for (size_t at = join->parts.at[i].head; at != SIZE_MAX && status == ND_OK; before = at, at = join->links.at[at].next) {
            status = nd_bucket_watched(join, join->tried++);
            if (status == ND_OK)
                status = nd_bucket_try(join, item, join->links.at[at].id, &matched);
            if (matched)
                break;
            join->failed++;
        }
        if (matched && before != SIZE_MAX)
            move_to_head(join, &join->parts.at[i], before);
        item->matched |= matched;
    }
    return status;
}

/* Joins the parts that have the same name by now; SIZE_MAX, or the part with this one. */
static size_t join_parts(nd_bucket_join *join, int64_t name)
{
    nd_bucket_part *parts = join->parts.at;
    nd_bucket_link *links = join->links.at;
    size_t first = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < join->parts.count; i++) {
        nd_bucket_part part = parts[i];
        if (nd_components_find(join->components, part.name) == name) {
            if (first != SIZE_MAX) {
                size_t end = part.head;
                while (links[end].next != SIZE_MAX)
                    end = links[end].next;
                links[end].next = parts[first].head;
                parts[first].head = part.head;
                continue;
            }
            first = kept;
        }
        parts[kept++] = part;
    }
    join->parts.count = kept;
    return first;
}

/* Puts an id into its part. One that has matched nothing so far is a part by itself, and the other parts stay as they are. */
static int enter_part(nd_bucket_join *join, int64_t id)
{
    const int has_matched = nd_components_has(join->components, id);
    size_t part = has_matched ? join_parts(join, nd_components_find(join->components, id)) : SIZE_MAX;
    ND_TRY(ND_ROOM(join->links, join->links.count + 1));
    if (part == SIZE_MAX)
        ND_TRY(ND_ROOM(join->parts, join->parts.count + 1));
    if (part == SIZE_MAX) {
        part = join->parts.count++;
        join->parts.at[part] = (nd_bucket_part){.head = SIZE_MAX, .name = id};
    }
    join->links.at[join->links.count] = (nd_bucket_link){.id = id, .next = join->parts.at[part].head};
    join->parts.at[part].head = join->links.count++;
    return ND_OK;
}

/* Members and others in the order of their ids: members ask those that came before them. */
static int connect_in_order(nd_bucket_join *join)
{
    const int has_rare = nd_bucket_has_rare(join);
    int status = ND_OK;
    size_t i = 0, j = 0;
    while (status == ND_OK && i < join->members.count) { /* after the last member nothing is compared */
        if (has_rare && join->failed > ND_RARE_FROM * (join->members.count + join->others.count))
            return nd_bucket_by_rare(join, i);
        nd_bucket_item *item = &join->items.at[join->members.at[i]];
        int64_t other = j < join->others.count ? (int64_t)join->others.at[j] : INT64_MAX;
        if (item->id <= other) {
            if (item->visible)
                status = ask_parts(join, item);
            i++;
            if (item->id < other || !item->visible) { /* it is not filed here, or may not be found */
                j += item->id == other;
                continue;
            }
        }
        j++;
        if (status == ND_OK)
            status = enter_part(join, other);
    }
    return status;
}

/* The same of ids with a passage in common with another one. */
static int connect_company(nd_bucket_join *join)
{
    int status = ND_OK;
    for (size_t i = 0; i < join->company.count && status == ND_OK; i++) {
        const nd_bucket_company *one = &join->company.at[i];
        if (one->shares && one->item != NULL)
            status = ask_parts(join, one->item);
        if (one->shares && one->is_filed && status == ND_OK)
            status = enter_part(join, one->id);
    }
    return status;
}

int nd_bucket_connect(nd_bucket_join *join, int64_t key)
{
    join->parts.count = join->links.count = join->failed = 0;
    if (join->scheme.plan != ND_PLAN_WINNOW)
        return connect_in_order(join);
    const int status = nd_bucket_connect_windows(join, key);
    return status == ND_OK && join->rule.threshold > 0 ? connect_company(join) : status;
}

/* The finaliser of SplitMix64 over an item and a crowd, whose label is below 2^43 by its size: no two give the same. */
static uint64_t mixed(size_t item, int64_t crowd)
{
    uint64_t hash = ((uint64_t)crowd << ND_ITEM_BITS | item) + 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    return hash ^ hash >> 31;
}

/* Where a hash stands, or is to stand. */
static size_t met_place(const nd_bucket_join *join, uint64_t hash)
{
    size_t place = (size_t)(hash >> 16) & (join->met.capacity - 1);
    while (join->met.at[place] != 0 && join->met.at[place] != hash)
        place = (place + 1) & (join->met.capacity - 1);
    return place;
}

/* Makes room for one more. */
static int grow_met(nd_bucket_join *join)
{
    if (4 * (join->met.count + 1) <= 3 * join->met.capacity)
        return ND_OK;
    size_t old_capacity = join->met.capacity, capacity = old_capacity == 0 ? ND_FIRST_CAPACITY : 2 * old_capacity;
    uint64_t *old = join->met.at, *grown = calloc(capacity, sizeof *grown);
    if (grown == NULL)
        return ND_ERROR_MEMORY;
    join->met.at = grown;
    join->met.capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i] != 0)
            grown[met_place(join, old[i])] = old[i];
    free(old);
    return ND_OK;
}

void nd_bucket_forget_crowds(nd_bucket_join *join)
{
    if (join->met.count > 0)
        memset(join->met.at, 0, join->met.capacity * sizeof *join->met.at);
    join->met.count = 0;
}

int nd_bucket_join_take_member(nd_bucket_join *join, int64_t id)
{
    nd_bucket_item *item = &join->items.at[join->asker];
    if (!nd_bucket_holds(id))
        return ND_ERROR_DAMAGED;
    int status = id < item->id ? nd_bucket_try(join, item, id, &join->matched) : ND_OK;
    return status == ND_OK && join->matched ? ND_DONE : status;
}

/* One match with the rows of a crowd in the bucket. */
static int ask_crowd(nd_bucket_join *join, size_t number, const nd_filed *probe, int64_t crowd)
{
    ND_TRY(grow_met(join));
    const uint64_t hash = mixed(number, crowd);
    const size_t place = met_place(join, hash);
    if (join->met.at[place] != 0 || !join->items.at[number].visible)
        return ND_OK;
    join->asker = number;
    join->matched = 0;
    int status = join->reader.read_crowd(join->reader.context, probe, crowd, join);
    if (join->matched) {
        join->met.at[place] = hash;
        join->met.count++;
    }
    return status == ND_DONE ? ND_OK : status;
}

int nd_bucket_ask_crowds(nd_bucket_join *join, const nd_filed *probe)
{
    int64_t crowd = INT64_MIN;
    int status = ND_OK;
    while (status == ND_OK && (status = join->reader.next_crowd(join->reader.context, probe, &crowd)) == ND_OK)
        for (size_t i = 0; i < join->members.count && crowd != 0 && status == ND_OK; i++)
            status = ask_crowd(join, join->members.at[i], probe, crowd);
    return status == ND_DONE ? ND_OK : status;
}
