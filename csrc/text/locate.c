/* locate.c: where the tokens of a text stand in it.
 *
 * The text goes through the steps of spans.c in the shortest spans that may be cut: nothing depends on where these end, so the
 * tokens are the same, and what a span adds to them stands in its bytes. */
#include "text/workspace.h"

/* What stands in the workspace before a span. */
typedef struct before {
    size_t token_count, written;
} before;

/* Notes what became of the tokens while the bytes from `start` to `end` went through. A stop word that was dropped left its place to
 * the next token. */
static void note(const nd_text *work, before was, size_t start, size_t end, uint64_t *starts, uint64_t *ends, size_t most)
{
    const size_t count = work->token_count + (size_t)nd_token_is_open(work);
    for (size_t i = was.token_count; i < count && i < most; i++) {
        const size_t first = work->starts[i];
        const size_t last = i < work->token_count ? work->starts[i + 1] - work->joiner_size : work->bytes.count;
        const int begun = first >= was.written || i == work->first_dropped;
        if (begun)
            starts[i] = start;
        if (begun || last > was.written)
            ends[i] = end;
    }
}

int nd_text_locate(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, uint64_t *starts, uint64_t *ends,
    size_t most, size_t *count)
{
    *count = 0;
    ND_TRY(nd_text_begin(work, rules, size));
    for (size_t at = 0, end; at < size; at = end) {
        const before was = {work->token_count, work->bytes.count};
        work->first_dropped = SIZE_MAX;
        ND_TRY(nd_text_next_span(work, rules, text, size, at, &end));
        if (end / ND_DRAIN_SIZE > at / ND_DRAIN_SIZE)
            ND_TRY(nd_watched(&work->watch));
        note(work, was, at, end, starts, ends, most);
    }
    ND_TRY(nd_token_close(work, rules, 0));
    *count = work->token_count;
    return *count > most ? ND_ERROR_CAPACITY : ND_OK;
}
