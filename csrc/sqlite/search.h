/* search.h: between the two files of neardup_search: what is asked (question.c) and the answer (vtab_search.c). */
#ifndef ND_SQLITE_SEARCH_H
#define ND_SQLITE_SEARCH_H

#include "sqlite/neardup.h"

/* The inputs of neardup_search, in their order. */
enum nd_search_input {
    ND_SEARCH_INDEX,
    ND_SEARCH_TEXT,
    ND_SEARCH_THRESHOLD,
    ND_SEARCH_LIMIT,
    ND_SEARCH_MEASURE,
    ND_SEARCH_GROUP,
    ND_SEARCH_INPUTS
};

/* What the parameters of the query are bound to. */
typedef struct nd_question {
    const nd_settings *settings;
    const uint8_t *fingerprint;
    size_t fingerprint_size;       /* 0: a text without shingles, which nothing matches */
    double slope;                  /* similarity = 1 - slope * distance / bits */
    double threshold;              /* -1.0: the distance alone decides */
    int64_t limit;                 /* -1: none */
    int64_t group_id;              /* 0: documents without a group */
    int containment;               /* 1: how much of the text is in a document */
    uint8_t code[ND_BITS_MAX / 8]; /* of an index of codes */
} nd_question;

/* What the cursor's inputs ask, but for the group, of the index whose settings its table holds; SQLITE_OK, or the error set. */
int nd_question_read(nd_cursor *cursor, nd_question *q);

#endif
