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
    const uint32_t special = flags & (ND_CP_MARK | ND_CP_PICTOGRAPH | ND_CP_IGNORABLE);
    if (special != 0 || (!ordinary && gcb != ND_GCB_CR && gcb != ND_GCB_LF && gcb != ND_GCB_CONTROL))
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

/* Ranges of which every code point is the same under every rule: stable, without case, of one kind, and of one class of graphemes.
 * The tables say so; here it is said once more so that no table is read for them. */
static inline uint32_t kind_of_range(uint32_t code_point)
{
    if (code_point - 0x4E00 < 0x5200 || code_point - 0x3400 < 0x19C0) /* CJK Unified Ideographs, Extension A */
        return ND_POINT_UNSPACED;
    if (code_point - 0x3041 < 0x56 || code_point - 0x30A1 < 0x5A) /* Hiragana, Katakana: without marks and punctuation */
        return ND_POINT_UNSPACED;
    return code_point - 0xAC00 < 11172 ? ND_POINT_LETTER : 0; /* Hangul Syllables */
}

void nd_rules_fill_points(nd_rules *rules)
{
    for (uint32_t code_point = 0; code_point < ND_POINT_TABLE; code_point++) {
        uint32_t last_class = 0;
        const uint32_t point = point_of(rules, code_point, &last_class);
        /* A mark is for the loop that knows the class of the one before; three bytes are not for the loop over two. */
        const int fits = last_class == 0 && (point & ND_POINT_VALUE) < ND_POINT_TABLE;
        rules->points[code_point] = fits ? point : ND_POINT_ODD;
    }
}

int nd_text_decode_points(nd_text *work, const nd_rules *rules, const uint8_t *text, size_t size, int until, size_t *at)
{
    work->points.count = 0;
    const int status = nd_code_points_reserve(&work->points, ND_POINT_BATCH);
    if (status != ND_OK)
        return status;
    uint32_t *const points = work->points.items;
    const uint32_t *const table = rules->points;
    uint32_t last_class = 0;
    size_t count = 0, cut = 0, here = *at, cut_at = *at, window = *at + ND_ASCII_RUN / 2;
    while (here < size && count < ND_POINT_BATCH) {
        if (here >= window) {
            window = here + ND_ASCII_RUN / 2;
            if (size - here >= ND_ASCII_RUN && nd_window_of(text + here) <= until)
                break;
        }
        const uint32_t three = size - here >= 4 ? nd_utf8_three(text + here) : 0;
        const uint32_t kind = kind_of_range(three);
        if (kind != 0) {
            last_class = 0;
            cut = count;
            cut_at = here;
            points[count++] = three | kind | ND_POINT_CUT;
            here += 3;
            continue;
        }
        size_t next = here;
        const uint32_t code_point = nd_utf8_next(text, size, &next);
        uint32_t point = code_point < ND_POINT_TABLE ? table[code_point] : ND_POINT_ODD;
        if (point & ND_POINT_CUT)
            last_class = 0;
        else
            point = point_of(rules, code_point, &last_class);
        if (point == ND_POINT_ODD)
            break;
        if (point & ND_POINT_CUT) {
            cut = count;
            cut_at = here;
        }
        points[count++] = point;
        here = next;
    }
    work->points.count = here == size ? count : cut;
    *at = here == size ? size : cut_at;
    return ND_OK;
}
