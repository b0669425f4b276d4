/* bucket_run.h: what the files of the join of buckets share: bucket_page.c, bucket_pairs.c, bucket_rare.c, bucket_windows.c,
 * bucket_large.c and bucket_join.c, each of which calls only those before it. */
#ifndef NEARDUP_BUCKET_RUN_H
#define NEARDUP_BUCKET_RUN_H

#include "joins/rare_sets.h"
#include "neardup_join.h"

#define ND_BUCKET_SAMPLE ((size_t)15) /* members of a bucket that tell which filter it takes */

/* A fingerprint of the page. */
typedef struct nd_bucket_item {
    int64_t id;
    size_t offset; /* of its bytes in the arena */
    size_t size;
    int loaded;   /* offset and size are known */
    int visible;  /* a document that has not expired has it */
    int matched;  /* an earlier one is found */
    uint32_t met; /* codes that connect: how many were near it in small buckets */
} nd_bucket_item;

/* Members of a bucket that are known to be connected: the links from `head` on. */
typedef struct nd_bucket_part {
    size_t head;
    int64_t name; /* any of its ids */
} nd_bucket_part;

/* A text in the bucket of a selected hash. */
typedef struct nd_bucket_company {
    int64_t id;
    nd_bucket_item *item; /* NULL: it is no member, and asks nothing */
    int is_filed;         /* others may find it here */
    int shares;           /* another one has a window of it */
} nd_bucket_company;

typedef struct nd_bucket_link {
    int64_t id;
    size_t next; /* SIZE_MAX: the last one */
} nd_bucket_link;

/* A value that was read, in the arena of those kept. */
typedef struct nd_bucket_kept {
    int64_t id;
    size_t offset, size;
} nd_bucket_kept;

typedef int nd_bucket_meet(nd_bucket_join *join, size_t item, int64_t other);

struct nd_bucket_join {
    nd_scheme scheme;
    nd_verifier verifier;
    nd_bucket_mode mode;
    size_t most;
    nd_bucket_reader reader;
    int64_t damaged;    /* the fingerprint of ND_ERROR_DAMAGED */
    nd_numbers numbers; /* of the packed value that was read last */

    /* The page. */
    ND_LIST(nd_bucket_item) items; /* by id */
    ND_LIST(uint8_t) arena;
    nd_filing *probes;
    int listed; /* from the table: items are all ids from rows.first_id to rows.last_id, values are loaded when needed */

    /* The present bucket of a page that comes from the table; its rows are in `others`. */
    struct {
        int64_t first_id, last_id, next_id;
        int64_t group_id, key;
        size_t crowded;            /* further rows, of crowds */
        ND_LIST(uint64_t) members; /* ids from first_id to last_id */
    } rows;

    /* Values read, by id: those of a bucket that many share are compared again and again. Emptied when it is full. */
    struct {
        nd_newest numbers;
        ND_LIST(nd_bucket_kept) values;
        ND_LIST(uint8_t) arena;
    } kept;

    /* The present probe. */
    ND_LIST(size_t) members;  /* items that have it, ascending */
    ND_LIST(uint64_t) others; /* ids that stand under it, ascending */
    ND_LIST(uint32_t) places; /* of entries */
    nd_bucket_meet *meet;     /* what happens to an entry that is near enough */
    const uint8_t *near;      /* its code */

    /* Connecting codes: most entries of a hot bucket are in one component, and so are most members. */
    struct {
        int64_t name;           /* an id of that component; -1: not known yet */
        ND_LIST(size_t) rest;   /* visible members that are not in it, or have matched no earlier one */
        ND_LIST(uint8_t) codes; /* of the entries of a row that are not in it */
        ND_LIST(uint64_t) ids;
    } home;
    size_t met_pairs;
    nd_bucket_item *asker; /* the member that asks a crowd */
    int matched;           /* and has found one there */

    /* What connects. */
    nd_components *components; /* of ids and crowds */
    int is_sparse;             /* pairs of small buckets, too, are listed only if they connect */
    ND_LIST(nd_bucket_part) parts;
    ND_LIST(nd_bucket_link) links;

    size_t failed; /* comparisons of the present bucket that matched nothing */
    size_t tried;  /* comparisons with parts */
    /* Passages: the texts of a bucket by their windows around its hash. */
    ND_LIST(nd_bucket_company) company;
    ND_LIST(nd_record) windows; /* the window and the place of its text in `company`; behind them room to sort */
    nd_record *sorted;
    ND_LIST(uint64_t) open; /* ids with the present window that the next member asks */

    nd_rare_sets *rare; /* the others by their rarest elements; NULL until it is needed */

    ND_LIST(uint64_t) candidates; /* other id above, number of the item below */
    ND_LIST(nd_bucket_pair) pairs;
};

static inline int nd_bucket_note_damage(nd_bucket_join *join, int64_t id)
{
    join->damaged = id;
    return ND_ERROR_DAMAGED;
}

/* Ids leave room for the number of an item. */
static inline int nd_bucket_check_id(nd_bucket_join *join, int64_t id)
{
    return id >= 0 && id < (int64_t)1 << (63 - ND_ITEM_BITS) ? ND_OK : nd_bucket_note_damage(join, id);
}

/* Whether a pair is this item's to find. */
static inline int nd_bucket_asks(const nd_bucket_join *join, const nd_bucket_item *item, int64_t other)
{
    return join->mode == ND_BUCKETS_FOREIGN || (join->mode == ND_BUCKETS_ALL ? other > item->id : other < item->id);
}

/* Whether an item that has found an earlier one is connected with another fingerprint. */
static inline int nd_bucket_is_connected(const nd_bucket_join *join, const nd_bucket_item *item, int64_t id)
{
    return item->matched && nd_components_find(join->components, id) == nd_components_find(join->components, item->id);
}

/* Asked for every candidate: looked up for one in many. */
static inline int nd_bucket_watched(const nd_bucket_join *join, size_t number)
{
    if (number % ND_CANDIDATES_ASKED != 0 || join->reader.is_stopped == NULL)
        return ND_OK;
    return join->reader.is_stopped(join->reader.context) ? ND_ERROR_STOPPED : ND_OK;
}

static inline int nd_bucket_look(const nd_bucket_join *join, int64_t id, int *visible)
{
    *visible = 1;
    return join->reader.is_visible == NULL ? ND_OK : join->reader.is_visible(join->reader.context, id, visible);
}

/* What is compared of an item that is loaded. */
static inline nd_compared nd_bucket_compared(const nd_bucket_join *join, const nd_bucket_item *item)
{
    return (nd_compared){item->id, join->arena.at + item->offset, item->size};
}

static inline int nd_bucket_verify(nd_bucket_join *join, nd_compared own, nd_compared other, nd_verdict *verdict)
{
    return nd_verify(&join->verifier, own, other, join->verifier.rule.threshold, verdict);
}

/* bucket_page.c */

/* The item of the page that has an id, NULL where the page has none. */
nd_bucket_item *nd_bucket_find_item(const nd_bucket_join *join, int64_t id);
/* Puts the bytes of an item into the arena. */
int nd_bucket_load(nd_bucket_join *join, nd_bucket_item *item);
/* Whether no more values should be loaded before those that are there are forgotten. */
int nd_bucket_is_loaded_full(const nd_bucket_join *join);
void nd_bucket_forget(nd_bucket_join *join);
/* The same, which may forget other items, and what is compared of it. */
int nd_bucket_take(nd_bucket_join *join, nd_bucket_item *item, nd_compared *out);
/* The bytes of any fingerprint, valid until the next call; with `keep`, until another value is kept. */
int nd_bucket_read(nd_bucket_join *join, int64_t id, int keep, nd_compared *out);

/* bucket_pairs.c */

/* Compares a member with another fingerprint, whether or not that is visible. */
int nd_bucket_measure(nd_bucket_join *join, nd_bucket_item *item, int64_t other, nd_verdict *verdict);
/* Compares an item with an earlier fingerprint; *matched where they meet the rule and the other is visible. */
int nd_bucket_try(nd_bucket_join *join, nd_bucket_item *item, int64_t other, int *matched);
/* The same, unless the two are connected already. */
int nd_bucket_meet_connecting(nd_bucket_join *join, size_t item, int64_t other);
/* A pair to be compared with many others, in the order in which values are read once. */
int nd_bucket_add_candidate(nd_bucket_join *join, size_t item, int64_t other);
int nd_bucket_drain(nd_bucket_join *join);
/* A pair of an item and the present entry, whose code is compared as it stands there. */
int nd_bucket_meet_near(nd_bucket_join *join, size_t number, int64_t other);

/* bucket_rare.c */

/* Members of the bucket from first_member on meet the others that they may match. Those that connect are compared at once, others
 * become candidates. */
int nd_bucket_by_rare(nd_bucket_join *join, size_t first_member);

/* bucket_windows.c */

/* Marks the texts of a bucket that share a window. Without a threshold it connects them, too. */
int nd_bucket_connect_windows(nd_bucket_join *join, int64_t key);

/* bucket_large.c */

/* Connects the members of a bucket with the others in it. */
int nd_bucket_connect(nd_bucket_join *join, int64_t key);
/* The same with the rows of each crowd. */
int nd_bucket_ask_crowds(nd_bucket_join *join, const nd_filed *probe);

#endif
