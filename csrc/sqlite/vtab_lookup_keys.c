/* vtab_lookup_keys.c: nd_sought(page) -> low, group_id: the keys that the page of a join looks for, in the order of the table. Joined
 * with the table they are looked up by one statement, whose cursor stays where it is: a key that stands on the same page as the
 * one before costs no way down from the root. `page` is a pointer, which SQL cannot make: for anything else there is no row. */
#include "sqlite/join.h"

typedef struct sought_cursor {
    nd_cursor head;
    size_t place;
    int64_t low, group_id;
} sought_cursor;

static int sought_next(nd_cursor *base)
{
    sought_cursor *cursor = (sought_cursor *)base;
    int status = nd_bucket_join_next_key(base->pointer, &cursor->place, &cursor->low, &cursor->group_id);
    base->count = status == ND_OK ? SIZE_MAX : 0;
    return SQLITE_OK;
}

static int sought_fill(nd_cursor *base)
{
    ((sought_cursor *)base)->place = 0;
    return base->pointer == NULL ? SQLITE_OK : sought_next(base);
}

static void sought_column(nd_cursor *base, sqlite3_context *context, int column)
{
    const sought_cursor *cursor = (const sought_cursor *)base;
    sqlite3_result_int64(context, column == 0 ? cursor->low : cursor->group_id);
}

const nd_table_spec nd_sought_function = {
    .name = "nd_sought",
    .declaration = "CREATE TABLE x(low INTEGER, group_id INTEGER, page HIDDEN)",
    .columns = {2, 1, 1, 1000},
    .pointer = ND_JOIN_POINTER,
    .cursor = {sizeof(sought_cursor), NULL, sought_fill, sought_next, sought_column},
};
