/* workspace.h: how a text becomes tokens and hashes, shared by the files of this room.
 *
 * A text is cut into spans, and each span goes through in one piece: ASCII spans byte by byte, all others as code points that are
 * decoded, normalised, folded and stripped first (spans.c). What follows, a sink, sees the pieces one after another and
 * keeps its state between them (tokens.c), so that nothing depends on where the spans end. */
#ifndef NEARDUP_TEXT_WORKSPACE_H
#define NEARDUP_TEXT_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

#include "arrays/arrays.h"
#include "kernels/kernels.h"

/* ---- rules ------------------------------------------------------------------------------------------------------ */

/* A code point on its way to the sink: the number itself and, from points.c, what it is to the rule for words. */
#define ND_POINT_VALUE 0x1FFFFFu
#define ND_POINT_KIND (ND_POINT_LETTER | ND_POINT_UNSPACED | ND_POINT_MARK | ND_POINT_SEPARATOR) /* one of these at most */
#define ND_POINT_UNKNOWN 0u           /* not looked at, or it depends on the grapheme cluster before it */
#define ND_POINT_LETTER (1u << 24)    /* a letter or number of a script with spaces */
#define ND_POINT_UNSPACED (1u << 25)  /* one of a script without, its class ND_GCB_OTHER */
#define ND_POINT_MARK (1u << 26)      /* a mark: where no grapheme is a token, part of the word before it or of none */
#define ND_POINT_SEPARATOR (1u << 27) /* no letter, number, mark, pictograph or ignorable; it may be a control character */
#define ND_POINT_CUT (1u << 28)       /* text may be cut before it */
#define ND_POINT_ODD (1u << 31)       /* in need of all steps */

/* Points by code point, in pages of 64: what is XORed to the code point, so that pages of letters that stay as they are can be one. */
#define ND_PAGE_SHIFT 6
#define ND_PAGE_SIZE (1u << ND_PAGE_SHIFT)
#define ND_PAGE_LIMIT 0x10000u   /* code points that have a page */
#define ND_PAGES ND_LETTER_PAGES /* more than nd_rules_fill_points makes */
#define ND_TWO_BYTE_LIMIT 0x800u

struct nd_rules {
    nd_rules_spec spec; /* joiner and stopwords point into `joiner`; the stop words of the spec are not kept */
    int32_t form;       /* of the text after stripping accents: what decides where spans may be cut; ND_NORMALIZE_* */
    uint8_t *joiner;
    uint8_t ascii_case[128]; /* what a byte becomes */
    uint8_t ascii_word[128]; /* the same where it belongs to a word, 0 where not */
    uint8_t page_of[ND_PAGE_LIMIT >> ND_PAGE_SHIFT];
    uint32_t points[ND_PAGES][ND_PAGE_SIZE]; /* what a code point becomes, XOR the code point: ND_POINT_* */
    nd_letters letters;                      /* the same for the kernel */
    /* Stop words after normalisation: word i is stopword_bytes[stopword_ends[i-1] .. stopword_ends[i]); the table is open
     * addressing over stopword_mask + 1 places, word number + 1, 0 = free. */
    uint8_t *stopword_bytes;
    size_t *stopword_ends;
    uint32_t *stopword_table;
    size_t stopword_mask;
    size_t stopword_count;
};

/* Place of the token in the table of stop words, or the free place where it would go. */
size_t nd_stopwords_place(const nd_rules *rules, const uint8_t *token, size_t size);
/* 1 if the token is a stop word. Only to be asked where there are some. */
int nd_rules_is_stopword(const nd_rules *rules, const uint8_t *token, size_t size);

/* ---- workspace -------------------------------------------------------------------------------------------------------- */

/* What the last code point was to the rule for words. */
#define ND_IN_NOTHING 0
#define ND_IN_WORD 1
#define ND_IN_CLUSTER 2  /* a grapheme that is a token of its own: emoji */
#define ND_IN_UNSPACED 3 /* the same, of a script without spaces */

/* A grapheme cluster that is being read. */
typedef struct nd_cluster {
    uint8_t last;         /* ND_GCB_* of its last code point */
    uint8_t odd_regional; /* ends in an odd number of regional indicators */
} nd_cluster;

typedef struct nd_token_state {
    int in;              /* ND_IN_* */
    nd_cluster cluster;  /* of ND_IN_CLUSTER, ND_IN_UNSPACED */
    nd_cluster grapheme; /* of tokens = CHARS: the token that is being written */
    int started;         /* CHARS: something was written */
    int space;           /* CHARS with ND_NONWORD_SPACE: characters of no word since then */
} nd_token_state;

typedef ND_LIST(uint32_t) nd_code_points;

/* Tokens: token i is bytes[starts[i] .. starts[i + 1] - joiner_size), the joiner stands behind each. So a shingle of k tokens is
 * one slice. While a text is read, starts[token_count] .. bytes.count is the token that is being written. ND_TEXT_PADDING bytes
 * stand before the first token, so that the kernels may read around it. */
struct nd_text {
    ND_LIST(uint8_t) bytes;
    uint32_t *starts;
    size_t starts_capacity;
    size_t token_count;
    size_t first_dropped; /* of locate.c: the least place at which a stop word was dropped */
    size_t joiner_size;
    nd_token_state state;
    nd_code_points points; /* the span; `spare` takes the result of each step, then the two change places */
    nd_code_points spare;
    uint64_t *hashes;
    size_t hashes_capacity;
    ND_LIST(uint8_t) digests;
    size_t digest_size;           /* 0: no digests */
    const struct nd_drain *drain; /* of nd_text_drain, NULL elsewhere */
    size_t drained;               /* tokens that are not here any more */
    nd_watch watch;
};

/* ---- hashes in parts ------------------------------------------------------------------------------------------------- */

typedef struct nd_drain {
    int (*take)(void *context, const uint64_t *hashes, size_t count);
    void *context;
} nd_drain;

/* nd_text_tokenize and nd_text_hash in one: all hashes go to the drain, part by part, and the workspace keeps nothing. */
int nd_text_drain(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_drain *drain,
    size_t *token_count);
/* While that runs: sends the hashes of the whole shingles that are here, keeps the tokens that the next one begins with. */
int nd_text_drain_part(nd_text *work, const nd_rules *rules);

/* ---- spans ----------------------------------------------------------------------------------------------------------- */

#define ND_ASCII_RUN 32   /* a shorter run between other characters stays with them */
#define ND_LONG_ASCII 256 /* so does one up to here where the sink takes both */

/* All take what follows what they got before; all return a status. Code points (ND_POINT_*) may include ignorable ones. */
typedef struct nd_sink {
    int (*ascii)(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size); /* not case-mapped yet */
    int (*code_points)(nd_text *work, const nd_rules *rules, const uint32_t *points, size_t count);
    /* May be NULL. Takes UTF-8 as it comes from *at on, as far as it can, or not at all: moves *at, never behind the last code
     * point that it saw. */
    int (*mixed)(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, size_t *at);
} nd_sink;

/* Fills rules->points, from what the rules hold otherwise. Not for strip_accents. */
void nd_rules_fill_points(nd_rules *rules);

/* Decodes, normalises and folds text from *at on into work->points, as far as each code point can be looked at alone, up to
 * ND_POINT_BATCH of them or to ND_WINDOW bytes of ASCII, and moves *at to where it may be cut: the last code point seen is left
 * there unless the text ends. */
int nd_text_decode_points(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, size_t *at);

/* Normalises, folds and strips a text, span by span, into the sink. */
int nd_text_each_span(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_sink *sink);

/* Makes the workspace ready for a text of `size` bytes. */
int nd_text_begin(nd_text *work, const nd_rules *rules, size_t size);

/* The shortest span from `at` on through all steps to the tokens; *end: where it ends. */
int nd_text_next_span(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, size_t at, size_t *end);

/* ---- tokens ------------------------------------------------------------------------------------------------------------ */

extern const nd_sink nd_words_sink;
extern const nd_sink nd_chars_sink;

/* Ends the token that is being written, if there is one: drops it if it is a stop word, else puts the joiner behind it.
 * Leaves room for `room` bytes. */
int nd_token_close(nd_text *work, const nd_rules *rules, size_t room);

static inline int nd_token_is_open(const nd_text *work)
{
    return work->bytes.count > work->starts[work->token_count];
}

/* Room for `more` tokens and the end of the last. */
int nd_tokens_reserve(nd_text *work, size_t more);

#endif
