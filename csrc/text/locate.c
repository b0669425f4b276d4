/* locate.c: where the tokens of a text stand in it.
 *
 * The text goes through the steps of spans.c in the shortest spans that may be cut: nothing depends on where these end, so the
 * tokens are the same, and what a span adds to them stands in its bytes. */
#include "text/workspace.h"

/* Notes what became of the tokens while the bytes from `start` to `end` went through. */
static int note(nd_text *work, size_t count, size_t written, size_t start, size_t end, uint64_t *starts, uint64_t *ends,
    size_t most)
{
    if (work->token_count + nd_token_is_open(work) > most)
        return ND_ERROR_CAPACITY;
    for (size_t i = count; i < work->token_count + nd_token_is_open(work); i++) {
        const size_t first = work->starts[i], last = i < work->token_count ? work->starts[i + 1] : work->bytes.count;
        if (first >= written) /* begun here; a stop word that was dropped leaves its place to the next token */
            starts[i] = start;
        if (last - (i < work->token_count ? work->joiner_size : 0) > written || first >= written)
            ends[i] = end;
    }
    return ND_OK;
}

int nd_text_locate(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, uint64_t *starts, uint64_t *ends,
    size_t most, size_t *count)
{
    int status = nd_text_begin(work, rules, size);
    for (size_t at = 0, end; at < size && status == ND_OK; at = end) {
        const size_t tokens = work->token_count, written = work->bytes.count;
        status = nd_text_next_span(work, rules, text, size, at, &end);
        if (status == ND_OK && end / ND_DRAIN_SIZE > at / ND_DRAIN_SIZE)
            status = nd_watched(&work->watch);
        if (status == ND_OK)
            status = note(work, tokens, written, at, end, starts, ends, most);
    }
    if (status == ND_OK)
        status = nd_token_close(work, rules, 0);
    *count = work->token_count;
    return status;
}
