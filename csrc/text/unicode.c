/* unicode.c: properties, case mappings and normal forms (UAX #15) of the release that unicode_data.h
 * names. Nothing here allocates, nothing depends on the locale, every 32-bit value is accepted. */
#include "core.h"
#include "text/unicode.h"

const char *nd_unicode_version(void)
{
    return ND_UNICODE_VERSION;
}

/* ---- properties --------------------------------------------------------------------------------------------------- */

uint32_t nd_unicode_properties(uint32_t code_point)
{
    const uint32_t record = nd_unicode_record(code_point);
    return nd_record_flags(record) | nd_record_break(record) << 8 | nd_record_class(record) << 16;
}

size_t nd_unicode_case(int32_t fold, uint32_t code_point, uint32_t out[3])
{
    out[0] = code_point;
    if (fold != ND_CASE_LOWER && fold != ND_CASE_FOLD)
        return 1;
    const int folded = fold == ND_CASE_FOLD;
    const nd_case_record *record = nd_case_record_of(code_point);
    if (record->sequence[folded] == 0) {
        out[0] = code_point + (uint32_t)record->delta[folded];
        return 1;
    }
    const size_t place = record->sequence[folded];
    const size_t length = nd_case_sequence[place];
    for (size_t i = 0; i < length; i++)
        out[i] = nd_case_sequence[place + 1 + i];
    return length;
}

/* ---- decomposition and composition of one ------------------------------------------------------------------------- */

/* Hangul syllables are leading consonant, vowel and an optional trailing consonant, counted through (Unicode, section 3.12). */
#define HANGUL_BASE 0xAC00u
#define LEAD_BASE 0x1100u
#define VOWEL_BASE 0x1161u
#define TRAIL_BASE 0x11A7u /* one before the first: number 0 is "none" */
#define LEAD_COUNT 19u
#define VOWEL_COUNT 21u
#define TRAIL_COUNT 28u
#define HANGUL_COUNT (LEAD_COUNT * VOWEL_COUNT * TRAIL_COUNT)

static size_t decompose_hangul(uint32_t syllable, uint32_t out[18])
{
    out[0] = LEAD_BASE + syllable / (VOWEL_COUNT * TRAIL_COUNT);
    out[1] = VOWEL_BASE + syllable / TRAIL_COUNT % VOWEL_COUNT;
    out[2] = TRAIL_BASE + syllable % TRAIL_COUNT;
    return out[2] == TRAIL_BASE ? 2 : 3;
}

size_t nd_unicode_decompose(int32_t compatible, uint32_t code_point, uint32_t out[18])
{
    out[0] = code_point;
    if (code_point < 0xA0 || code_point >= ND_DECOMPOSITION_LIMIT)
        return 1;
    if (code_point - HANGUL_BASE < HANGUL_COUNT)
        return decompose_hangul(code_point - HANGUL_BASE, out);
    const size_t block = nd_decomposition_stage1[code_point >> ND_DECOMPOSITION_SHIFT];
    const uint32_t low = code_point & ((1u << ND_DECOMPOSITION_SHIFT) - 1u);
    const uint16_t *entry = nd_decomposition_data + nd_decomposition_stage2[block << ND_DECOMPOSITION_SHIFT | low];
    const uint16_t *unit = entry + 1;
    size_t units = entry[0] & 0xFFu;
    if (compatible && entry[0] >> 8) {
        unit += units;
        units = entry[0] >> 8;
    }
    const uint16_t *end = unit + units;
    size_t count = 0;
    while (unit < end) {
        uint32_t value = *unit++;
        if (value - 0xD800u < 0x400u)
            value = 0x10000u + ((value - 0xD800u) << 10) + (*unit++ - 0xDC00u);
        out[count++] = value;
    }
    return count ? count : 1;
}

uint32_t nd_unicode_compose(uint32_t first, uint32_t second)
{
    if (first - LEAD_BASE < LEAD_COUNT && second - VOWEL_BASE < VOWEL_COUNT)
        return HANGUL_BASE + ((first - LEAD_BASE) * VOWEL_COUNT + (second - VOWEL_BASE)) * TRAIL_COUNT;
    if (first - HANGUL_BASE < HANGUL_COUNT && (first - HANGUL_BASE) % TRAIL_COUNT == 0 &&
        second - TRAIL_BASE - 1 < TRAIL_COUNT - 1)
        return first + (second - TRAIL_BASE);
    size_t low = 0;
    size_t high = ND_COMPOSITION_COUNT;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const nd_composition *pair = &nd_compositions[middle];
        if (pair->first < first || (pair->first == first && pair->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < ND_COMPOSITION_COUNT && nd_compositions[low].first == first && nd_compositions[low].second == second)
        return nd_compositions[low].composite;
    return 0;
}

/* ---- normal forms of a sequence ------------------------------------------------------------------------------------ */

size_t nd_unicode_normal_prefix(int32_t form, const uint32_t *code_points, size_t count)
{
    if (form == ND_NORMALIZE_NONE)
        return count;
    const uint32_t unstable = nd_stable_mask(form);
    const uint32_t check = 1u << (ND_RECORD_CHECK_SHIFT + form);
    size_t boundary = 0;
    uint32_t last_class = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t record = code_points[i] < 0x80 ? 0 : nd_unicode_record(code_points[i]);
        if ((record & unstable) == 0) {
            boundary = i;
            last_class = 0;
            continue;
        }
        const uint32_t combining_class = nd_record_class(record);
        if (record & check || combining_class < last_class)
            return boundary;
        last_class = combining_class;
    }
    return count;
}

/* A run of code points with combining class above 0 within a decomposed segment. */
typedef struct mark_run {
    size_t start;    /* place in the output */
    size_t in_index; /* the code point of the input in whose decomposition it starts */
    size_t in_skip;  /* after that many code points of that decomposition */
} mark_run;

#define SHORT_RUN 32

/* Stable insertion sort by combining class; count <= SHORT_RUN. */
static void order_short_run(uint32_t *marks, size_t count)
{
    uint32_t classes[SHORT_RUN];
    for (size_t i = 0; i < count; i++) {
        const uint32_t mark = marks[i];
        const uint32_t combining_class = nd_record_class(nd_unicode_record(mark));
        size_t place = i;
        for (; place > 0 && classes[place - 1] > combining_class; place--) {
            classes[place] = classes[place - 1];
            marks[place] = marks[place - 1];
        }
        classes[place] = combining_class;
        marks[place] = mark;
    }
}

/* The same for a run of any length in linear time: a counting sort. It needs the unsorted marks a second time while it writes
 * the sorted ones; they are taken from the input again, so that there is no buffer. */
static void order_long_run(int32_t compatible, const uint32_t *in, const mark_run *run, uint32_t *marks, size_t count)
{
    size_t place[256] = {0};
    for (size_t i = 0; i < count; i++)
        place[nd_record_class(nd_unicode_record(marks[i]))]++;
    size_t before = 0;
    for (size_t i = 0; i < 256; i++) {
        const size_t of_class = place[i];
        place[i] = before;
        before += of_class;
    }
    size_t left = count;
    size_t skip = run->in_skip;
    for (const uint32_t *source = in + run->in_index; left > 0; source++) {
        uint32_t parts[18];
        const size_t part_count = nd_unicode_decompose(compatible, *source, parts);
        for (size_t i = skip; i < part_count && left > 0; i++, left--)
            marks[place[nd_record_class(nd_unicode_record(parts[i]))]++] = parts[i];
        skip = 0;
    }
}

static void order_run(int32_t compatible, const uint32_t *in, const mark_run *run, uint32_t *out, size_t end)
{
    if (end - run->start <= SHORT_RUN)
        order_short_run(out + run->start, end - run->start);
    else
        order_long_run(compatible, in, run, out + run->start, end - run->start);
}

/* Full decomposition in canonical order. *length is what was written; ND_ERROR_CAPACITY if that is not all. */
static int decompose_segment(int32_t compatible, const uint32_t *in, size_t count, uint32_t *out, size_t capacity, size_t *length)
{
    mark_run run = {0, 0, 0};
    size_t written = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t parts[18];
        const size_t part_count = nd_unicode_decompose(compatible, in[i], parts);
        if (part_count > capacity - written)
            return ND_ERROR_CAPACITY;
        for (size_t j = 0; j < part_count; j++) {
            if (nd_record_class(nd_unicode_record(parts[j])) == 0) {
                order_run(compatible, in, &run, out, written);
                run = (mark_run){written + 1, i, j + 1};
            }
            out[written++] = parts[j];
        }
    }
    order_run(compatible, in, &run, out, written);
    *length = written;
    return ND_OK;
}

/* Canonical composition in place; returns the length left. A code point composes with the last starter unless something with
 * the same or a higher class, or any other starter, was left between them. */
static size_t compose_segment(uint32_t *code_points, size_t count)
{
    size_t starter = SIZE_MAX; /* place of the last code point of class 0 */
    int last_class = -1;       /* of the last one left after it; -1 while there is none */
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t record = nd_unicode_record(code_points[i]);
        const int combining_class = (int)nd_record_class(record);
        if (record >> ND_RECORD_SECOND_BIT & 1u && starter != SIZE_MAX && last_class < combining_class) {
            const uint32_t composite = nd_unicode_compose(code_points[starter], code_points[i]);
            if (composite) {
                code_points[starter] = composite;
                continue;
            }
        }
        if (combining_class == 0)
            starter = length;
        last_class = combining_class == 0 ? -1 : combining_class;
        code_points[length++] = code_points[i];
    }
    return length;
}

static size_t decomposed_length(int32_t compatible, const uint32_t *in, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t parts[18];
        length += nd_unicode_decompose(compatible, in[i], parts);
    }
    return length;
}

/* Stretches that pass the quick check are copied; what lies between, from one stable code point to the next, is decomposed into
 * the output, ordered and composed there. So the composing forms want room for the decomposition of such a stretch, and if it is
 * missing *out_count becomes a capacity that is enough: what has been written and the decomposition of all that follows. */
int nd_unicode_normalize(int32_t form, const uint32_t *in, size_t count, uint32_t *out, size_t capacity, size_t *out_count)
{
    *out_count = 0;
    if (form < ND_NORMALIZE_NONE || form > ND_NORMALIZE_NFKD)
        return ND_ERROR_PARAMETER;
    const int32_t compatible = form == ND_NORMALIZE_NFKC || form == ND_NORMALIZE_NFKD;
    const int composing = form == ND_NORMALIZE_NFC || form == ND_NORMALIZE_NFKC;
    size_t read = 0;
    size_t written = 0;
    while (read < count) {
        const size_t prefix = nd_unicode_normal_prefix(form, in + read, count - read);
        if (prefix > capacity - written)
            break;
        if (prefix > 0)
            memcpy(out + written, in + read, prefix * sizeof *out);
        read += prefix;
        written += prefix;
        if (read == count || written == capacity) /* nothing is added to `out` where it may be NULL */
            break;
        size_t end = read + 1;
        while (end < count && !nd_unicode_is_stable(form, in[end]))
            end++;
        size_t length = 0;
        if (decompose_segment(compatible, in + read, end - read, out + written, capacity - written, &length) != ND_OK)
            break;
        written += composing ? compose_segment(out + written, length) : length;
        read = end;
    }
    if (read == count) {
        *out_count = written;
        return ND_OK;
    }
    *out_count = written + (form == ND_NORMALIZE_NONE ? count : decomposed_length(compatible, in + read, count - read));
    return ND_ERROR_CAPACITY;
}
