/* keys.c: a stored value -> the rows that file it in its candidate table, and the ranges that a query looks up there. */
#include "internal.h"
#include "scheme.h"

/* Rough costs on one core, in nanoseconds: looking up one range of a table, reading and verifying a candidate found there,
 * and passing one stored code in a scan. */
#define PROBE_NS 700.0
#define CANDIDATE_NS 250.0
#define SCANNED_NS 120.0

static int64_t as_signed(uint64_t pattern)
{
    int64_t value;
    memcpy(&value, &pattern, sizeof value);
    return value;
}

/* One key for each distinct value, ascending as SQLite orders them: as signed numbers. */
static int append_distinct(nd_keys *keys, int64_t table_no, uint64_t *patterns, size_t count)
{
    const uint64_t sign = (uint64_t)1 << 63;
    for (size_t i = 0; i < count; i++)
        patterns[i] ^= sign;
    count = nd_sort_distinct(patterns, count);
    int status = ND_OK;
    for (size_t i = 0; i < count && status == ND_OK; i++) {
        int64_t value = as_signed(patterns[i] ^ sign);
        status = nd_keys_append(keys, table_no, value, value, 0);
    }
    return status;
}

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

/* Sets the bits from `from` to the end of the string of `size` bytes to ones or to zeros. */
static void fill_rest(uint8_t *bytes, size_t size, size_t from, int ones)
{
    if (from % 8 != 0) {
        unsigned rest = 0xffu >> (from % 8);
        bytes[from / 8] = (uint8_t)(ones ? bytes[from / 8] | rest : bytes[from / 8] & ~rest);
    }
    size_t whole = (from + 7) / 8;
    if (whole < size)
        memset(bytes + whole, ones ? 0xff : 0, size - whole);
}

static int append_wide_block(const nd_scheme *scheme, const uint8_t *value, int64_t table_no, const uint8_t *order,
    size_t prefix, nd_keys *keys)
{
    size_t size = (size_t)scheme->bits / 8;
    uint8_t *low, *high, *code;
    int status = nd_keys_append_wide(keys, table_no, size, &low, &high, &code);
    if (status == ND_OK)
        status = nd_permute(value, (size_t)scheme->bits, (size_t)scheme->blocks, order, code);
    if (status != ND_OK)
        return status;
    memcpy(low, code, size);
    memcpy(high, code, size);
    fill_rest(low, size, prefix, 0);
    fill_rest(high, size, prefix, 1);
    return ND_OK;
}

/* One key a table. When filing, the prefix is the whole code. */
static int block_keys(const nd_scheme *scheme, const uint8_t *value, int probing, size_t first_table, size_t end_table,
    nd_keys *keys)
{
    uint8_t order[256];
    size_t bits = (size_t)scheme->bits, blocks = (size_t)scheme->blocks, distance = (size_t)scheme->max_distance;
    uint64_t number = bits <= 64 ? nd_load_big(value, bits / 8) : 0;
    for (size_t table = first_table; table < end_table; table++) {
        int status = nd_block_table(blocks, distance, table, order);
        if (status != ND_OK)
            return status;
        size_t prefix = probing ? nd_block_prefix_bits(bits, blocks, distance, order) : bits;
        if (bits > 64) {
            status = append_wide_block(scheme, value, (int64_t)table, order, prefix, keys);
        } else {
            uint64_t permuted = nd_permute_number(number, bits, blocks, order);
            uint64_t rest = bits == prefix ? 0 : UINT64_MAX >> (64 - (bits - prefix));
            status = nd_keys_append(keys, (int64_t)table, as_signed(permuted & ~rest), as_signed(permuted | rest),
                as_signed(permuted));
        }
        if (status != ND_OK)
            return status;
    }
    return ND_OK;
}

/* ---- chunks --------------------------------------------------------------------------------------------------------------- */

static int chunk_keys(const nd_scheme *scheme, const uint8_t *value, int probing, size_t first_table, size_t end_table,
    nd_keys *keys)
{
    uint64_t split[256];
    size_t bits = (size_t)scheme->bits, chunks = (size_t)scheme->chunks;
    int status = nd_split_chunks(value, bits, chunks, split);
    for (size_t chunk = first_table; chunk < end_table && status == ND_OK; chunk++) {
        int radius = probing ? nd_chunk_radius(chunks, (size_t)scheme->max_distance, chunk) : 0;
        if (radius < 0)
            continue;
        size_t width = nd_chunk_bits(bits, chunks, chunk), count;
        uint64_t expected = nd_neighbour_count(width, (size_t)radius), *near;
        if (expected > PTRDIFF_MAX / 8)
            return ND_ERROR_CAPACITY;
        status = nd_scratch_hashes(&keys->scratch, (size_t)expected, &near);
        if (status == ND_OK)
            status = nd_neighbours(split[chunk], width, (size_t)radius, near, (size_t)expected, &count);
        if (status == ND_OK)
            status = append_distinct(keys, (int64_t)chunk, near, count);
    }
    return status;
}

uint64_t nd_scheme_probe_count(const nd_scheme *scheme)
{
    if (scheme->plan == ND_PLAN_BLOCKS)
        return nd_block_table_count((size_t)scheme->blocks, (size_t)scheme->max_distance);
    uint64_t total = 0;
    for (size_t chunk = 0; chunk < (size_t)scheme->chunks; chunk++) {
        int radius = nd_chunk_radius((size_t)scheme->chunks, (size_t)scheme->max_distance, chunk);
        if (radius < 0)
            continue;
        uint64_t probes = nd_neighbour_count(nd_chunk_bits((size_t)scheme->bits, (size_t)scheme->chunks, chunk), (size_t)radius);
        if (probes > UINT64_MAX - total)
            return UINT64_MAX;
        total += probes;
    }
    return total;
}

/* ---- bands and prefixes --------------------------------------------------------------------------------------------------- */

/* The signature of a MinHash value: its own first bytes, or computed from its hashes. `room` holds num_perm slots. */
static int value_signature(const nd_scheme *scheme, const uint8_t *value, size_t size, uint64_t *room, nd_scratch *scratch,
    uint8_t *signature)
{
    if (scheme->evidence != ND_EVIDENCE_HASHES) {
        memcpy(signature, value, (size_t)scheme->num_perm * (size_t)scheme->slot_bits / 8);
        return ND_OK;
    }
    memcpy(room, value, size);
    int status = nd_scheme_slots(scheme, scratch, room, size / 8);
    if (status == ND_OK)
        nd_scheme_pack_slots(scheme, scratch->slots, signature);
    return status;
}

static int band_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys)
{
    /* One piece of scratch: the hashes of the value, later the buckets; then the signature; then the 32-bit buckets. */
    size_t bands = (size_t)scheme->bands, num_perm = (size_t)scheme->num_perm;
    size_t hash_room = (scheme->evidence == ND_EVIDENCE_HASHES ? size / 8 : 0) + bands;
    uint64_t *room;
    int status = nd_scratch_hashes(&keys->scratch, hash_room + (num_perm + 1) / 2 + (bands + 1) / 2, &room);
    if (status != ND_OK)
        return status;
    uint8_t *signature = (uint8_t *)(room + hash_room);
    int32_t *buckets = (int32_t *)(room + hash_room + (num_perm + 1) / 2);
    status = value_signature(scheme, value, size, room, &keys->scratch, signature);
    if (status == ND_OK)
        status = nd_band_buckets(signature, num_perm, (size_t)scheme->slot_bits / 8, bands, (size_t)scheme->rows, buckets);
    if (status != ND_OK)
        return status;
    for (size_t i = 0; i < bands; i++)
        room[i] = (uint64_t)(int64_t)buckets[i];
    return append_distinct(keys, 0, room, bands);
}

static int first_hashes(const uint8_t *value, size_t count, nd_keys *keys)
{
    uint64_t *hashes;
    int status = nd_scratch_hashes(&keys->scratch, count, &hashes);
    if (status != ND_OK)
        return status;
    memcpy(hashes, value, 8 * count);
    return append_distinct(keys, 0, hashes, count);
}

static int prefix_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, int probing, nd_keys *keys)
{
    size_t count = size / 8;
    return first_hashes(value, !probing && scheme->containment ? count : nd_prefix_count(count, scheme->threshold), keys);
}

/* ---- all ------------------------------------------------------------------------------------------------------------------ */

size_t nd_scheme_table_count(const nd_scheme *scheme)
{
    if (scheme->plan == ND_PLAN_BLOCKS)
        return nd_block_table_count((size_t)scheme->blocks, (size_t)scheme->max_distance);
    if (scheme->plan == ND_PLAN_CHUNKS)
        return (size_t)scheme->chunks;
    return scheme->plan == ND_PLAN_SCAN ? 0 : 1;
}

int nd_scheme_table_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, int probing, size_t first_table,
    size_t end_table, nd_keys *keys)
{
    keys->count = 0;
    keys->bytes_size = 0;
    int status = ND_OK;
    switch (scheme->plan) {
    case ND_PLAN_SCAN:
        return ND_OK;
    case ND_PLAN_BLOCKS:
        status = block_keys(scheme, value, probing, first_table, end_table, keys);
        break;
    case ND_PLAN_CHUNKS:
        status = chunk_keys(scheme, value, probing, first_table, end_table, keys);
        break;
    case ND_PLAN_BANDS:
        status = band_keys(scheme, value, size, keys);
        break;
    case ND_PLAN_PREFIX:
        status = prefix_keys(scheme, value, size, probing, keys);
        break;
    default:
        status = ND_ERROR_PARAMETER;
    }
    if (status != ND_OK)
        keys->count = 0;
    return status;
}

static int make_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, int probing, nd_keys *keys)
{
    keys->count = 0;
    int status = nd_scheme_value_check(scheme, value, size);
    if (status != ND_OK)
        return status;
    return nd_scheme_table_keys(scheme, value, size, probing, 0, nd_scheme_table_count(scheme), keys);
}

int nd_scheme_file_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys)
{
    return make_keys(scheme, value, size, 0, keys);
}

int nd_scheme_probe_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys)
{
    return make_keys(scheme, value, size, 1, keys);
}

int nd_scheme_band_keys(const nd_scheme *scheme, const uint8_t *data, const uint64_t *ends, size_t count, nd_keys *keys, int64_t *out)
{
    size_t start = 0, bands = (size_t)scheme->bands;
    if (scheme->plan != ND_PLAN_BANDS)
        return ND_ERROR_PARAMETER;
    for (size_t i = 0; i < count; start = (size_t)ends[i], i++, out += bands) {
        keys->count = 0;
        int status = ends[i] > start ? nd_scheme_file_keys(scheme, data + start, (size_t)ends[i] - start, keys) : ND_OK;
        if (status != ND_OK)
            return status;
        const nd_key *rows = nd_keys_rows(keys);
        for (size_t j = 0; j < bands; j++)
            out[j] = j < keys->count ? rows[j].low : j > 0 ? out[j - 1] : 0;
    }
    return ND_OK;
}

/* A partner covers the first m hashes of the value, for some m up to all, and lacks at most m - o of them, o the smallest c with
 * c / m >= threshold: one of the first m - o + 1 is its own, wherever that stands among its k. No m needs more than all do. */
int nd_scheme_containment_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, double threshold, nd_keys *keys)
{
    keys->count = 0;
    keys->bytes_size = 0;
    if (scheme->kind != ND_SCHEME_BOTTOMK || !scheme->containment || !(threshold > 0 && threshold <= 1))
        return ND_ERROR_PARAMETER;
    int status = nd_scheme_value_check(scheme, value, size);
    if (status == ND_OK)
        status = first_hashes(value, nd_prefix_count(size / 8, threshold), keys);
    if (status != ND_OK)
        keys->count = 0;
    return status;
}

/* 2^-bits of `fingerprints` random codes stand in a range of `bits` fixed bits. */
static double expected_in_range(double fingerprints, size_t bits)
{
    for (; bits > 0 && fingerprints > 0; bits--)
        fingerprints /= 2;
    return fingerprints;
}

static double expected_candidates(const nd_scheme *scheme, double fingerprints)
{
    size_t bits = (size_t)scheme->bits, distance = (size_t)scheme->max_distance;
    double candidates = 0;
    if (scheme->plan == ND_PLAN_BLOCKS) {
        size_t blocks = (size_t)scheme->blocks;
        double tables = (double)nd_block_table_count(blocks, distance);
        return tables * expected_in_range(fingerprints, bits * (blocks - distance) / blocks);
    }
    for (size_t chunk = 0; chunk < (size_t)scheme->chunks; chunk++) {
        int radius = nd_chunk_radius((size_t)scheme->chunks, distance, chunk);
        size_t width = nd_chunk_bits(bits, (size_t)scheme->chunks, chunk);
        if (radius >= 0)
            candidates += (double)nd_neighbour_count(width, (size_t)radius) * expected_in_range(fingerprints, width);
    }
    return candidates;
}

int nd_scheme_prefers_scan(const nd_scheme *scheme, int64_t fingerprints)
{
    if (scheme->plan == ND_PLAN_SCAN)
        return 1;
    if (scheme->plan != ND_PLAN_BLOCKS && scheme->plan != ND_PLAN_CHUNKS)
        return 0;
    double count = fingerprints > 0 ? (double)fingerprints : 0;
    double probing = (double)nd_scheme_probe_count(scheme) * PROBE_NS + expected_candidates(scheme, count) * CANDIDATE_NS;
    return count * SCANNED_NS < probing;
}
