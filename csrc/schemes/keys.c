/* keys.c: a stored value -> the rows that file it in its candidate table, and the ranges that a query looks up there. */
#include "schemes/schemes.h"

#define PARTS ((int64_t)1 << ND_PART_BITS)

int64_t nd_bucket_low(int64_t group_id, size_t table, uint64_t number, size_t width)
{
    uint64_t bucket = number;
    if (width > ND_BUCKET_BITS || group_id != 0)
        bucket = nd_xxh3_64((const uint8_t *)&number, sizeof number, (uint64_t)group_id) >> (64 - ND_HASHED_BITS);
    return ((int64_t)table << ND_BUCKET_BITS | (int64_t)bucket) << ND_PART_BITS;
}

/* One key for each distinct value, from it to `span` behind it, ascending as SQLite orders them: as signed numbers. */
static int append_distinct(nd_keys *keys, size_t table, uint64_t *lows, size_t count, int64_t span)
{
    const uint64_t sign = (uint64_t)1 << 63;
    for (size_t i = 0; i < count; i++)
        lows[i] ^= sign;
    count = nd_sort_distinct(lows, count);
    for (size_t i = 0; i < count; i++) {
        const int64_t low = (int64_t)(lows[i] ^ sign);
        ND_TRY(nd_keys_append(keys, (int64_t)table, low, low + span));
    }
    return ND_OK;
}

/* One key a table: what the blocks in front have in common. */
static int block_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t first_table, size_t end_table,
    nd_keys *keys)
{
    uint8_t order[256];
    size_t bits = (size_t)scheme->bits, blocks = (size_t)scheme->blocks, distance = (size_t)scheme->max_distance;
    for (size_t table = first_table; table < end_table; table++) {
        ND_TRY(nd_block_table(blocks, distance, table, order));
        size_t prefix = nd_block_prefix_bits(bits, blocks, distance, order);
        int64_t low = nd_bucket_low(group_id, table, nd_block_number(scheme, value, order, prefix), prefix);
        ND_TRY(nd_keys_append(keys, (int64_t)table, low, low + PARTS - 1));
    }
    return ND_OK;
}

static int chunk_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, int probing, size_t first_table,
    size_t end_table, nd_keys *keys)
{
    uint64_t split[256];
    size_t bits = (size_t)scheme->bits, chunks = (size_t)scheme->chunks;
    ND_TRY(nd_split_chunks(value, bits, chunks, split));
    for (size_t chunk = first_table; chunk < end_table; chunk++) {
        int radius = probing ? nd_chunk_radius(chunks, (size_t)scheme->max_distance, chunk) : 0;
        if (radius < 0)
            continue;
        size_t width = nd_chunk_bits(bits, chunks, chunk), count = 0;
        uint64_t expected = nd_neighbour_count(width, (size_t)radius), *near;
        if (expected > PTRDIFF_MAX / 8)
            return ND_ERROR_CAPACITY;
        ND_TRY(nd_scratch_hashes(keys->scratch, (size_t)expected, &near));
        ND_TRY(nd_neighbours(split[chunk], width, (size_t)radius, near, (size_t)expected, &count));
        for (size_t i = 0; i < count; i++)
            near[i] = (uint64_t)nd_bucket_low(group_id, chunk, near[i], width);
        ND_TRY(append_distinct(keys, chunk, near, count, PARTS - 1));
    }
    return ND_OK;
}

uint64_t nd_scheme_probe_count(const nd_scheme *scheme)
{
    if (scheme->plan == ND_PLAN_BLOCKS)
        return nd_block_table_count((size_t)scheme->blocks, (size_t)scheme->max_distance);
    return nd_chunk_probe_count((size_t)scheme->bits, (size_t)scheme->chunks, (size_t)scheme->max_distance);
}

/* The signature of a MinHash value: the value itself, or computed from its hashes, for which there is room. */
static int value_signature(const nd_scheme *scheme, const uint8_t *value, size_t size, uint64_t *room, nd_scratch *scratch,
    uint8_t *signature)
{
    if (scheme->evidence == ND_EVIDENCE_NONE) {
        memcpy(signature, value, nd_signature_size(scheme));
        return ND_OK;
    }
    ND_TRY(nd_set_read(value, size, room));
    ND_TRY(nd_scheme_slots(scheme, scratch, room, nd_set_count(size)));
    nd_scheme_pack_slots(scheme, scratch->slots, signature);
    return ND_OK;
}

static int band_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys)
{
    /* One piece of scratch: the hashes of the value, later the buckets; then the signature; then the 32-bit buckets. */
    size_t bands = (size_t)scheme->bands, num_perm = (size_t)scheme->num_perm;
    size_t hash_room = (scheme->evidence == ND_EVIDENCE_PACKED ? nd_set_count(size) : 0) + bands;
    uint64_t *room;
    ND_TRY(nd_scratch_hashes(keys->scratch, hash_room + (num_perm + 1) / 2 + (bands + 1) / 2, &room));
    uint8_t *signature = (uint8_t *)(room + hash_room);
    int32_t *buckets = (int32_t *)(room + hash_room + (num_perm + 1) / 2);
    ND_TRY(value_signature(scheme, value, size, room, keys->scratch, signature));
    ND_TRY(nd_band_buckets(signature, num_perm, (size_t)scheme->slot_bits / 8, bands, (size_t)scheme->rows, buckets));
    for (size_t i = 0; i < bands; i++)
        room[i] = (uint64_t)(int64_t)buckets[i];
    return append_distinct(keys, 0, room, bands, 0);
}

static int first_hashes(const uint8_t *value, size_t count, nd_keys *keys)
{
    uint64_t *hashes;
    ND_TRY(nd_scratch_hashes(keys->scratch, count, &hashes));
    memcpy(hashes, value, 8 * count);
    return append_distinct(keys, 0, hashes, count, 0);
}

static int prefix_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, int probing, nd_keys *keys)
{
    size_t count = size / 8;
    return first_hashes(value, !probing && scheme->containment ? count : nd_prefix_count(count, scheme->threshold), keys);
}

static int winnow_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys)
{
    uint64_t *selected;
    size_t count;
    ND_TRY(nd_winnow(value, size / 4, (size_t)scheme->k, (size_t)scheme->shortest, keys->scratch, &selected, &count));
    for (size_t i = 0; i < count; i++)
        selected[i] = (uint64_t)nd_winnow_key(selected[i]);
    return append_distinct(keys, 0, selected, count, 0);
}

int nd_scheme_has_buckets(const nd_scheme *scheme)
{
    return scheme->plan == ND_PLAN_SCAN || scheme->plan == ND_PLAN_BLOCKS || scheme->plan == ND_PLAN_CHUNKS;
}

size_t nd_scheme_table_count(const nd_scheme *scheme)
{
    if (scheme->plan == ND_PLAN_BLOCKS)
        return nd_block_table_count((size_t)scheme->blocks, (size_t)scheme->max_distance);
    return scheme->plan == ND_PLAN_CHUNKS ? (size_t)scheme->chunks : 1;
}

/* All codes of a group stand together. */
static int scan_keys(int64_t group_id, size_t first_table, size_t end_table, nd_keys *keys)
{
    int64_t low = nd_bucket_low(group_id, 0, 0, 0);
    return first_table < end_table ? nd_keys_append(keys, 0, low, low + PARTS - 1) : ND_OK;
}

int nd_scheme_table_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, int probing,
    size_t first_table, size_t end_table, nd_keys *keys)
{
    keys->count = 0;
    switch (scheme->plan) {
    case ND_PLAN_SCAN:
        return scan_keys(group_id, first_table, end_table, keys);
    case ND_PLAN_BLOCKS:
        return block_keys(scheme, group_id, value, first_table, end_table, keys);
    case ND_PLAN_CHUNKS:
        return chunk_keys(scheme, group_id, value, probing, first_table, end_table, keys);
    case ND_PLAN_BANDS:
        return band_keys(scheme, value, size, keys);
    case ND_PLAN_PREFIX:
        return prefix_keys(scheme, value, size, probing, keys);
    case ND_PLAN_WINNOW:
        return winnow_keys(scheme, value, size, keys);
    default:
        return ND_ERROR_PARAMETER;
    }
}

static int make_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, int probing, nd_keys *keys)
{
    keys->count = 0;
    /* A packed set is looked at as it is read. */
    const int packed = scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_PACKED;
    ND_TRY(packed ? ND_OK : nd_scheme_value_check(scheme, value, size));
    return nd_scheme_table_keys(scheme, group_id, value, size, probing, 0, nd_scheme_table_count(scheme), keys);
}

int nd_scheme_file_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, nd_keys *keys)
{
    return make_keys(scheme, group_id, value, size, 0, keys);
}

int nd_scheme_probe_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, nd_keys *keys)
{
    return make_keys(scheme, group_id, value, size, 1, keys);
}

void nd_keys_pack(const nd_keys *keys, size_t most, int64_t *out)
{
    const nd_key *rows = keys->rows;
    for (size_t i = 0; i < most; i++)
        out[i] = i < keys->count ? rows[i].low : i > 0 ? out[i - 1] : 0;
}

int nd_scheme_band_keys(const nd_scheme *scheme, const uint8_t *data, const uint64_t *ends, size_t count, nd_keys *keys,
    int64_t *out)
{
    size_t start = 0, bands = (size_t)scheme->bands;
    if (scheme->plan != ND_PLAN_BANDS)
        return ND_ERROR_PARAMETER;
    for (size_t i = 0; i < count; start = (size_t)ends[i], i++, out += bands) {
        keys->count = 0;
        ND_TRY(ends[i] > start ? nd_scheme_file_keys(scheme, 0, data + start, (size_t)ends[i] - start, keys) : ND_OK);
        nd_keys_pack(keys, bands, out);
    }
    return ND_OK;
}

/* A partner covers the first m hashes of the value, for some m up to all, and lacks at most m - o of them, o the smallest c with
 * c / m >= threshold: one of the first m - o + 1 is its own, wherever that stands among its k. No m needs more than all do. */
int nd_scheme_containment_keys(const nd_scheme *scheme, const uint8_t *value, size_t size, double threshold, nd_keys *keys)
{
    keys->count = 0;
    if (scheme->kind != ND_SCHEME_BOTTOMK || !scheme->containment || !(threshold > 0 && threshold <= 1))
        return ND_ERROR_PARAMETER;
    ND_TRY(nd_scheme_value_check(scheme, value, size));
    return first_hashes(value, nd_prefix_count(size / 8, threshold), keys);
}
