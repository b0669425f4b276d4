/* fuzz_joins.c: all pairs of codes and of sets, whatever the codes, the sets, the threshold and the plan: those of comparing each
 * with each. And arrays that are no sets, which are refused. */
#include "fuzz.h"
#include "joins/joins.h"

#define CODES_MAX 100
#define SETS_MAX 64

static size_t common_of(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count)
{
    size_t common = 0;
    for (size_t i = 0; i < a_count; i++)
        for (size_t j = 0; j < b_count; j++)
            common += a[i] == b[j];
    return common;
}

/* The pairs that are to come out, in their order. */
typedef struct expected {
    size_t count;
    int64_t ids[CODES_MAX * CODES_MAX];
    double similarities[CODES_MAX * CODES_MAX / 2];
} expected;

static expected wanted;

static void expect(size_t i, size_t j, double similarity)
{
    wanted.ids[2 * wanted.count] = (int64_t)i;
    wanted.ids[2 * wanted.count + 1] = (int64_t)j;
    wanted.similarities[wanted.count++] = similarity;
}

static void check_pairs(const nd_pairs *got, int with_similarities)
{
    PROMISE(got->count == wanted.count);
    for (size_t i = 0; i < wanted.count; i++) {
        PROMISE(got->ids[2 * i] == wanted.ids[2 * i] && got->ids[2 * i + 1] == wanted.ids[2 * i + 1]);
        PROMISE(!with_similarities || got->similarities[i] == wanted.similarities[i]);
    }
}

/* ---- codes ------------------------------------------------------------------------------------------------------------------- */

/* Each code is one of the first few, as they stand in the input, with a few bits changed: so there are pairs. */
static uint8_t *take_codes(input *from, size_t size, size_t *count, size_t skew)
{
    const size_t bases = 1 + take_choice(from, 8);
    *count = take_byte(from) % (CODES_MAX + 1);
    uint8_t *codes = guarded(*count * size, skew);
    for (size_t i = 0; i < *count; i++) {
        uint8_t *code = codes + i * size;
        for (size_t j = 0; j < size; j++)
            code[j] = i < bases ? (from->size > 0 ? from->data[(i * size + j) % from->size] : 0) : codes[i % bases * size + j];
        for (size_t flips = i < bases ? 0 : take_choice(from, 8); flips > 0; flips--) {
            const size_t bit = take_number(from, 2) % (8 * size);
            code[bit / 8] = (uint8_t)(code[bit / 8] ^ 1 << bit % 8);
        }
    }
    return codes;
}

static void check_codes(input *from, unsigned fail_after)
{
    static const size_t widths[] = {64, 8, 16, 24, 32, 72, 128, 192, 256, 264, 512, 4096};
    const size_t bits = widths[take_choice(from, sizeof widths / sizeof widths[0])], size = bits / 8, skew = take_choice(from, 8);
    const size_t distance = take_choice(from, 4) == 0 ? take_number(from, 2) % (bits + 10) : take_choice(from, 8);
    size_t count;
    uint8_t *codes = take_codes(from, size, &count, skew);
    wanted.count = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            size_t differing = 0;
            for (size_t k = 0; k < size; k++)
                differing += (size_t)__builtin_popcount((unsigned)codes[i * size + k] ^ codes[j * size + k]);
            if (differing <= distance)
                expect(i, j, 0);
        }
    nd_pairs *pairs = nd_pairs_new();
    PROMISE(pairs != NULL);
    if (fail_after > 0) {
        fuzz_fail_allocations(fail_after - 1, fail_after % 2 == 0);
        if (nd_find_all(codes, count, SIZE_MAX, bits, distance, pairs) != ND_OK)
            PROMISE(pairs->count == 0);
        fuzz_allow_allocations();
    } else {
        EACH_TIER(tier)
        {
            PROMISE(nd_find_all(codes, count, SIZE_MAX, bits, distance, pairs) == ND_OK);
            check_pairs(pairs, 0);
        }
    }
    nd_pairs_free(pairs);
    free_guarded(codes, skew);
}

/* ---- sets -------------------------------------------------------------------------------------------------------------------- */

typedef struct sets {
    uint64_t *values, *ends;
    size_t count;
    int valid;
} sets;

/* Ascending steps from the input, small ones mostly, so that the sets have values in common; `broken` puts something wrong in. */
static sets take_sets(input *from, int broken)
{
    sets out = {NULL, NULL, take_byte(from) % (SETS_MAX + 1), 1};
    const size_t longest = 1 + take_byte(from) % 64, spread = 1 + take_choice(from, 8), far = take_choice(from, 8);
    static uint64_t values[SETS_MAX * 64];
    size_t total = 0;
    out.ends = (uint64_t *)(void *)guarded(out.count * sizeof *out.ends, 0);
    for (size_t i = 0; i < out.count; i++) {
        const size_t length = take_byte(from) % (longest + 1);
        uint64_t value = take_choice(from, 4) == 0 ? take_number(from, 1) : 0;
        for (size_t j = 0; j < length; j++) {
            const uint64_t step = take_byte(from);
            value += 1 + (step < 250 ? step % spread : step << 8 * far);
            values[total++] = value;
        }
        out.ends[i] = total;
    }
    if (broken && total > 0)
        values[take_number(from, 2) % total] = take_number(from, 8);
    if (broken && out.count > 1 && take_choice(from, 2) == 0)
        out.ends[take_byte(from) % (out.count - 1)] = take_number(from, take_choice(from, 2) ? 8 : 1);
    out.values = (uint64_t *)(void *)guarded(total * sizeof *out.values, 0);
    memcpy(out.values, values, total * sizeof *out.values);
    for (size_t i = 0, start = 0; i < out.count; start = (size_t)out.ends[i++]) {
        out.valid = out.valid && out.ends[i] >= start && out.ends[i] <= total;
        for (size_t j = start + 1; out.valid && j < out.ends[i]; j++)
            out.valid = out.values[j - 1] < out.values[j];
        if (!out.valid)
            break;
    }
    return out;
}

static void expect_sets(const sets *from, double threshold)
{
    wanted.count = 0;
    for (size_t j = 0; j < from->count; j++)
        for (size_t i = 0; i < from->count; i++) {
            const size_t a = j > 0 ? (size_t)from->ends[j - 1] : 0, b = i > 0 ? (size_t)from->ends[i - 1] : 0;
            const size_t a_count = (size_t)from->ends[j] - a, b_count = (size_t)from->ends[i] - b;
            if (i <= j || a_count == 0 || b_count == 0)
                continue;
            const size_t common = common_of(from->values + a, a_count, from->values + b, b_count);
            const double similarity = (double)common / (double)(a_count + b_count - common);
            PROMISE(nd_jaccard(from->values + a, a_count, from->values + b, b_count, threshold) ==
                    (similarity >= threshold ? similarity : 0.0));
            if (similarity >= threshold)
                expect(j, i, similarity);
        }
}

/* Joins arrays in one piece. */
static int join_sets(const uint64_t *values, const uint64_t *ends, size_t count, size_t split, double threshold, nd_pairs *pairs)
{
    nd_set_join *join = nd_set_join_new();
    int status = join == NULL ? ND_ERROR_MEMORY : nd_set_join_begin(join, values, ends, count, split, threshold);
    if (status == ND_OK)
        status = nd_set_join_next(join, SIZE_MAX, pairs);
    nd_set_join_free(join);
    return status == ND_DONE ? ND_OK : status;
}

static void check_sets(input *from, unsigned fail_after)
{
    static const double thresholds[] = {0.5, 0.8, 1.0, 1.0 / 3, 2.0 / 3, 0.1, 1e-300, 0.9};
    double threshold = thresholds[take_choice(from, 8)];
    const int broken = take_choice(from, 8) == 7;
    if (take_choice(from, 8) == 7) {
        const uint64_t pattern = take_number(from, 8);
        memcpy(&threshold, &pattern, sizeof threshold);
    }
    const sets given = take_sets(from, broken);
    const int possible = threshold > 0;
    if (given.valid && possible)
        expect_sets(&given, threshold);
    nd_pairs *pairs = nd_pairs_new();
    PROMISE(pairs != NULL);
    if (fail_after > 0) {
        fuzz_fail_allocations(fail_after - 1, fail_after % 2 == 0);
        if (join_sets(given.values, given.ends, given.count, SIZE_MAX, threshold, pairs) != ND_OK)
            PROMISE(pairs->count == 0);
        fuzz_allow_allocations();
    } else {
        EACH_TIER(tier)
        {
            const int status = join_sets(given.values, given.ends, given.count, SIZE_MAX, threshold, pairs);
            if (given.valid)
                PROMISE(status == (possible ? ND_OK : ND_ERROR_PARAMETER));
            else
                PROMISE(status != ND_OK && pairs->count == 0);
            if (status == ND_OK)
                check_pairs(pairs, 1);
        }
    }
    nd_pairs_free(pairs);
    free_guarded(given.values, 0);
    free_guarded(given.ends, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {data, size};
    const int codes = take_choice(&from, 2) == 0;
    const unsigned fail_after = take_choice(&from, 8) == 1 ? 1 + take_byte(&from) % 64u : 0;
    if (codes)
        check_codes(&from, fail_after);
    else
        check_sets(&from, fail_after);
    return 0;
}
