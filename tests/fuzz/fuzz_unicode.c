/* fuzz_unicode.c: any sequence of 32-bit values as code points: normal forms, case; and the same as UTF-8 through
 * the text rules, whose ways past single steps must come to what the steps give. */
#include "fuzz.h"

#define POINTS_MAX 256
#define ROOM (POINTS_MAX * 18 * 3 + 64)

typedef struct points {
    uint32_t items[ROOM];
    size_t count;
} points;

/* By the protocol: the count needed, then exactly that much room. */
static void normalize(int32_t form, const points *in, points *out)
{
    size_t needed, count;
    int status = nd_unicode_normalize(form, in->items, in->count, NULL, 0, &needed);
    PROMISE(status == (needed == 0 ? ND_OK : ND_ERROR_CAPACITY) && needed <= ROOM);
    uint32_t *exact = (uint32_t *)(void *)guarded(needed * sizeof *exact, 0);
    PROMISE(nd_unicode_normalize(form, in->items, in->count, exact, needed, &count) == ND_OK && count <= needed);
    memcpy(out->items, exact, count * sizeof *exact);
    out->count = count;
    free_guarded(exact, 0);
}

static int same(const points *a, const points *b)
{
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof a->items[0]) == 0;
}

/* Each form is stable, and the composed form may be taken from the decomposed one and the other way round (UAX #15). */
static void check_forms(const points *in, int32_t composed, int32_t decomposed)
{
    static points c, d, again;
    normalize(composed, in, &c);
    normalize(decomposed, in, &d);
    normalize(composed, &c, &again);
    PROMISE(same(&c, &again));
    normalize(decomposed, &d, &again);
    PROMISE(same(&d, &again));
    normalize(composed, &d, &again);
    PROMISE(same(&c, &again));
    normalize(decomposed, &c, &again);
    PROMISE(same(&d, &again));
}

static void map_case(int32_t fold, const points *in, points *out)
{
    out->count = 0;
    for (size_t i = 0; i < in->count; i++) {
        uint32_t mapped[3];
        const size_t count = nd_unicode_case(fold, in->items[i], mapped);
        PROMISE(count >= 1 && count <= 3);
        memcpy(out->items + out->count, mapped, count * sizeof mapped[0]);
        out->count += count;
    }
}

static void check_single(uint32_t code_point)
{
    uint32_t parts[18], all[18];
    const uint32_t properties = nd_unicode_properties(code_point);
    PROMISE((properties & 255) < 128 && (properties >> 8 & 255) <= ND_GCB_LVT && properties >> 16 < 255);
    const size_t canonical = nd_unicode_decompose(0, code_point, parts), compatible = nd_unicode_decompose(1, code_point, all);
    PROMISE(canonical >= 1 && canonical <= 18 && compatible >= 1 && compatible <= 18);
    if (code_point > 0x10FFFF)
        PROMISE(canonical == 1 && parts[0] == code_point && compatible == 1 && all[0] == code_point);
}

/* ---- through the text rules -------------------------------------------------------------------------------------------------- */

static size_t put_utf8(uint32_t c, uint8_t *out)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

static size_t encode(const points *in, uint8_t *out)
{
    size_t size = 0;
    for (size_t i = 0; i < in->count; i++)
        size += put_utf8(in->items[i], out + size);
    return size;
}

/* What the rules say, step by step: normalise, map case, normalise again, drop the ignorable ones. */
static void by_steps(const nd_rules_spec *spec, const points *in, points *out)
{
    static points normal, mapped;
    if (spec->normalize == ND_NORMALIZE_NONE)
        normal = *in;
    else
        normalize(spec->normalize, in, &normal);
    map_case(spec->fold, &normal, &mapped);
    if (spec->normalize == ND_NORMALIZE_NONE)
        *out = mapped;
    else
        normalize(spec->normalize, &mapped, out);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        out->items[kept] = out->items[i];
        kept += (nd_unicode_properties(out->items[i]) & ND_CP_IGNORABLE) == 0;
    }
    out->count = kept;
}

static void check_rules(const nd_rules_spec *spec, const points *in)
{
    static points expected;
    static uint8_t text[4 * ROOM], wanted[4 * ROOM];
    const uint8_t *out;
    size_t out_size;
    nd_rules *rules;
    nd_text *work = nd_text_new();
    PROMISE(work != NULL && nd_rules_new(spec, &rules) == ND_OK);
    by_steps(spec, in, &expected);
    const size_t wanted_size = encode(&expected, wanted), size = encode(in, text);
    uint8_t *exact = guarded(size, size % 4);
    memcpy(exact, text, size);
    EACH_TIER(tier)
    {
        PROMISE(nd_text_normalize(work, rules, exact, size, &out, &out_size) == ND_OK);
        PROMISE(out_size == wanted_size && memcmp(out, wanted, out_size) == 0);
        PROMISE(nd_text_tokenize(work, rules, exact, size) == ND_OK);
    }
    free_guarded(exact, size % 4);
    nd_text_free(work);
    nd_rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static points raw, valid, mapped, again;
    input from = {data, size};
    nd_rules_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.normalize = 2 - (int32_t)take_choice(&from, 3);
    spec.fold = 2 - (int32_t)take_choice(&from, 3);
    spec.tokens = (int32_t)take_choice(&from, 2);
    spec.nonword = ND_NONWORD_KEEP;
    spec.shingle = 1;
    raw.count = valid.count = from.size / 4 < POINTS_MAX ? from.size / 4 : POINTS_MAX;
    memcpy(raw.items, from.data, 4 * raw.count);
    for (size_t i = 0; i < raw.count; i++) {
        const uint32_t c = raw.items[i] % 0x110000;
        check_single(raw.items[i]);
        valid.items[i] = c >= 0xD800 && c < 0xE000 ? 0xFFFD : c;
    }
    check_forms(&raw, ND_NORMALIZE_NFC, ND_NORMALIZE_NFD);
    check_forms(&raw, ND_NORMALIZE_NFKC, ND_NORMALIZE_NFKD);
    for (int32_t fold = ND_CASE_NONE; fold <= ND_CASE_FOLD; fold++) {
        map_case(fold, &raw, &mapped);
        map_case(fold, &mapped, &again);
        PROMISE(same(&mapped, &again));
    }
    check_rules(&spec, &valid);
    return 0;
}
