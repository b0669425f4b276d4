/* bucket_windows.c: buckets of a selected hash that many texts share, by the windows of `shortest` tokens around it. Texts that
 * share a passage have selected one hash in it, so in this bucket only those with a common window match; those that match by
 * other passages meet in other buckets. Windows are sorted, so a bucket costs as much as it has members, whatever they share. */
#include <stdlib.h>

#include "joins/bucket_run.h"

static int add_company(nd_bucket_join *join, int64_t id, nd_bucket_item *item, int is_filed)
{
    int visible = item == NULL || item->visible;
    ND_TRY(ND_ROOM(join->company, join->company.count + 1));
    if (item == NULL)
        ND_TRY(nd_bucket_look(join, id, &visible));
    if (visible)
        join->company.at[join->company.count++] = (nd_bucket_company){.id = id, .item = item, .is_filed = is_filed};
    return ND_OK;
}

/* Members and others, ascending by id. */
static int list_company(nd_bucket_join *join)
{
    size_t i = 0, j = 0;
    join->company.count = 0;
    while (i < join->members.count || j < join->others.count) {
        nd_bucket_item *item = i < join->members.count ? &join->items.at[join->members.at[i]] : NULL;
        const int64_t other = j < join->others.count ? (int64_t)join->others.at[j] : INT64_MAX;
        const int is_member = item != NULL && item->id <= other, is_filed = !is_member || item->id == other;
        ND_TRY(add_company(join, is_member ? item->id : other, is_member ? item : NULL, is_filed));
        i += (size_t)is_member;
        j += (size_t)is_filed;
    }
    return ND_OK;
}

/* Whether all are in one component, and every member has found an earlier one. */
static int is_connected(const nd_bucket_join *join)
{
    for (size_t i = 0; i < join->company.count; i++) {
        const nd_bucket_company *one = &join->company.at[i];
        if (nd_components_find(join->components, one->id) != nd_components_find(join->components, join->company.at[0].id) ||
            (i > 0 && one->item != NULL && !one->item->matched))
            return 0;
    }
    return 1;
}

/* The windows of all whose hashes leave the remainder `part`, with the number of the text, by hash and number. */
static int sort_windows(nd_bucket_join *join, int64_t key, uint64_t part, uint64_t parts, nd_scratch *scratch)
{
    const nd_scheme *scheme = &join->scheme;
    join->windows.count = 0;
    for (size_t i = 0; i < join->company.count; i++) {
        nd_compared text;
        uint64_t *windows;
        size_t count = 0;
        ND_TRY(nd_bucket_watched(join, join->tried++));
        ND_TRY(nd_bucket_read(join, join->company.at[i].id, 1, &text));
        ND_TRY(nd_winnow_around(text.bytes, text.size / 4, (size_t)scheme->k, (size_t)scheme->shortest, key, scratch, &windows,
            &count));
        ND_TRY(ND_ROOM(join->windows, 2 * (join->windows.count + count)));
        for (size_t j = 0; j < count; j++)
            if ((windows[j] >> 32) % parts == part)
                join->windows.at[join->windows.count++] = (nd_record){windows[j], i};
    }
    join->sorted = nd_sort_records(join->windows.at, join->windows.at + join->windows.count, join->windows.count, 0, 64);
    return ND_OK;
}

/* Compares a member with the texts that have its window. Without a threshold all of them match, and the next one needs to ask
 * this one only. */
static int ask_open(nd_bucket_join *join, nd_bucket_item *item)
{
    int connected = 1;
    for (size_t i = join->open.count; i-- > 0;) {
        const int64_t other = (int64_t)join->open.at[i];
        int matched;
        if (nd_bucket_is_connected(join, item, other))
            continue;
        ND_TRY(nd_bucket_watched(join, join->tried++));
        ND_TRY(nd_bucket_try(join, item, other, &matched));
        connected &= matched;
    }
    if (connected)
        join->open.count = 0;
    return ND_OK;
}

/* The texts with one window, sorted[start] to sorted[end - 1]. */
static int connect_group(nd_bucket_join *join, size_t start, size_t end)
{
    ND_TRY(ND_ROOM(join->open, end - start));
    join->open.count = 0;
    for (size_t i = start; i < end; i++) {
        nd_bucket_company *one = &join->company.at[join->sorted[i].item];
        if (i > start && join->sorted[i - 1].item == join->sorted[i].item)
            continue; /* a text may repeat a window */
        one->shares = 1;
        if (one->item != NULL && join->verifier.rule.threshold == 0)
            ND_TRY(ask_open(join, one->item));
        if (one->is_filed)
            join->open.at[join->open.count++] = (uint64_t)one->id;
    }
    return ND_OK;
}

/* The texts whose windows leave the remainder `part`. */
static int connect_part(nd_bucket_join *join, int64_t key, uint64_t part, uint64_t parts, nd_scratch *scratch)
{
    ND_TRY(sort_windows(join, key, part, parts, scratch));
    for (size_t start = 0, end; start < join->windows.count; start = end) {
        for (end = start + 1; end < join->windows.count && join->sorted[end].key == join->sorted[start].key;)
            end++;
        if (join->sorted[start].item != join->sorted[end - 1].item)
            ND_TRY(connect_group(join, start, end));
    }
    return ND_OK;
}

int nd_bucket_connect_windows(nd_bucket_join *join, int64_t key)
{
    ND_TRY(list_company(join));
    if (is_connected(join))
        return ND_OK;
    const size_t reach = (size_t)(join->scheme.shortest - join->scheme.k + 1);
    const uint64_t parts = 1 + join->company.count * reach / ND_WINDOWS_MAX;
    nd_scratch scratch = {0};
    int status = ND_OK;
    for (uint64_t part = 0; part < parts && status == ND_OK; part++)
        status = connect_part(join, key, part, parts, &scratch);
    nd_scratch_free(&scratch);
    return status;
}
