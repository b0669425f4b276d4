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
    for (size_t i = 0; i < join->parts.count; i++) {
        if (nd_bucket_is_connected(join, item, join->parts.at[i].name))
            continue;
        int matched = 0;
        size_t before = SIZE_MAX;
        for (size_t at = join->parts.at[i].head; at != SIZE_MAX; before = at, at = join->links.at[at].next) {
            ND_TRY(nd_bucket_watched(join, join->tried++));
            ND_TRY(nd_bucket_try(join, item, join->links.at[at].id, &matched));
            if (matched)
                break;
            join->failed++;
        }
        if (matched && before != SIZE_MAX)
            move_to_head(join, &join->parts.at[i], before);
    }
    return ND_OK;
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
    if (part == SIZE_MAX) {
        ND_TRY(ND_ROOM(join->parts, join->parts.count + 1));
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
    const int has_rare = nd_has_elements(&join->verifier.rule);
    size_t i = 0, j = 0;
    while (i < join->members.count) { /* after the last member nothing is compared */
        if (has_rare && join->failed > ND_RARE_FROM * (join->members.count + join->others.count))
            return nd_bucket_by_rare(join, i);
        nd_bucket_item *item = &join->items.at[join->members.at[i]];
        int64_t other = j < join->others.count ? (int64_t)join->others.at[j] : INT64_MAX;
        if (item->id <= other) {
            if (item->visible)
                ND_TRY(ask_parts(join, item));
            i++;
            if (item->id < other || !item->visible) { /* it is not filed here, or may not be found */
                j += item->id == other;
                continue;
            }
        }
        j++;
        ND_TRY(enter_part(join, other));
    }
    return ND_OK;
}

/* The same of ids with a passage in common with another one. */
static int connect_company(nd_bucket_join *join)
{
    for (size_t i = 0; i < join->company.count; i++) {
        const nd_bucket_company *one = &join->company.at[i];
        if (one->shares && one->item != NULL)
            ND_TRY(ask_parts(join, one->item));
        if (one->shares && one->is_filed)
            ND_TRY(enter_part(join, one->id));
    }
    return ND_OK;
}

int nd_bucket_connect(nd_bucket_join *join, int64_t key)
{
    join->parts.count = join->links.count = join->failed = 0;
    if (join->scheme.plan != ND_PLAN_WINNOW)
        return connect_in_order(join);
    ND_TRY(nd_bucket_connect_windows(join, key));
    return join->verifier.rule.threshold > 0 ? connect_company(join) : ND_OK;
}

int nd_bucket_join_take_member(nd_bucket_join *join, int64_t id)
{
    ND_TRY(nd_bucket_check_id(join, id));
    if (id < join->asker->id)
        ND_TRY(nd_bucket_try(join, join->asker, id, &join->matched));
    return join->matched ? ND_DONE : ND_OK;
}

/* A crowd as a node of the components. Labels are positive or negative and, as ids, below 2^43 by their size. */
static int64_t node_of(int64_t crowd)
{
    return (int64_t)((uint64_t)crowd - ((uint64_t)1 << 62));
}

/* One match with the rows of a crowd in the bucket. */
static int ask_crowd(nd_bucket_join *join, nd_bucket_item *item, const nd_filed *probe, int64_t crowd)
{
    if (!item->visible || nd_bucket_is_connected(join, item, node_of(crowd)))
        return ND_OK;
    join->asker = item;
    join->matched = 0;
    const int status = join->reader.read_crowd(join->reader.context, probe, crowd, join);
    if (join->matched)
        ND_TRY(nd_components_join(join->components, item->id, node_of(crowd)));
    return status == ND_DONE ? ND_OK : status;
}

int nd_bucket_ask_crowds(nd_bucket_join *join, const nd_filed *probe)
{
    int64_t crowd = INT64_MIN;
    int status;
    while ((status = join->reader.next_crowd(join->reader.context, probe, &crowd)) == ND_OK) {
        ND_TRY(nd_bucket_check_id(join, crowd < 0 ? ~crowd : crowd));
        for (size_t i = 0; i < join->members.count && crowd != 0; i++)
            ND_TRY(ask_crowd(join, &join->items.at[join->members.at[i]], probe, crowd));
    }
    return status == ND_DONE ? ND_OK : status;
}
