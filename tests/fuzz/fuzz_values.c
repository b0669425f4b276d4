/* fuzz_values.c: any bytes as stored values of any scheme: what is no value is refused, what is one has keys and a similarity, by
 * every tier the same; values made from hashes are values; what the rule accepts is found under the keys. */
#include "fuzz.h"
#include "neardup_buckets.h"
#include "schemes/schemes.h"

#define PROBES_MAX 20000

static void take_code(input *from, nd_scheme *scheme)
{
    static const int32_t bits[] = {64, 8, 16, 24, 32, 56, 72, 128, 256, 264, 1024, 4096};
    scheme->bits = bits[take_choice(from, sizeof bits / sizeof bits[0])];
    scheme->max_distance = (int32_t)take_choice(from, 40);
    scheme->plan = (int32_t)take_choice(from, 3);
    scheme->blocks = scheme->max_distance + 1 + (int32_t)take_choice(from, 8);
    scheme->chunks = 1 + take_byte(from);
}

/* Parameters that are mostly in range; raw ones where the first choice says so. */
static void take_scheme(input *from, nd_scheme *scheme)
{
    static const double thresholds[] = {0.5, 0.8, 1.0, 1e-9, 0.3, 1.0 / 3, 2.0 / 3, 0.9999999};
    const int raw = take_choice(from, 8) == 7;
    memset(scheme, 0, sizeof *scheme);
    scheme->kind = (int32_t)take_choice(from, 6);
    scheme->slot_bits = take_choice(from, 2) ? 32 : 16;
    scheme->seed = take_number(from, 2);
    scheme->threshold = thresholds[take_choice(from, 8)];
    if (raw) {
        int32_t *const fields[] = {&scheme->plan, &scheme->bits, &scheme->max_distance, &scheme->blocks, &scheme->chunks,
            &scheme->num_perm, &scheme->bands, &scheme->rows, &scheme->slot_bits, &scheme->family, &scheme->evidence, &scheme->k,
            &scheme->measure, &scheme->kind};
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            const uint32_t number = (uint32_t)take_number(from, take_choice(from, 2) ? 4 : 1);
            memcpy(fields[i], &number, sizeof number);
        }
        const uint64_t pattern = take_number(from, 8);
        memcpy(&scheme->threshold, &pattern, sizeof pattern);
    } else if (scheme->kind == ND_SCHEME_MINHASH) {
        scheme->num_perm = 1 + (int32_t)(take_number(from, 2) % 300);
        scheme->rows = 1 + (int32_t)take_choice(from, (size_t)(scheme->num_perm < 8 ? scheme->num_perm : 8));
        const int32_t most = scheme->num_perm / scheme->rows;
        scheme->bands = 1 + (int32_t)take_choice(from, (size_t)(most < 64 ? most : 64));
        scheme->plan = ND_PLAN_BANDS;
        scheme->family = (int32_t)take_choice(from, 2);
        scheme->evidence = (int32_t)take_choice(from, 3);
    } else if (scheme->kind == ND_SCHEME_BOTTOMK) {
        scheme->k = 1 + (int32_t)take_choice(from, 200);
        scheme->plan = ND_PLAN_PREFIX;
        scheme->measure = (int32_t)take_choice(from, 2);
    } else {
        take_code(from, scheme);
    }
}

static int is_hamming(const nd_scheme *scheme)
{
    return scheme->kind != ND_SCHEME_MINHASH && scheme->kind != ND_SCHEME_BOTTOMK;
}

static int holds_hashes(const nd_scheme *scheme)
{
    return scheme->kind == ND_SCHEME_BOTTOMK || (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_HASHES);
}

static int is_packed(const nd_scheme *scheme)
{
    return scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_PACKED;
}

static int compare(const void *a, const void *b)
{
    const uint64_t left = nd_load64(a), right = nd_load64(b);
    return left < right ? -1 : left > right;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

typedef struct value {
    uint8_t *bytes;
    size_t size, skew;
} value;

/* The packed set of the hashes in `of`, in its place; of those that are zeros to the 40th bit there is one. */
static void pack(value *of)
{
    uint64_t numbers[1000];
    size_t count = 0;
    qsort(of->bytes, of->size / 8, 8, compare);
    for (size_t i = 0; i < of->size / 8; i++) {
        const uint64_t number = nd_load64(of->bytes + 8 * i) >> 24 << 24;
        if (count == 0 || number != numbers[count - 1])
            numbers[count++] = number;
    }
    free_guarded(of->bytes, of->skew);
    of->size = nd_set_size(count);
    of->bytes = guarded(of->size, of->skew);
    nd_set_write(numbers, count, of->bytes);
}

/* The size that a value has, or any; hashes in order, or as they come. */
static value take_value(input *from, const nd_scheme *scheme)
{
    value out = {NULL, take_number(from, 2) % 3000, take_choice(from, 8)};
    const size_t mostly = take_choice(from, 8);
    if (mostly > 0 && holds_hashes(scheme))
        out.size = out.size % 800 / 8 * 8;
    else if (mostly > 0 && is_packed(scheme))
        out.size = 8 + out.size % 800;
    else if (mostly > 0 && scheme->kind == ND_SCHEME_MINHASH)
        out.size = (size_t)scheme->num_perm * (size_t)scheme->slot_bits / 8;
    else if (mostly > 0 && scheme->bits > 0)
        out.size = (size_t)scheme->bits / 8;
    if (out.size > 5000)
        out.size = 5000;
    size_t taken;
    uint8_t *start = take_bytes(from, out.size, out.skew, &taken);
    out.bytes = guarded(out.size, out.skew);
    memcpy(out.bytes, start, taken);
    free_guarded(start, out.skew);
    for (size_t i = taken; i < out.size; i++)
        out.bytes[i] = taken > 0 ? (uint8_t)(out.bytes[i % taken] + i / taken) : (uint8_t)i;
    if (mostly > 1 && holds_hashes(scheme) && out.size > 0)
        qsort(out.bytes, out.size / 8, 8, compare);
    if (mostly > 1 && is_packed(scheme) && out.size >= 8)
        pack(&out);
    return out;
}

/* A copy with some bits or hashes changed. */
static value change(input *from, const nd_scheme *scheme, const value *of)
{
    value out = {NULL, of->size, take_choice(from, 8)};
    size_t changes = take_choice(from, 16);
    if (holds_hashes(scheme) && changes % 4 == 1 && out.size >= 8)
        out.size -= 8;
    out.bytes = guarded(out.size, out.skew);
    memcpy(out.bytes, of->bytes, out.size);
    for (; changes > 0 && out.size > 0; changes--) {
        const size_t at = take_number(from, 2) % out.size;
        out.bytes[at] = (uint8_t)(out.bytes[at] ^ 1 << at % 8);
    }
    if (holds_hashes(scheme))
        qsort(out.bytes, out.size / 8, 8, compare);
    return out;
}

/* Bit by bit. */
static int is_packed_value(const value *of)
{
    size_t count = 0, found = 0;
    uint64_t last = 0;
    while (nd_set_size(++count) < of->size)
        ;
    if (nd_set_size(count) != of->size)
        return 0;
    for (size_t bit = 0; bit < 8 * (of->size - 4 * count); bit++) {
        if ((of->bytes[4 * count + bit / 8] >> bit % 8 & 1) == 0)
            continue;
        if (found == count || bit - found > 255)
            return 0;
        uint64_t number = bit - found;
        for (size_t i = 4; i > 0; i--)
            number = number << 8 | of->bytes[4 * found + i - 1];
        if (found > 0 && number <= last)
            return 0;
        last = number;
        found++;
    }
    return found == count;
}

static int is_value(const nd_scheme *scheme, const value *of)
{
    if (is_packed(scheme))
        return is_packed_value(of);
    if (!holds_hashes(scheme)) {
        const size_t size = is_hamming(scheme) ? (size_t)scheme->bits / 8
                                               : (size_t)scheme->num_perm * (size_t)scheme->slot_bits / 8;
        return of->size == size;
    }
    for (size_t i = 8; i < of->size; i += 8)
        if (of->size % 8 == 0 && nd_load64(of->bytes + i - 8) >= nd_load64(of->bytes + i))
            return 0;
    return of->size > 0 && of->size % 8 == 0 && (scheme->kind != ND_SCHEME_BOTTOMK || of->size / 8 <= (size_t)scheme->k);
}

/* ---- keys --------------------------------------------------------------------------------------------------------------------- */

static void check_order(const nd_keys *keys)
{
    const nd_key *rows = keys->rows;
    for (size_t i = 0; i < keys->count; i++) {
        PROMISE(rows[i].low <= rows[i].high);
        if (i > 0)
            PROMISE(rows[i - 1].table_no < rows[i].table_no ||
                    (rows[i - 1].table_no == rows[i].table_no && rows[i - 1].low < rows[i].low));
    }
}

/* Buckets are rows of their own table, each with all of its parts. */
static void check_buckets(const nd_scheme *scheme, const nd_keys *keys)
{
    const nd_key *rows = keys->rows;
    const int64_t parts = (int64_t)1 << ND_PART_BITS;
    for (size_t i = 0; i < keys->count; i++) {
        PROMISE(rows[i].low >> (ND_BUCKET_BITS + ND_PART_BITS) == rows[i].table_no && rows[i].table_no >= 0);
        PROMISE(rows[i].low % parts == 0 && rows[i].high == rows[i].low + parts - 1);
        PROMISE((size_t)rows[i].table_no < nd_scheme_table_count(scheme));
    }
}

/* One value is filed where the other is looked for. */
static int do_meet(const nd_keys *filed, const nd_keys *probed)
{
    const nd_key *rows = filed->rows, *ranges = probed->rows;
    for (size_t i = 0; i < probed->count; i++)
        for (size_t j = 0; j < filed->count; j++)
            if (rows[j].table_no == ranges[i].table_no && rows[j].low == ranges[i].low && rows[j].high == ranges[i].high)
                return 1;
    return 0;
}

/* What the rule accepts must be met, but for MinHash, which promises it with a probability. */
static void check_keys(const nd_scheme *scheme, int64_t group, const value *a, const value *b, int ok, double similarity,
    int64_t distance)
{
    nd_keys *filed = nd_keys_new(), *probed = nd_keys_new();
    PROMISE(filed != NULL && probed != NULL);
    const int status = nd_scheme_file_keys(scheme, group, a->bytes, a->size, filed);
    PROMISE(status == (is_value(scheme, a) ? ND_OK : ND_ERROR_DAMAGED));
    PROMISE(nd_scheme_probe_keys(scheme, group, b->bytes, b->size, probed) == (is_value(scheme, b) ? ND_OK : ND_ERROR_DAMAGED));
    check_order(filed);
    check_order(probed);
    if (is_hamming(scheme)) {
        check_buckets(scheme, filed);
        check_buckets(scheme, probed);
    }
    const int near = is_hamming(scheme) ? distance <= scheme->max_distance : similarity >= scheme->threshold;
    if (ok && near && scheme->plan != ND_PLAN_SCAN && scheme->kind != ND_SCHEME_MINHASH &&
        scheme->measure == ND_MEASURE_FINGERPRINT)
        PROMISE(do_meet(filed, probed));
    nd_keys_free(filed);
    nd_keys_free(probed);
}

static void check_pair(const nd_scheme *scheme, int64_t group, const value *a, const value *b)
{
    double first = 0, similarity, back;
    int64_t distance = -1, back_distance;
    const int ok = is_value(scheme, a) && is_value(scheme, b);
    PROMISE((nd_scheme_value_check(scheme, a->bytes, a->size) == ND_OK) == is_value(scheme, a));
    EACH_TIER(tier)
    {
        const int status = nd_scheme_similarity(scheme, a->bytes, a->size, b->bytes, b->size, &similarity, &distance);
        PROMISE(status == (ok ? ND_OK : ND_ERROR_DAMAGED));
        if (!ok)
            continue;
        PROMISE(similarity >= 0 && similarity <= 1 && (distance >= 0) == is_hamming(scheme));
        PROMISE(tier == 0 || similarity == first);
        first = similarity;
        PROMISE(nd_scheme_similarity(scheme, b->bytes, b->size, a->bytes, a->size, &back, &back_distance) == ND_OK);
        PROMISE(back == similarity && back_distance == distance);
        PROMISE(
            nd_scheme_similarity(scheme, a->bytes, a->size, a->bytes, a->size, &back, &back_distance) == ND_OK && back == 1.0);
    }
    if (scheme->plan == ND_PLAN_SCAN || !is_hamming(scheme) || nd_scheme_probe_count(scheme) <= PROBES_MAX)
        check_keys(scheme, group, a, b, ok, first, distance);
}

/* ---- values made from hashes --------------------------------------------------------------------------------------------------- */

static void check_made(input *from, const nd_scheme *scheme)
{
    static const size_t sizes[] = {8, 4, 16, 20, 32, 1, 7, 9};
    const size_t digest_size = sizes[take_choice(from, 8)], skew = take_choice(from, 8);
    size_t size;
    uint8_t *digests = take_bytes(from, from->size, skew, &size);
    const size_t count = size / digest_size;
    nd_values *values = nd_values_new();
    PROMISE(values != NULL);
    int first = ND_OK;
    size_t made_size = 0;
    EACH_TIER(tier)
    {
        const int status = nd_scheme_append_digests(scheme, digests, digest_size, count, count, values);
        const size_t made = values->count;
        PROMISE(tier == 0 || status == first);
        first = status;
        if (status != ND_OK) {
            PROMISE(status == ND_ERROR_PARAMETER && made == 0);
            PROMISE(scheme->kind == ND_SCHEME_BINARYCODE || (size_t)scheme->bits > 8 * digest_size);
            continue;
        }
        const size_t start = made > 1 ? (size_t)values->ends[made - 2] : 0;
        const uint8_t *bytes = values->bytes;
        PROMISE(tier == 0 || (size_t)values->ends[made - 1] - start == made_size);
        made_size = (size_t)values->ends[made - 1] - start;
        PROMISE((made_size == 0) == (count == 0));
        if (made_size == 0)
            continue;
        PROMISE(nd_scheme_value_check(scheme, bytes + start, made_size) == ND_OK);
        PROMISE(memcmp(bytes, bytes + start, made_size) == 0);
    }
    nd_values_free(values);
    free_guarded(digests, skew);
}

#define HEAD_BYTES 5 /* hash and width */

/* ---- rows of buckets ----------------------------------------------------------------------------------------------------------- */

static void check_entry(const nd_entries *entries, const uint8_t *bytes, size_t size, size_t place)
{
    uint64_t id = 0;
    PROMISE(
        entries->codes + place * entries->code_size >= bytes && entries->ids + (place + 1) * entries->id_size <= bytes + size);
    for (size_t i = entries->id_size; i-- > 0;)
        id = id << 8 | entries->ids[place * entries->id_size + i];
    PROMISE((uint64_t)nd_entries_id(entries, place) == id);
}

/* What was read, without negative ids, written again: the same, but for ids that need less room. */
static void check_written(const nd_entries *entries)
{
    int64_t *ids = malloc(entries->count * sizeof *ids);
    uint64_t all = 0;
    PROMISE(ids != NULL);
    for (size_t i = 0; i < entries->count; i++) {
        ids[i] = nd_entries_id(entries, i) & INT64_MAX;
        all |= (uint64_t)ids[i];
    }
    const size_t size = nd_entries_size(ids, entries->count, entries->code_size);
    uint8_t *out = guarded(size, 3);
    nd_entries again;
    nd_entries_write(ids, entries->codes, entries->count, entries->code_size, out);
    PROMISE(nd_entries_read(out, size, entries->code_size, &again) == ND_OK && again.count == entries->count);
    PROMISE(again.id_size <= entries->id_size && (again.id_size == 1 || all >> 8 * (again.id_size - 1) != 0));
    PROMISE(memcmp(again.codes, entries->codes, entries->count * entries->code_size) == 0);
    for (size_t i = 0; i < entries->count; i++)
        PROMISE(nd_entries_id(&again, i) == ids[i]);
    free_guarded(out, 3);
    free(ids);
}

/* Any bytes as a row: refused, or whole entries, of which each tier finds those near enough and no others. */
static void check_entries(input *from)
{
    static const size_t sizes[] = {8, 1, 2, 7, 9, 16, 32, 33, 0, 64, 512};
    const size_t code_size = sizes[take_choice(from, sizeof sizes / sizeof sizes[0])], skew = take_choice(from, 8);
    const uint64_t most = take_choice(from, 8) == 0 ? take_number(from, 8) : take_byte(from);
    const size_t width = take_choice(from, 4) ? 1 + take_choice(from, 8) : take_byte(from);
    const int sealed = take_choice(from, 8) > 0;
    size_t size;
    uint8_t code[512];
    for (size_t i = 0; i < code_size; i++)
        code[i] = i < 16 ? take_byte(from) : (uint8_t)i;
    uint8_t *bytes = take_bytes(from, take_choice(from, 4) == 0 ? from->size : from->size / 2, skew, &size);
    nd_entries entries;
    if (size > HEAD_BYTES)
        bytes[HEAD_BYTES - 1] = (uint8_t)width;
    size_t whole = size;
    if (code_size > 0 && width > 0 && size > HEAD_BYTES + width + code_size)
        whole -= (size - HEAD_BYTES) % (width + code_size);
    for (int cut = 0; cut < 2; cut++) {
        const size_t used = cut ? whole : size;
        const int shaped = used > HEAD_BYTES && width >= 1 && width <= 8 && code_size > 0 &&
                           (used - HEAD_BYTES) % (code_size + width) == 0;
        const uint32_t hash = used > HEAD_BYTES ? (uint32_t)nd_xxh3_64(bytes + 4, used - 4, 0) : 0;
        if (used > HEAD_BYTES && sealed)
            memcpy(bytes, &hash, sizeof hash);
        const int sound = shaped && memcmp(bytes, &hash, sizeof hash) == 0;
        PROMISE(nd_entries_read(bytes, used, code_size, &entries) == (sound ? ND_OK : ND_ERROR_DAMAGED));
        if (!sound)
            continue;
        PROMISE(entries.count == (used - HEAD_BYTES) / (code_size + width) && entries.code_size == code_size &&
                entries.id_size == width);
        uint32_t *places = malloc(entries.count * sizeof *places);
        PROMISE(places != NULL);
        EACH_TIER(tier)
        {
            const size_t count = nd_entries_near(&entries, code, most, places);
            size_t next = 0;
            PROMISE(count <= entries.count);
            for (size_t i = 0; i < entries.count; i++) {
                uint64_t distance = 0;
                for (size_t j = 0; j < code_size; j++)
                    distance += (uint64_t)__builtin_popcount(entries.codes[i * code_size + j] ^ code[j]);
                if (distance <= most)
                    PROMISE(next < count && places[next++] == i);
            }
            PROMISE(next == count);
        }
        for (size_t i = 0; i < entries.count; i++)
            check_entry(&entries, bytes, used, i);
        check_written(&entries);
        free(places);
    }
    free_guarded(bytes, skew);
}

/* Memory that runs out is an error and no more. */
static void run_short_of_memory(const nd_scheme *scheme, const value *a, unsigned after)
{
    fuzz_fail_allocations(after, after % 2 == 0);
    nd_keys *keys = nd_keys_new();
    nd_values *values = nd_values_new();
    if (keys != NULL && values != NULL && (!is_hamming(scheme) || nd_scheme_probe_count(scheme) <= PROBES_MAX)) {
        (void)nd_scheme_file_keys(scheme, 0, a->bytes, a->size, keys);
        (void)nd_scheme_probe_keys(scheme, 1, a->bytes, a->size, keys);
        (void)nd_scheme_append_digests(scheme, a->bytes, 8, a->size / 8, 1, values);
        (void)nd_scheme_append_digests(scheme, a->bytes, 16, a->size / 16, 1, values);
    }
    fuzz_allow_allocations();
    nd_keys_free(keys);
    nd_values_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input from = {data, size};
    nd_scheme scheme;
    char message[300];
    take_scheme(&from, &scheme);
    const size_t room = take_choice(&from, 4) == 0 ? take_choice(&from, 16) : sizeof message;
    memset(message, 'x', sizeof message);
    const int status = nd_scheme_check(&scheme, message, room);
    PROMISE(room == 0 || memchr(message, '\0', room) != NULL);
    if (status != ND_OK) {
        PROMISE(status == ND_ERROR_PARAMETER && (room < 2 || message[0] != '\0'));
        return 0;
    }
    PROMISE(room == 0 || message[0] == '\0');
    const unsigned fail_after = take_choice(&from, 8) == 1 ? 1 + take_byte(&from) % 16u : 0;
    const value a = take_value(&from, &scheme);
    const value b = take_choice(&from, 2) ? take_value(&from, &scheme) : change(&from, &scheme, &a);
    if (fail_after > 0) {
        run_short_of_memory(&scheme, &a, fail_after - 1);
    } else {
        check_pair(&scheme, take_choice(&from, 2) ? (int64_t)take_number(&from, 8) : 0, &a, &b);
        check_entries(&from);
        check_made(&from, &scheme);
    }
    free_guarded(a.bytes, a.skew);
    free_guarded(b.bytes, b.skew);
    return 0;
}
