/* points.c: the quick way through text that is not ASCII. A code point is mapped as it is decoded, with one look-up, if
 * normalisation leaves it alone or replaces it by one that it leaves alone, and its case mapping is one such code point. All
 * others (a combining mark that may compose, a ligature, a capital sharp s) go through spans.c step by step, together with the
 * code point before them, which they may change. */
#include "text/workspace.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* What the rule for words needs to know, where it does not depend on grapheme clusters. */
static uint32_t kind_of(uint32_t record)
{
    const uint32_t flags = nd_record_flags(record), gcb = nd_record_break(record);
    const int ordinary = gcb == ND_GCB_OTHER || gcb == ND_GCB_LV || gcb == ND_GCB_LVT;
    if (flags & (ND_CP_PICTOGRAPH | ND_CP_IGNORABLE))
        return ND_POINT_UNKNOWN;
    if (flags & ND_CP_MARK)
        return ND_POINT_MARK;
    if (!ordinary && gcb != ND_GCB_CR && gcb != ND_GCB_LF && gcb != ND_GCB_CONTROL)
        return ND_POINT_UNKNOWN;
    if ((flags & (ND_CP_LETTER | ND_CP_NUMBER)) == 0)
        return ND_POINT_SEPARATOR;
    return flags & ND_CP_UNSPACED ? ND_POINT_UNSPACED : ND_POINT_LETTER;
}

/* The code point as normalised and folded, with its kind, or ND_POINT_ODD. *last_class: combining class of the one before. */
static inline uint32_t point_of(const nd_rules *rules, uint32_t code_point, uint32_t *last_class)
{
    const int32_t form = rules->form;
    const uint32_t unstable = nd_stable_mask(form);
    uint32_t record = nd_unicode_record(code_point), flag = ND_POINT_CUT;
    uint32_t combining_class = 0;
    if (record & unstable) {
        combining_class = nd_record_class(record);
        if (record & 1u << (ND_RECORD_CHECK_SHIFT + form)) {
            uint32_t decomposed[18];
            if (nd_unicode_decompose(form == ND_NORMALIZE_NFKC, code_point, decomposed) != 1)
                return ND_POINT_ODD;
            code_point = decomposed[0];
            record = nd_unicode_record(code_point);
            if (record & unstable)
                return ND_POINT_ODD;
            combining_class = 0;
        } else if (combining_class < *last_class) {
            return ND_POINT_ODD;
        } else {
            flag = 0;
        }
    }
    *last_class = combining_class;
    if (rules->spec.fold != ND_CASE_NONE) {
        const uint32_t single = nd_unicode_case_single(rules->spec.fold == ND_CASE_FOLD, code_point);
        if (single != code_point) {
            record = nd_unicode_record(single);
            if (single == 0 || flag == 0 || record & unstable)
                return ND_POINT_ODD;
            code_point = single;
        }
    }
    return code_point | kind_of(record) | flag;
}

/* ---- tables --------------------------------------------------------------------------------------------------------------- */

#define PAGE_ODD (ND_PAGES - 1)
#define PAGE_LETTERS (ND_PAGES - 2)
#define PAGE_UNSPACED (ND_PAGES - 3)

/* Code points with pages of their own, and those of which all are the same under every rule: stable, without case, of one kind and
 * of one class of graphemes. Whole pages; what is in none is looked up step by step (point_of). */
static const struct range {
    uint32_t first, end, page; /* page 0: its own */
} ranges[] = {
    {0x0000, 0x1100, 0},             /* alphabets up to Georgian */
    {0x1E00, 0x2200, 0},             /* Latin and Greek letters with accents, punctuation, currencies, arrows */
    {0x3000, 0x3100, 0},             /* CJK punctuation, kana */
    {0x3400, 0x4DC0, PAGE_UNSPACED}, /* CJK Unified Ideographs, Extension A */
    {0x4E00, 0xA000, PAGE_UNSPACED}, /* CJK Unified Ideographs */
    {0xAC00, 0xD780, PAGE_LETTERS},  /* Hangul syllables, */
    {0xD780, 0xD7C0, 0},             /* and their last page */
    {0xFF00, 0xFFC0, 0},             /* full-width forms */
};

static void fill_page(nd_rules *rules, uint32_t page, uint32_t first)
{
    for (uint32_t i = 0; i < ND_PAGE_SIZE; i++) {
        uint32_t last_class = 0;
        const uint32_t point = point_of(rules, first + i, &last_class);
        rules->points[page][i] = point == ND_POINT_ODD ? point : point ^ (first + i);
    }
}

static uint32_t point_in_table(const nd_rules *rules, uint32_t code_point)
{
    return rules->points[rules->page_of[code_point >> ND_PAGE_SHIFT]][code_point % ND_PAGE_SIZE] ^ code_point;
}

/* 1 if a code point becomes separators alone, between which and around which the text may be cut. */
static int is_punctuation(const nd_rules *rules, uint32_t code_point)
{
    uint32_t parts[18] = {code_point};
    size_t count = 1;
    if (rules->form != ND_NORMALIZE_NONE)
        count = nd_unicode_decompose(rules->form == ND_NORMALIZE_NFKC, code_point, parts);
    for (size_t i = 0; i < count; i++) {
        uint32_t last_class = 0;
        const uint32_t point = point_of(rules, parts[i], &last_class);
        if (point == ND_POINT_ODD || !(point & ND_POINT_SEPARATOR) || !(point & ND_POINT_CUT))
            return 0;
    }
    return 1;
}

/* What the kernel may know of a code point: what becomes as many bytes, of which the first are the same where they are three. */
static void fill_letter(const nd_rules *rules, nd_letter_page *page, uint32_t code_point)
{
    const uint32_t point = point_in_table(rules, code_point), value = point & ND_POINT_VALUE, low = code_point % ND_PAGE_SIZE;
    const uint32_t block = value >> ND_PAGE_SHIFT;
    const int ascii = code_point < 0x80, two = !ascii && code_point < ND_TWO_BYTE_LIMIT;
    const int fits = ascii || (two ? block - 2 < 30 : block == code_point >> ND_PAGE_SHIFT);
    page->trail[low] = (uint8_t)(0x80 | value % ND_PAGE_SIZE);
    page->lead[low] = (uint8_t)(ascii ? value : 0xC0 | (block & 0x1F));
    if (point & ND_POINT_ODD)
        page->kind[low] = is_punctuation(rules, code_point) ? ND_LETTER_SEPARATES : ND_LETTER_OTHER;
    else if ((point & ND_POINT_SEPARATOR) && (point & ND_POINT_CUT))
        page->kind[low] = ND_LETTER_SEPARATES;
    else if (!fits)
        page->kind[low] = ND_LETTER_OTHER;
    else if ((point & ND_POINT_LETTER) && (point & ND_POINT_CUT))
        page->kind[low] = ND_LETTER_BEGINS;
    else if ((point & ND_POINT_UNSPACED) && value == code_point && code_point >= ND_TWO_BYTE_LIMIT)
        page->kind[low] = ND_LETTER_ALONE;
    else if (point & ND_POINT_MARK)
        page->kind[low] = point & ND_POINT_CUT ? ND_LETTER_CONTINUES : ND_LETTER_CONTINUES | ND_LETTER_BOUND;
}

static void fill_letters(nd_rules *rules)
{
    nd_letters *const letters = &rules->letters;
    memcpy(letters->page_of, rules->page_of, sizeof letters->page_of);
    for (uint32_t code_point = 0; code_point < ND_PAGE_LIMIT; code_point++) {
        const uint32_t page = rules->page_of[code_point >> ND_PAGE_SHIFT];
        if (page != PAGE_ODD && page != PAGE_LETTERS && page != PAGE_UNSPACED)
            fill_letter(rules, &letters->pages[page], code_point);
        else
            code_point |= ND_PAGE_SIZE - 1;
    }
    for (uint32_t i = 0; i < ND_TWO_BYTE_LIMIT; i++) {
        const nd_letter_page *const page = &letters->pages[i >> ND_PAGE_SHIFT];
        const uint32_t low = i % ND_PAGE_SIZE, trail = i < 0x80 ? 0 : (uint32_t)page->trail[low] << 8;
        letters->short_ones[i] = page->kind[low] == ND_LETTER_BEGINS      ? page->lead[low] | trail
                                 : page->kind[low] == ND_LETTER_SEPARATES ? 0
                                                                          : ND_LETTER_NOT_SHORT;
    }
    for (uint32_t i = 0; i < ND_PAGE_SIZE; i++) {
        letters->pages[PAGE_LETTERS].kind[i] = ND_LETTER_BEGINS;
        letters->pages[PAGE_UNSPACED].kind[i] = ND_LETTER_ALONE;
        letters->pages[PAGE_LETTERS].trail[i] = letters->pages[PAGE_UNSPACED].trail[i] = (uint8_t)(0x80 | i);
    }
}

void nd_rules_fill_points(nd_rules *rules)
{
    memset(rules->page_of, PAGE_ODD, sizeof rules->page_of);
    for (uint32_t i = 0; i < ND_PAGE_SIZE; i++) {
        rules->points[PAGE_ODD][i] = ND_POINT_ODD;
        rules->points[PAGE_LETTERS][i] = ND_POINT_LETTER | ND_POINT_CUT;
        rules->points[PAGE_UNSPACED][i] = ND_POINT_UNSPACED | ND_POINT_CUT;
    }
    uint32_t pages = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        for (uint32_t first = ranges[i].first; first < ranges[i].end; first += ND_PAGE_SIZE) {
            const uint32_t page = ranges[i].page != 0 ? ranges[i].page : pages++;
            rules->page_of[first >> ND_PAGE_SHIFT] = (uint8_t)page;
            if (ranges[i].page == 0)
                fill_page(rules, page, first);
        }
    fill_letters(rules);
}

/* ---- decoding ------------------------------------------------------------------------------------------------------------- */

/* How a code point is read, by the upper half of its first byte. */
static const struct sequence {
    uint32_t mask, shift, least; /* of the first byte; of all three; the smallest that takes so many bytes */
    size_t length;               /* 0: none of one to three bytes */
} sequences[16] = {
    [0x0 ... 0x7] = {0x7F, 12, 0, 1},
    [0xC ... 0xD] = {0x1F, 6, 0x80, 2},
    [0xE] = {0x0F, 0, 0x800, 3},
};

/* Of what the tables do not say. */
static uint32_t other_point(const nd_rules *rules, const uint8_t *text, size_t length, uint32_t last)
{
    size_t read = 0;
    const uint32_t code_point = nd_utf8_next(text, length, &read);
    uint32_t last_class = last & ND_POINT_CUT ? 0 : nd_record_class(nd_unicode_record(last & ND_POINT_VALUE));
    return read != length || code_point == ND_REPLACEMENT ? ND_POINT_ODD : point_of(rules, code_point, &last_class);
}

/* The point of the `length` bytes from one lead byte to the next, after the point `last`; four bytes can be read. */
static inline uint32_t point_at(const nd_rules *rules, const uint8_t *text, size_t length, uint32_t last)
{
    uint32_t bytes;
    memcpy(&bytes, text, sizeof bytes);
    const struct sequence *const as = &sequences[bytes >> 4 & 0xF];
    const uint32_t code_point = ((bytes & as->mask) << 12 | (bytes >> 8 & 0x3F) << 6 | (bytes >> 16 & 0x3F)) >> as->shift;
    const uint32_t point = point_in_table(rules, code_point);
    if (as->length != length || code_point < as->least || (point & ND_POINT_ODD) || !((point | last) & ND_POINT_CUT))
        return other_point(rules, text, length, last);
    return point;
}

/* Which of ND_WINDOW bytes are no continuation bytes. */
static inline uint32_t starts_in(const uint8_t *window)
{
    uint32_t starts = 0;
    for (size_t i = 0; i < ND_WINDOW; i += 8) {
        uint64_t word;
        memcpy(&word, window + i, sizeof word);
        const uint64_t high = 0x8080808080808080U, first = (~word | word << 1) & high;
        starts |= (uint32_t)((first >> 7) * 0x0102040810204080U >> 56) << i;
    }
    return starts;
}

int nd_text_decode_points(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, size_t *at)
{
    work->points.count = 0;
    ND_TRY(ND_ROOM(work->points, ND_POINT_BATCH));
    uint32_t *const points = work->points.at;
    uint32_t last = ND_POINT_CUT;
    size_t count = 0, here = *at, taken = 1;
    while (here < size && taken > 0 && count + ND_WINDOW <= ND_POINT_BATCH) {
        const size_t left = size - here;
        const uint8_t *window = text + here;
        uint8_t rest[ND_WINDOW + 4];
        if (left < sizeof rest) {
            memset(rest, 0, sizeof rest);
            window = memcpy(rest, window, left);
        } else if (here > *at && nd_window_is_ascii(window)) {
            break;
        }
        uint32_t starts = starts_in(window);
        if (left < ND_WINDOW)
            starts = (starts & ((1u << left) - 1)) | 1u << left;
        int odd = !(starts & 1);
        for (taken = 0; !odd && (starts &= starts - 1) != 0;) { /* up to the last lead byte, or to the end of the text */
            const size_t next = (size_t)__builtin_ctz(starts);
            const uint32_t point = point_at(rules, window + taken, next - taken, last);
            odd = point == ND_POINT_ODD;
            if (!odd) {
                points[count++] = last = point;
                taken = next;
            }
        }
        here += taken;
        if (odd)
            break;
    }
    while (here < size && count > 0) { /* the last one that may be cut before, and what follows it */
        do
            here--;
        while (nd_utf8_is_continuation(text[here]));
        if (points[--count] & ND_POINT_CUT)
            break;
    }
    work->points.count = count;
    *at = here;
    return ND_OK;
}
