/* tokens.c: the two sinks that cut processed text into tokens, words and characters (graphemes), as state machines over code
 * points, and the same for ASCII as loops over bytes. Default-ignorable code points are dropped here.
 *
 * A token is written into the workspace's bytes code point by code point and closed when it is known to end. */
#include "kernels/kernels.h"
#include "text/workspace.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define SMALL_JOINER 16 /* the loops over bytes copy this much, whatever the joiner's size */

int nd_tokens_reserve(nd_text *work, size_t more)
{
    return nd_reserve(&work->starts, &work->starts_capacity, work->token_count + more + 1, sizeof work->starts[0]);
}

int nd_token_close(nd_text *work, const nd_rules *rules, size_t room)
{
    if (!nd_token_is_open(work))
        return ND_OK;
    const size_t start = work->starts[work->token_count];
    if (rules->stopword_count > 0 && nd_rules_is_stopword(rules, work->bytes.at + start, work->bytes.count - start)) {
        work->bytes.count = start;
        work->first_dropped = work->token_count < work->first_dropped ? work->token_count : work->first_dropped;
        return ND_OK;
    }
    const size_t joiner_size = rules->spec.joiner_size;
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + joiner_size + room));
    ND_TRY(nd_tokens_reserve(work, 1));
    if (joiner_size > 0)
        memcpy(work->bytes.at + work->bytes.count, rules->joiner, joiner_size);
    work->bytes.count += joiner_size;
    if (work->bytes.count > UINT32_MAX)
        return ND_ERROR_CAPACITY;
    work->starts[++work->token_count] = (uint32_t)work->bytes.count;
    return ND_OK;
}

static inline void put(nd_text *work, uint32_t code_point)
{
    work->bytes.count += nd_utf8_put(code_point, work->bytes.at + work->bytes.count);
}

/* ---- graphemes -------------------------------------------------------------------------------------------------------- */

static inline void cluster_begin(nd_cluster *cluster, uint32_t gcb)
{
    cluster->last = (uint8_t)gcb;
    cluster->odd_regional = gcb == ND_GCB_REGIONAL_INDICATOR;
}

/* 1 and the cluster moves on if there is no boundary before a code point of this class (UAX #29, GB3 to GB13; GB11 needs a
 * zero-width joiner, which is default-ignorable and never gets here). */
static inline int cluster_continues(nd_cluster *cluster, uint32_t gcb)
{
    const uint32_t last = cluster->last;
    int joined;
    if (gcb == ND_GCB_OTHER)
        joined = last == ND_GCB_PREPEND;
    else if (last == ND_GCB_CR || last == ND_GCB_LF || last == ND_GCB_CONTROL)
        joined = last == ND_GCB_CR && gcb == ND_GCB_LF;
    else if (gcb == ND_GCB_CR || gcb == ND_GCB_LF || gcb == ND_GCB_CONTROL)
        joined = 0;
    else if (gcb == ND_GCB_EXTEND || gcb == ND_GCB_ZWJ || gcb == ND_GCB_SPACING_MARK || last == ND_GCB_PREPEND)
        joined = 1;
    else if (last == ND_GCB_L)
        joined = gcb == ND_GCB_L || gcb == ND_GCB_V || gcb == ND_GCB_LV || gcb == ND_GCB_LVT;
    else if (last == ND_GCB_LV || last == ND_GCB_V)
        joined = gcb == ND_GCB_V || gcb == ND_GCB_T;
    else if (last == ND_GCB_LVT || last == ND_GCB_T)
        joined = gcb == ND_GCB_T;
    else
        joined = last == ND_GCB_REGIONAL_INDICATOR && gcb == ND_GCB_REGIONAL_INDICATOR && cluster->odd_regional;
    if (joined) {
        cluster->odd_regional = gcb == ND_GCB_REGIONAL_INDICATOR && !cluster->odd_regional;
        cluster->last = (uint8_t)gcb;
    }
    return joined;
}

/* ---- the rule for words --------------------------------------------------------------------------------------------------- */

#define SEPARATES 0
#define BEGINS 1
#define CONTINUES 2

/* What the next code point is: part of the token before it, the first of a token, or in no token. A word begins with a letter or
 * number and goes on through marks. Emoji, and letters and numbers of scripts without spaces, begin a token that is their
 * grapheme cluster; so does a mark of such a script that directly follows one of these and is no part of its cluster (the
 * Myanmar vowel sign U+102C). */
static inline int classify(nd_token_state *state, uint32_t record)
{
    const uint32_t flags = nd_record_flags(record);
    const uint32_t gcb = nd_record_break(record);
    const int before = state->in;
    if (before >= ND_IN_CLUSTER && cluster_continues(&state->cluster, gcb))
        return CONTINUES;
    const uint32_t special = flags & (ND_CP_UNSPACED | ND_CP_PICTOGRAPH);
    if (special != 0) {
        const uint32_t parts = before == ND_IN_UNSPACED ? ND_CP_LETTER | ND_CP_NUMBER | ND_CP_MARK : ND_CP_LETTER | ND_CP_NUMBER;
        const int unspaced = (flags & ND_CP_UNSPACED) && (flags & parts);
        if (unspaced || (flags & ND_CP_PICTOGRAPH)) {
            state->in = unspaced ? ND_IN_UNSPACED : ND_IN_CLUSTER;
            cluster_begin(&state->cluster, gcb);
            return BEGINS;
        }
    }
    if (flags & (ND_CP_LETTER | ND_CP_NUMBER)) {
        state->in = ND_IN_WORD;
        return before == ND_IN_WORD ? CONTINUES : BEGINS;
    }
    if ((flags & ND_CP_MARK) && before == ND_IN_WORD)
        return CONTINUES;
    state->in = ND_IN_NOTHING;
    return SEPARATES;
}

/* ---- words -------------------------------------------------------------------------------------------------------------- */

/* With stop words or a long joiner: each token is closed by the function that knows them. */
static int words_code_points_any(nd_text *work, const nd_rules *rules, const uint32_t *points, size_t count)
{
    int status = ND_ROOM(work->bytes, work->bytes.count + 4 * count);
    for (size_t i = 0; status == ND_OK && i < count; i++) {
        const uint32_t code_point = points[i] & ND_POINT_VALUE;
        const uint32_t record = nd_unicode_record(code_point);
        if (nd_record_flags(record) & ND_CP_IGNORABLE)
            continue;
        const int step = classify(&work->state, record);
        if (step != CONTINUES)
            status = nd_token_close(work, rules, 4 * (count - i));
        if (step != SEPARATES && status == ND_OK)
            put(work, code_point);
    }
    return status;
}

/* A joiner of one byte and no stop words: what the kernels are for. */
static int is_plain(const nd_rules *rules)
{
    return rules->stopword_count == 0 && rules->spec.joiner_size == 1;
}

/* Makes room for the words of `size` bytes. */
static int kernel_begin(nd_text *work, const nd_rules *rules, size_t size, nd_ascii_words *words)
{
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + size + size / 2 + 1 + ND_TEXT_PADDING));
    ND_TRY(nd_tokens_reserve(work, size / 2 + 1 + ND_STARTS_PADDING));
    *words = (nd_ascii_words){
        .bytes = work->bytes.at,
        .out = work->bytes.at + work->bytes.count,
        .starts = work->starts + work->token_count + 1,
        .in_word = nd_token_is_open(work),
        .joiner = rules->joiner[0],
        .case_bit = rules->spec.fold != ND_CASE_NONE ? 0x20 : 0,
    };
    return ND_OK;
}

static int kernel_end(nd_text *work, const nd_ascii_words *words)
{
    work->bytes.count = (size_t)(words->out - work->bytes.at);
    work->token_count = (size_t)(words->starts - work->starts) - 1;
    return work->bytes.count > UINT32_MAX ? ND_ERROR_CAPACITY : ND_OK;
}

/* Where words are written. */
typedef struct writer {
    uint8_t *bytes, *out;
    uint32_t *start; /* of the token that is being written */
    size_t joiner_size;
    uint8_t joiner[SMALL_JOINER];
} writer;

/* What comes next: ends the token before it if `close`, and writes the code point if `emit`. What is written and not kept is
 * overwritten: no branch depends on the text, but for letters of less than three bytes. */
static inline void write_next(writer *to, uint32_t code_point, uint32_t close, uint32_t emit)
{
    memcpy(to->out, to->joiner, SMALL_JOINER);
    to->out += close ? to->joiner_size : 0;
    to->start[1] = (uint32_t)(to->out - to->bytes);
    to->start += close;
    if (!emit || code_point - 0x800 < 0x10000 - 0x800) {
        nd_utf8_put_three(code_point, to->out);
        to->out += emit ? 3 : 0;
    } else {
        to->out += nd_utf8_put(code_point, to->out);
    }
}

/* One for which its kind is not enough. */
static void write_any(writer *to, nd_token_state *state, uint32_t code_point)
{
    const uint32_t record = nd_unicode_record(code_point);
    if (nd_record_flags(record) & ND_CP_IGNORABLE)
        return;
    const int open = state->in != ND_IN_NOTHING, step = classify(state, record);
    write_next(to, code_point, open && step != CONTINUES, step != SEPARATES);
}

static int words_code_points(nd_text *work, const nd_rules *rules, const uint32_t *points, size_t count)
{
    const size_t joiner_size = rules->spec.joiner_size;
    if (rules->stopword_count > 0 || joiner_size > SMALL_JOINER)
        return words_code_points_any(work, rules, points, count);
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + (count + 1) * (4 + joiner_size) + SMALL_JOINER));
    ND_TRY(nd_tokens_reserve(work, count + 1));
    writer to = {work->bytes.at, work->bytes.at + work->bytes.count, work->starts + work->token_count, joiner_size, {0}};
    if (joiner_size > 0)
        memcpy(to.joiner, rules->joiner, joiner_size);
    nd_token_state *const state = &work->state;
    uint32_t in = (uint32_t)state->in;
    for (size_t i = 0; i < count; i++) {
        const uint32_t point = points[i];
        /* Only a mark can be part of a grapheme of ND_GCB_OTHER. */
        if (!(point & ND_POINT_KIND) ||
            (in >= ND_IN_CLUSTER && ((point & ND_POINT_MARK) || state->cluster.last != ND_GCB_OTHER))) {
            state->in = (int)in;
            write_any(&to, state, point & ND_POINT_VALUE);
            in = (uint32_t)state->in;
            continue;
        }
        const uint32_t word = in == ND_IN_WORD, unspaced = (point & ND_POINT_UNSPACED) != 0;
        const uint32_t letter = (point & ND_POINT_LETTER) != 0 || ((point & ND_POINT_MARK) != 0 && word);
        const uint32_t open = in != ND_IN_NOTHING;
        cluster_begin(&state->cluster, ND_GCB_OTHER); /* for one that is unspaced */
        in = letter * ND_IN_WORD + unspaced * ND_IN_UNSPACED;
        write_next(&to, point & ND_POINT_VALUE, open & ~(letter & word), letter | unspaced);
    }
    state->in = (int)in;
    work->bytes.count = (size_t)(to.out - to.bytes);
    work->token_count = (size_t)(to.start - work->starts);
    return work->bytes.count > UINT32_MAX ? ND_ERROR_CAPACITY : ND_OK;
}

/* Scripts with spaces, by the kernel. */
static int words_mixed(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, size_t *at)
{
    const int grapheme = work->state.in >= ND_IN_CLUSTER;
    if (!is_plain(rules) || (grapheme && work->state.cluster.last != ND_GCB_OTHER))
        return ND_OK;
    const size_t most = size - *at < ND_MIXED_BATCH ? size - *at : ND_MIXED_BATCH;
    const size_t count = work->bytes.count, token_count = work->token_count;
    nd_ascii_words words;
    ND_TRY(grapheme ? nd_token_close(work, rules, 0) : ND_OK);
    ND_TRY(kernel_begin(work, rules, most, &words));
    const size_t taken = nd_kernels_active()->words(&words, &rules->letters, text + *at, most);
    if (taken == 0) { /* what comes may be part of the grapheme */
        work->bytes.count = count;
        work->token_count = token_count;
        return ND_OK;
    }
    *at += taken;
    work->state.in = words.in_word ? ND_IN_WORD : ND_IN_NOTHING;
    return kernel_end(work, &words);
}

/* With stop words or another joiner: each token is closed by the function that knows them. */
static int words_ascii_any(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    int status = ND_ROOM(work->bytes, work->bytes.count + size);
    for (size_t i = 0; status == ND_OK && i < size; i++) {
        const uint8_t letter = rules->ascii_word[text[i]];
        if (letter != 0)
            work->bytes.at[work->bytes.count++] = letter;
        else
            status = nd_token_close(work, rules, size - i);
    }
    return status;
}

static int words_ascii(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    if (size == 0)
        return ND_OK;
    if (work->state.in >= ND_IN_CLUSTER) { /* no cluster goes on through ASCII */
        ND_TRY(nd_token_close(work, rules, 0));
    }
    work->state.in = rules->ascii_word[text[size - 1]] ? ND_IN_WORD : ND_IN_NOTHING;
    if (!is_plain(rules))
        return words_ascii_any(work, rules, text, size);
    nd_ascii_words words;
    ND_TRY(kernel_begin(work, rules, size, &words));
    nd_kernels_active()->ascii_words(&words, text, size);
    return kernel_end(work, &words);
}

const nd_sink nd_words_sink = {words_ascii, words_code_points, words_mixed};

/* ---- characters ------------------------------------------------------------------------------------------------------- */

/* The next code point of the text whose graphemes are the tokens. */
static inline int put_character(nd_text *work, const nd_rules *rules, uint32_t code_point, uint32_t gcb, size_t room)
{
    nd_cluster *const grapheme = &work->state.grapheme;
    if (!work->state.started || !cluster_continues(grapheme, gcb)) {
        ND_TRY(nd_token_close(work, rules, room));
        cluster_begin(grapheme, gcb);
        work->state.started = 1;
    }
    put(work, code_point);
    return ND_OK;
}

/* One processed code point. `room` is what it and those after it in the span may need. */
static inline int take_character(nd_text *work, const nd_rules *rules, uint32_t code_point, size_t room)
{
    nd_token_state *const state = &work->state;
    const uint32_t record = nd_unicode_record(code_point);
    if (nd_record_flags(record) & ND_CP_IGNORABLE)
        return ND_OK;
    if (rules->spec.nonword != ND_NONWORD_KEEP && classify(state, record) == SEPARATES) {
        state->space = state->started && rules->spec.nonword == ND_NONWORD_SPACE;
        return ND_OK;
    }
    if (state->space) {
        state->space = 0;
        ND_TRY(put_character(work, rules, ' ', ND_GCB_OTHER, room));
    }
    return put_character(work, rules, code_point, nd_record_break(record), room);
}

/* A code point takes 4 bytes at most, and a space before it 1. */
#define CHARACTER_ROOM(count) (5 * (count))

static int chars_code_points(nd_text *work, const nd_rules *rules, const uint32_t *points, size_t count)
{
    int status = ND_ROOM(work->bytes, work->bytes.count + CHARACTER_ROOM(count));
    for (size_t i = 0; status == ND_OK && i < count; i++)
        status = take_character(work, rules, points[i] & ND_POINT_VALUE, CHARACTER_ROOM(count - i));
    return status;
}

/* Every character is a token of one byte; the token before is closed when the next begins. */
static int chars_ascii_plain(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    const size_t joiner_size = rules->spec.joiner_size;
    ND_TRY(ND_ROOM(work->bytes, work->bytes.count + (size + 1) * (joiner_size + 1) + SMALL_JOINER));
    ND_TRY(nd_tokens_reserve(work, size + 1));
    uint8_t joiner[SMALL_JOINER] = {0};
    if (joiner_size > 0)
        memcpy(joiner, rules->joiner, joiner_size);
    const int spaces = rules->spec.nonword == ND_NONWORD_SPACE;
    int space = work->state.space;
    uint8_t *const bytes = work->bytes.at;
    uint8_t *out = bytes + work->bytes.count;
    uint32_t *start = work->starts + work->token_count;
    for (size_t i = 0; i < size; i++) {
        const uint8_t letter = rules->ascii_word[text[i]];
        if (letter == 0) {
            space = spaces;
            continue;
        }
        for (int j = 0; j <= space; j++) {
            memcpy(out, joiner, SMALL_JOINER);
            out += joiner_size;
            *++start = (uint32_t)(out - bytes);
            *out++ = j < space ? ' ' : letter;
        }
        space = 0;
    }
    work->state.space = space;
    work->bytes.count = (size_t)(out - bytes);
    work->token_count = (size_t)(start - work->starts);
    return work->bytes.count > UINT32_MAX ? ND_ERROR_CAPACITY : ND_OK;
}

/* The loop over bytes is for words and spaces behind a token that ASCII always ends; anything else goes one by one. */
static int chars_ascii(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size)
{
    nd_token_state *const state = &work->state;
    const int plain = rules->stopword_count == 0 && rules->spec.joiner_size <= SMALL_JOINER &&
                      rules->spec.nonword != ND_NONWORD_KEEP;
    int status = ND_ROOM(work->bytes, work->bytes.count + CHARACTER_ROOM(size));
    for (size_t i = 0; status == ND_OK && i < size; i++) {
        if (plain && nd_token_is_open(work) && state->grapheme.last == ND_GCB_OTHER) {
            state->in = rules->ascii_word[text[size - 1]] ? ND_IN_WORD : ND_IN_NOTHING;
            return chars_ascii_plain(work, rules, text + i, size - i);
        }
        status = take_character(work, rules, rules->ascii_case[text[i]], CHARACTER_ROOM(size - i));
    }
    return status;
}

const nd_sink nd_chars_sink = {chars_ascii, chars_code_points, NULL};
