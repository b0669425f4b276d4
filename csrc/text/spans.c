/* spans.c: a text in spans of at most about 64 KB, so that a text of any size needs no copy of itself in code points.
 *
 * A span may end before a code point that does not interact with those in front of it: one whose normal form begins with a code
 * point that is stable under that form, before and after folding. Every ASCII character and nearly every letter is one; without
 * any (a million combining marks) the span grows. A run of ASCII goes to the sink as bytes. A run of code points that can each
 * be mapped alone goes there by points.c. The last character of a run is left out, because a mark may follow it. The rest of
 * the text goes through every step here. */
#include "text/workspace.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define ALTERNATING_SIZE 32

#define DECOMPOSED_MAX 32 /* code points of the longest decomposition, which has 18 */

static int may_cut_before(const nd_rules *rules, uint32_t code_point)
{
    uint32_t normal[DECOMPOSED_MAX];
    size_t count;
    if (rules->form == ND_NORMALIZE_NONE || code_point < 0x80)
        return 1;
    if (!nd_unicode_is_stable(rules->form, code_point)) {
        if (nd_unicode_normalize(rules->form, &code_point, 1, normal, DECOMPOSED_MAX, &count) != ND_OK || count == 0 ||
            !nd_unicode_is_stable(rules->form, normal[0]))
            return 0;
        code_point = normal[0];
    }
    if (rules->spec.fold == ND_CASE_NONE)
        return 1;
    uint32_t mapped[3];
    nd_unicode_case(rules->spec.fold, code_point, mapped);
    return nd_unicode_is_stable(rules->form, mapped[0]);
}

/* End of the span that begins at `start` and needs all steps: the first place where it may be cut behind its first code point
 * and `shortest` bytes, or before that where ND_ASCII_RUN bytes of ASCII begin. */
static size_t find_span_end(const nd_rules *rules, const uint8_t *text, size_t size, size_t start, size_t shortest)
{
    size_t at = start;
    nd_utf8_next(text, size, &at);
    for (; at - start < shortest && size - at >= ND_ASCII_RUN; at += ND_ASCII_RUN / 2)
        if (nd_window_is_ascii(text + at))
            return at;
    for (; at < size; at++) {
        size_t next = at;
        const uint32_t code_point = nd_utf8_next(text, size, &next);
        if (!nd_utf8_is_continuation(text[at]) && may_cut_before(rules, code_point))
            return at;
    }
    return size;
}

static void swap_points(nd_text *work)
{
    const nd_code_points points = work->points;
    work->points = work->spare;
    work->spare = points;
}

static int decode(nd_text *work, const uint8_t *text, size_t size)
{
    work->points.count = 0;
    ND_TRY(ND_ROOM(work->points, size));
    uint32_t *out = work->points.at;
    for (size_t at = 0; at < size;)
        *out++ = nd_utf8_next(text, size, &at);
    work->points.count = (size_t)(out - work->points.at);
    return ND_OK;
}

/* Most text is in its form already; only what follows the part that is gets normalised. */
static int normalize(nd_text *work, int32_t form)
{
    const nd_code_points *const points = &work->points;
    if (form == ND_NORMALIZE_NONE || points->count == 0)
        return ND_OK;
    const size_t prefix = nd_unicode_normal_prefix(form, points->at, points->count);
    if (prefix == points->count)
        return ND_OK;
    size_t room = (points->count - prefix) + 64;
    for (;;) {
        ND_TRY(ND_ROOM(work->spare, prefix + room));
        size_t needed;
        int status = nd_unicode_normalize(form, points->at + prefix, points->count - prefix, work->spare.at + prefix,
            work->spare.capacity - prefix, &needed);
        if (status == ND_OK) {
            memcpy(work->spare.at, points->at, prefix * sizeof points->at[0]);
            work->spare.count = prefix + needed;
            swap_points(work);
            return ND_OK;
        }
        if (status != ND_ERROR_CAPACITY || needed <= room)
            return status;
        room = needed;
    }
}

/* Sets *changed where a code point was mapped to another or to several. */
static int map_case(nd_text *work, int32_t fold, int *changed)
{
    const size_t count = work->points.count;
    ND_TRY(ND_ROOM(work->spare, count + 64));
    const int folded = fold == ND_CASE_FOLD;
    uint32_t difference = 0;
    size_t out = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t code_point = work->points.at[i];
        const uint32_t single = nd_unicode_case_single(folded, code_point);
        if (single != 0 || code_point == 0) {
            difference |= single ^ code_point;
            work->spare.at[out++] = single;
            continue;
        }
        uint32_t mapped[3];
        const size_t length = nd_unicode_case(fold, code_point, mapped);
        difference = 1;
        ND_TRY(ND_ROOM(work->spare, out + length + (count - i)));
        for (size_t j = 0; j < length; j++)
            work->spare.at[out++] = mapped[j];
    }
    work->spare.count = out;
    swap_points(work);
    *changed = difference != 0;
    return ND_OK;
}

static int strip_accents(nd_text *work)
{
    ND_TRY(normalize(work, ND_NORMALIZE_NFD));
    size_t kept = 0;
    for (size_t i = 0; i < work->points.count; i++) {
        work->points.at[kept] = work->points.at[i];
        kept += !(nd_record_flags(nd_unicode_record(work->points.at[i])) & ND_CP_ACCENT);
    }
    work->points.count = kept;
    return normalize(work, ND_NORMALIZE_NFC);
}

/* A span that is not ASCII, through everything up to the sink. */
static int process_span(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_sink *sink)
{
    const nd_rules_spec *const spec = &rules->spec;
    int changed = 0;
    ND_TRY(decode(work, text, size));
    ND_TRY(normalize(work, spec->normalize));
    if (spec->fold != ND_CASE_NONE)
        ND_TRY(map_case(work, spec->fold, &changed));
    if (changed)
        ND_TRY(normalize(work, spec->normalize));
    if (spec->strip_accents)
        ND_TRY(strip_accents(work));
    return sink->code_points(work, rules, work->points.at, work->points.count);
}

/* From `at` on, the quick ways: moves *at as far as they go. */
static int take_quickly(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_sink *sink, size_t *at)
{
    const size_t start = *at;
    const size_t end = nd_ascii_end(text, size - start > ND_SPAN_SIZE ? start + ND_SPAN_SIZE + 1 : size, start);
    if (end < size && end - start < ND_LONG_ASCII && !rules->spec.strip_accents && sink->mixed != NULL)
        ND_TRY(sink->mixed(work, rules, text, size, at));
    if (*at != start)
        return ND_OK;
    if (end == size || end - start >= ND_ASCII_RUN) {
        *at = end == size ? end : end - 1; /* the last one may take a mark, or it is the one beyond the span */
        return sink->ascii(work, rules, text + start, *at - start);
    }
    if (rules->spec.strip_accents)
        return ND_OK;
    ND_TRY(nd_text_decode_points(work, rules, text, size, at));
    return *at != start ? sink->code_points(work, rules, work->points.at, work->points.count) : ND_OK;
}

/* After a piece of the text that ends at `at`; *asked: where the watch was asked last. */
static int finish_piece(nd_text *work, const nd_rules *rules, size_t at, size_t *asked)
{
    if (at - *asked >= ND_SPAN_SIZE) {
        ND_TRY(nd_watched(&work->watch));
        *asked = at;
    }
    return work->drain != NULL && work->bytes.count >= ND_DRAIN_SIZE ? nd_text_drain_part(work, rules) : ND_OK;
}

int nd_text_each_span(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, const nd_sink *sink)
{
    size_t asked = 0;
    size_t shortest = 0; /* grows where quick and slow would take turns every few bytes */
    for (size_t at = 0; at < size;) {
        const size_t start = at;
        do {
            const size_t before = at;
            ND_TRY(take_quickly(work, rules, text, size, sink, &at));
            ND_TRY(finish_piece(work, rules, at, &asked));
            if (at == size)
                return ND_OK;
            if (at == before)
                break;
        } while (1);
        if (at - start >= ALTERNATING_SIZE)
            shortest = 0;
        else if (start > 0)
            shortest = shortest < ND_SPAN_SIZE / 2 ? 2 * shortest + ALTERNATING_SIZE : ND_SPAN_SIZE;
        if (rules->spec.strip_accents)
            shortest = ND_SPAN_SIZE;
        const size_t end = find_span_end(rules, text, size, at, shortest);
        ND_TRY(process_span(work, rules, text + at, end - at, sink));
        ND_TRY(finish_piece(work, rules, end, &asked));
        at = end;
    }
    return ND_OK;
}

int nd_text_next_span(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, size_t at, size_t *end)
{
    *end = find_span_end(rules, text, size, at, 0);
    return process_span(work, rules, text + at, *end - at,
        rules->spec.tokens == ND_TOKENS_WORDS ? &nd_words_sink : &nd_chars_sink);
}
