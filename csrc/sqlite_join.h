/* sqlite_join.h: what the files of neardup_join share. */
#ifndef ND_SQLITE_JOIN_H
#define ND_SQLITE_JOIN_H

#include "sqlite_neardup.h"

/* A fingerprint with what is compared: its stored value, or the shingle hashes of its text where texts are the evidence. */
typedef struct join_item {
    int64_t id;
    int64_t group_id;
    size_t offset; /* of its bytes in a page's arena */
    size_t size;
    int loaded;  /* offset and size are known */
    int visible; /* a document that has not expired has it */
    int matched; /* an earlier one is found */
} join_item;

/* Fingerprints of successive ids, so many that their keys and bytes need little memory. */
typedef struct join_page {
    join_item *items;
    size_t count, items_capacity;
    uint8_t *arena;
    size_t arena_size, arena_capacity;
    uint64_t *ids; /* of a page from the candidate table: those of its items */
    size_t id_count, ids_capacity;
    nd_filing *probes;
    int listed; /* items and probes are of the candidate table: probes know the id of their item, values are loaded when needed */
} join_page;

enum join_statement {
    JOIN_PAGE,    /* first, last -> id, group_id, value, evidence or NULL */
    JOIN_VALUE,   /* id -> value */
    JOIN_TEXT,    /* id -> text of a document */
    JOIN_VISIBLE, /* id, now -> 1 */
    JOIN_RANGE,   /* group, low -> ids of the candidate table; of codes group, low, high -> entries */
    JOIN_WALK,    /* group, key, id, crowd of the whole table, in its order; not of codes */
    JOIN_LABEL,   /* group, low, crowd -> the next crowd of the bucket */
    JOIN_CROWD,   /* group, low, crowd -> ids, newest first */
    JOIN_STATEMENTS
};

/* What reads the index. Functions return an SQLite code; the table then has a message. */
typedef struct join_reader {
    nd_table *table;
    const nd_settings *settings;
    nd_scheme rule; /* compares what items hold */
    sqlite3_stmt *statements[JOIN_STATEMENTS];
    int64_t now;
    int complete; /* all pairs */
    int foreign;  /* the page's fingerprints are those asked for: of another index, with ids of their own, */
    const uint8_t *asked; /* one after another: id, group_id, sizes of value and evidence (-1: none), 64 bits each, then these */
    size_t asked_size, asked_at;
    int crowds;     /* some rows stand apart by crowd */
    int expiring;   /* some documents may have expired */
    int64_t last_id; /* the highest id of a fingerprint */
    /* Values read, by id: fingerprints of buckets that many share are compared again and again. Emptied when it is full. */
    struct {
        int64_t *ids; /* open addressing; -1 = free */
        size_t *offsets, *sizes;
        uint8_t *arena;
        size_t used, count;
    } kept;
    uint64_t *numbers; /* of one text or value, aligned */
    size_t numbers_capacity;
    nd_text *work;
} join_reader;

/* mode: `complete` of neardup_join. now: milliseconds since 1970; documents that expire by then are invisible. */
int nd_join_reader_open(join_reader *reader, nd_table *table, int mode, int64_t now);
void nd_join_reader_close(join_reader *reader);
int nd_join_fail(join_reader *reader, int code);
/* Fills the page with the fingerprints from first_id to last_id, as many as fit; *next_id is where to go on. */
int nd_join_read_page(join_reader *reader, join_page *page, int64_t first_id, int64_t last_id, int64_t *next_id);
/* The bytes of one fingerprint, valid until the next call. A size of 0: it is gone, which only a damaged file has. */
int nd_join_read_value(join_reader *reader, int64_t id, const uint8_t **bytes, size_t *size);
/* The same, valid until 64 MB of other values were read. */
int nd_join_keep_value(join_reader *reader, int64_t id, const uint8_t **bytes, size_t *size);
int nd_join_is_visible(join_reader *reader, int64_t id, int *visible);
/* Whether two items meet the rule of the scheme, and by how much; distance -1 where there is none. */
int nd_join_compare(const join_reader *reader, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, double *similarity,
                    int64_t *distance);
/* Puts the value of an item into the arena of its page. */
int nd_join_load_item(join_reader *reader, join_page *page, join_item *item);
/* Whether no more values should be loaded before those that are there are forgotten. */
int nd_join_is_full(const join_page *page);
void nd_join_forget_items(join_page *page);
/* The item of the page that has an id, NULL where the page has none. */
join_item *nd_join_find_item(const join_page *page, int64_t id);
/* Whether reading the candidate table from one end to the other is quicker than looking up each probe of `count` fingerprints. */
int nd_join_prefers_walk(join_reader *reader, int64_t count, int *walk);
/* Binds group, low and high of a probe, as many as the statement takes. */
int nd_join_bind(sqlite3_stmt *statement, const nd_filed *probe);

#endif
