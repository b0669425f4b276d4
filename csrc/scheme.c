/* scheme.c: what the five schemes are: their parameters, the layout of a stored value, and the rule that verifies.
 *
 * Stored values, by scheme:
 *     SimHash, one-bit samples, codes   bits / 8 bytes, the code
 *     MinHash                           num_perm slots of slot_bits / 8 bytes: the signature
 *     MinHash, evidence HASHES          8 bytes for each distinct shingle hash, ascending; the signature is computed from them
 *     MinHash, evidence TEXT            the signature, then XXH3-64 of those hashes (8 bytes each, ascending) with seeds 0 and 1
 *     bottom-k                          8 bytes for each of the k smallest distinct hashes, ascending
 * Every number is little-endian. No text without shingles has a value. */
#include <stdarg.h>
#include <stdio.h>

#include "text_internal.h"

#include "internal.h"
#include "scheme.h"

#define NUM_PERM_MAX 65536
#define K_MAX 65536
#define BITS_MAX (8 * ND_CODE_BYTES_MAX)
#define BLOCKS_MAX 64
#define CHUNKS_MAX 256
#define TABLES_MAX 4096
#define CHUNK_PROBES_MAX 2000000

#define TEXT_DIGEST_SIZE 16

/* ---- parameters -------------------------------------------------------------------------------------------------------- */

typedef struct complaint {
    char *message;
    size_t size;
} complaint;

__attribute__((format(printf, 2, 3))) static int refuse(const complaint *to, const char *format, ...)
{
    if (to->size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(to->message, to->size, format, arguments);
        va_end(arguments);
    }
    return ND_ERROR_PARAMETER;
}

static int check_range(const complaint *to, const char *name, int32_t value, int32_t low, int32_t high)
{
    if (value < low || value > high)
        return refuse(to, "%s is %d; it must be from %d to %d", name, value, low, high);
    return ND_OK;
}

static int check_threshold(const complaint *to, double threshold)
{
    if (!(threshold > 0 && threshold <= 1))
        return refuse(to, "threshold is %g; it must be above 0 and at most 1", threshold);
    return ND_OK;
}

static int check_blocks(const complaint *to, const nd_scheme *scheme)
{
    int32_t most = scheme->bits < BLOCKS_MAX ? scheme->bits : BLOCKS_MAX;
    if (scheme->max_distance >= most)
        return refuse(to, "max_distance is %d; block tables of %d bits serve distances below %d: use chunk tables or a scan",
            scheme->max_distance, scheme->bits, most);
    if (scheme->blocks <= scheme->max_distance || scheme->blocks > most)
        return refuse(to, "blocks is %d; with max_distance %d and %d bits it must be from %d to %d",
            scheme->blocks, scheme->max_distance, scheme->bits, scheme->max_distance + 1, most);
    size_t tables = nd_block_table_count((size_t)scheme->blocks, (size_t)scheme->max_distance);
    if (tables == 0 || tables > TABLES_MAX)
        return refuse(to, "blocks is %d; with max_distance %d that would need more than %d tables: use fewer blocks",
            scheme->blocks, scheme->max_distance, TABLES_MAX);
    return ND_OK;
}

static int check_chunks(const complaint *to, const nd_scheme *scheme)
{
    int32_t most = scheme->bits < CHUNKS_MAX ? scheme->bits : CHUNKS_MAX;
    if (scheme->chunks < 1 || scheme->chunks > most)
        return refuse(to, "chunks is %d; with %d bits it must be from 1 to %d", scheme->chunks, scheme->bits, most);
    if (scheme->bits > scheme->chunks * 64)
        return refuse(to, "chunks is %d; with %d bits a chunk would be wider than 64 bits: use at least %d",
            scheme->chunks, scheme->bits, (scheme->bits + 63) / 64);
    if (nd_scheme_probe_count(scheme) > CHUNK_PROBES_MAX)
        return refuse(to, "chunks is %d; with max_distance %d and %d bits a query would probe more than %d values: use more chunks or a scan",
            scheme->chunks, scheme->max_distance, scheme->bits, CHUNK_PROBES_MAX);
    return ND_OK;
}

static int check_family(const complaint *to, const nd_scheme *scheme)
{
    if (scheme->family != ND_FAMILY_AFFINE32 && scheme->family != ND_FAMILY_JAVA32)
        return refuse(to, "family is %d; it must be %d (affine32) or %d (java32)",
            scheme->family, ND_FAMILY_AFFINE32, ND_FAMILY_JAVA32);
    return ND_OK;
}

static int check_code(const complaint *to, const nd_scheme *scheme)
{
    if (scheme->bits < 8 || scheme->bits > BITS_MAX || scheme->bits % 8 != 0)
        return refuse(to, "bits is %d; it must be a multiple of 8 from 8 to %d", scheme->bits, BITS_MAX);
    int status = check_range(to, "max_distance", scheme->max_distance, 0, scheme->bits);
    if (status != ND_OK)
        return status;
    /* java32 keeps its minima as they are; their lowest bits are those of a product and no samples. */
    if (scheme->kind == ND_SCHEME_BITSAMPLING && scheme->family != ND_FAMILY_AFFINE32)
        return refuse(to, "family is %d; one-bit samples need %d (affine32)", scheme->family, ND_FAMILY_AFFINE32);
    switch (scheme->plan) {
    case ND_PLAN_SCAN:
        return ND_OK;
    case ND_PLAN_BLOCKS:
        return check_blocks(to, scheme);
    case ND_PLAN_CHUNKS:
        return check_chunks(to, scheme);
    default:
        return refuse(to, "plan is %d; codes of bits are found by a scan (%d), block tables (%d) or chunk tables (%d)",
            scheme->plan, ND_PLAN_SCAN, ND_PLAN_BLOCKS, ND_PLAN_CHUNKS);
    }
}

static int check_minhash(const complaint *to, const nd_scheme *scheme)
{
    int status = check_range(to, "num_perm", scheme->num_perm, 1, NUM_PERM_MAX);
    if (status == ND_OK)
        status = check_threshold(to, scheme->threshold);
    if (status == ND_OK)
        status = check_range(to, "rows", scheme->rows, 1, scheme->num_perm);
    if (status == ND_OK)
        status = check_family(to, scheme);
    if (status == ND_OK)
        status = check_range(to, "evidence", scheme->evidence, ND_EVIDENCE_NONE, ND_EVIDENCE_TEXT);
    if (status != ND_OK)
        return status;
    if (scheme->bands < 1 || scheme->bands > scheme->num_perm / scheme->rows)
        return refuse(to, "bands is %d; with %d rows and num_perm %d it must be from 1 to %d",
            scheme->bands, scheme->rows, scheme->num_perm, scheme->num_perm / scheme->rows);
    if (scheme->slot_bits != 16 && scheme->slot_bits != 32)
        return refuse(to, "slot_bits is %d; it must be 16 or 32", scheme->slot_bits);
    if (scheme->plan != ND_PLAN_BANDS)
        return refuse(to, "plan is %d; MinHash signatures are found by bands (%d)", scheme->plan, ND_PLAN_BANDS);
    return ND_OK;
}

static int check_bottomk(const complaint *to, const nd_scheme *scheme)
{
    int status = check_range(to, "k", scheme->k, 1, K_MAX);
    if (status == ND_OK)
        status = check_threshold(to, scheme->threshold);
    if (status == ND_OK)
        status = check_range(to, "measure", scheme->measure, ND_MEASURE_FINGERPRINT, ND_MEASURE_ESTIMATE);
    if (status == ND_OK)
        status = check_range(to, "containment", scheme->containment, 0, 1);
    if (status == ND_OK && scheme->plan != ND_PLAN_PREFIX)
        status = refuse(to, "plan is %d; bottom-k fingerprints are found by prefixes (%d)", scheme->plan, ND_PLAN_PREFIX);
    return status;
}

int nd_scheme_check(const nd_scheme *scheme, char *message, size_t message_size)
{
    complaint to = {message, message_size};
    if (message_size > 0)
        message[0] = '\0';
    switch (scheme->kind) {
    case ND_SCHEME_SIMHASH:
    case ND_SCHEME_BITSAMPLING:
    case ND_SCHEME_BINARYCODE:
        return check_code(&to, scheme);
    case ND_SCHEME_MINHASH:
        return check_minhash(&to, scheme);
    case ND_SCHEME_BOTTOMK:
        return check_bottomk(&to, scheme);
    default:
        return refuse(&to, "kind of scheme is %d; it must be from %d to %d",
            scheme->kind, ND_SCHEME_SIMHASH, ND_SCHEME_BINARYCODE);
    }
}

/* ---- stored values ------------------------------------------------------------------------------------------------------ */

static size_t signature_size(const nd_scheme *scheme)
{
    return (size_t)scheme->num_perm * (size_t)scheme->slot_bits / 8;
}

static int check_ascending(const uint8_t *value, size_t size, size_t most)
{
    if (size == 0 || size % 8 != 0 || size / 8 > most)
        return ND_ERROR_DAMAGED;
    for (size_t i = 8; i < size; i += 8)
        if (nd_load64(value + i - 8) >= nd_load64(value + i))
            return ND_ERROR_DAMAGED;
    return ND_OK;
}

int nd_scheme_value_check(const nd_scheme *scheme, const uint8_t *value, size_t size)
{
    size_t expected;
    if (scheme->kind == ND_SCHEME_BOTTOMK)
        return check_ascending(value, size, (size_t)scheme->k);
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_HASHES)
        return check_ascending(value, size, SIZE_MAX);
    if (scheme->kind == ND_SCHEME_MINHASH)
        expected = signature_size(scheme) + (scheme->evidence == ND_EVIDENCE_TEXT ? TEXT_DIGEST_SIZE : 0);
    else
        expected = (size_t)scheme->bits / 8;
    return size == expected ? ND_OK : ND_ERROR_DAMAGED;
}

/* Shingles as their hashes, and as whole digests too where those are wider than 8 bytes. */
typedef struct shingles {
    const uint64_t *hashes;
    const uint8_t *digests; /* NULL where the hash says it all */
    size_t digest_size;     /* 4 or 8 where digests is NULL */
    size_t count;
} shingles;

static int append_simhash(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    size_t bits = (size_t)scheme->bits;
    if (bits > 8 * from->digest_size)
        return ND_ERROR_PARAMETER;
    uint8_t *out;
    int status = nd_reserve(&values->scratch.counters, &values->scratch.counters_capacity, bits, sizeof(int64_t));
    if (status == ND_OK)
        status = nd_values_append(values, bits / 8, token_count, &out);
    if (status != ND_OK)
        return status;
    if (from->digests != NULL)
        return nd_simhash(from->digests, from->count, from->digest_size, bits, NULL, values->scratch.counters, out);
    return nd_simhash_u64(from->hashes, from->count, 8 * from->digest_size, bits, NULL, values->scratch.counters, out);
}

int nd_scheme_add_minima(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count)
{
    size_t most = ND_MINIMA_AT_ONCE / scratch->num_perm;
    for (size_t start = 0; start < count; start += most) {
        size_t size = count - start < most ? count - start : most;
        nd_minhash_add(scheme->family, scratch->a, scratch->b, scratch->num_perm, hashes + start, size, scratch->slots);
        if (size == most && nd_watched(&scratch->watch) != ND_OK)
            return ND_ERROR_STOPPED;
    }
    return ND_OK;
}

int nd_scheme_slots(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count)
{
    size_t num_perm = (size_t)(scheme->kind == ND_SCHEME_MINHASH ? scheme->num_perm : scheme->bits);
    int status = count == 0 ? ND_ERROR_PARAMETER : nd_scratch_family(scratch, scheme->family, scheme->seed, num_perm);
    if (status != ND_OK)
        return status;
    memset(scratch->slots, 0xff, num_perm * sizeof scratch->slots[0]);
    status = nd_scheme_add_minima(scheme, scratch, hashes, count);
    if (status == ND_OK)
        nd_minhash_finish(scheme->family, num_perm, scratch->slots);
    return status;
}

void nd_scheme_pack_slots(const nd_scheme *scheme, const uint32_t *slots, uint8_t *signature)
{
    size_t slot_size = (size_t)scheme->slot_bits / 8;
    for (size_t i = 0; i < (size_t)scheme->num_perm; i++)
        memcpy(signature + i * slot_size, &slots[i], slot_size);
}

static int append_bit_sample(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    uint8_t *out;
    int status = nd_scheme_slots(scheme, &values->scratch, from->hashes, from->count);
    if (status == ND_OK)
        status = nd_values_append(values, (size_t)scheme->bits / 8, token_count, &out);
    return status == ND_OK ? nd_bit_sample(values->scratch.slots, (size_t)scheme->bits, out) : status;
}

static int append_minhash(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    uint8_t *out;
    uint64_t *distinct = NULL;
    size_t distinct_count = 0, size = signature_size(scheme);
    if (scheme->evidence != ND_EVIDENCE_NONE) {
        if (nd_scratch_hashes(&values->scratch, from->count, &distinct) != ND_OK)
            return ND_ERROR_MEMORY;
        distinct_count = distinct == from->hashes ? nd_sort_distinct(distinct, from->count)
                                                  : nd_sorted_distinct(from->hashes, from->count, distinct);
    }
    if (scheme->evidence == ND_EVIDENCE_HASHES) {
        int status = nd_values_append(values, 8 * distinct_count, token_count, &out);
        if (status == ND_OK)
            memcpy(out, distinct, 8 * distinct_count);
        return status;
    }
    int status = nd_scheme_slots(scheme, &values->scratch, from->hashes, from->count);
    if (status == ND_OK)
        status = nd_values_append(values, size + (scheme->evidence == ND_EVIDENCE_TEXT ? TEXT_DIGEST_SIZE : 0), token_count, &out);
    if (status != ND_OK)
        return status;
    nd_scheme_pack_slots(scheme, values->scratch.slots, out);
    if (scheme->evidence == ND_EVIDENCE_TEXT)
        for (uint64_t seed = 0; seed < 2; seed++) {
            uint64_t digest = nd_xxh3_64((const uint8_t *)distinct, 8 * distinct_count, seed);
            memcpy(out + size + 8 * seed, &digest, 8);
        }
    return ND_OK;
}

static int append_bottom_k(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    /* The hashes themselves may stand in the scratch: the smallest go behind them. */
    size_t most = from->count < (size_t)scheme->k ? from->count : (size_t)scheme->k, kept;
    size_t held = from->hashes == values->scratch.hashes ? from->count : 0;
    uint64_t *scratch;
    int status = nd_scratch_hashes(&values->scratch, held + most, &scratch);
    if (status != ND_OK)
        return status;
    status = nd_bottom_k(held > 0 ? scratch : from->hashes, from->count, most, scratch + held, &kept);
    uint8_t *out;
    if (status == ND_OK)
        status = nd_values_append(values, 8 * kept, token_count, &out);
    if (status == ND_OK)
        memcpy(out, scratch + held, 8 * kept);
    return status;
}

static int append_shingles(const nd_scheme *scheme, const shingles *from, size_t token_count, nd_values *values)
{
    size_t before = values->count;
    uint8_t *nothing;
    int status;
    if (from->count == 0 && scheme->kind != ND_SCHEME_BINARYCODE)
        return nd_values_append(values, 0, token_count, &nothing);
    switch (scheme->kind) {
    case ND_SCHEME_SIMHASH:
        status = append_simhash(scheme, from, token_count, values);
        break;
    case ND_SCHEME_MINHASH:
        status = append_minhash(scheme, from, token_count, values);
        break;
    case ND_SCHEME_BOTTOMK:
        status = append_bottom_k(scheme, from, token_count, values);
        break;
    case ND_SCHEME_BITSAMPLING:
        status = append_bit_sample(scheme, from, token_count, values);
        break;
    default:
        status = ND_ERROR_PARAMETER; /* codes are brought, not made from text */
    }
    if (status != ND_OK)
        nd_values_truncate(values, before);
    return status;
}

int nd_scheme_append_work(const nd_scheme *scheme, const nd_rules *rules, const nd_text *work, nd_values *values)
{
    shingles from = {
        .hashes = nd_text_hashes(work),
        .digests = nd_text_digests(work),
        .digest_size = nd_hash_size(rules->spec.hash),
        .count = nd_text_shingle_count(work, rules),
    };
    return append_shingles(scheme, &from, nd_text_token_count(work), values);
}

int nd_scheme_append_texts(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *const *texts,
    const size_t *sizes, size_t count, nd_values *values)
{
    size_t before = values->count;
    int status = ND_OK;
    for (size_t i = 0; i < count && status == ND_OK; i++) {
        if (sizes[i] >= ND_LARGE_TEXT && nd_scheme_streams(scheme, rules)) {
            status = nd_scheme_append_large(scheme, rules, work, texts[i], sizes[i], values);
            continue;
        }
        status = nd_text_tokenize(work, rules, texts[i], sizes[i]);
        if (status == ND_OK)
            status = nd_text_hash(work, rules);
        if (status == ND_OK)
            status = nd_scheme_append_work(scheme, rules, work, values);
    }
    if (status != ND_OK)
        nd_values_truncate(values, before);
    return status;
}

int nd_scheme_append_digests(const nd_scheme *scheme, const uint8_t *digests, size_t digest_size, size_t count,
    size_t token_count, nd_values *values)
{
    if (digest_size == 0)
        return ND_ERROR_PARAMETER;
    uint64_t *hashes;
    int status = nd_scratch_hashes(&values->scratch, count, &hashes);
    if (status != ND_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        hashes[i] = nd_load_big(digests + i * digest_size, digest_size < 8 ? digest_size : 8);
    shingles from = {.hashes = hashes, .digests = digests, .digest_size = digest_size, .count = count};
    return append_shingles(scheme, &from, token_count, values);
}

/* ---- the rule ------------------------------------------------------------------------------------------------------------ */

int nd_scheme_similarity(const nd_scheme *scheme, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
    double *similarity, int64_t *distance)
{
    if (nd_scheme_value_check(scheme, a, a_size) != ND_OK || nd_scheme_value_check(scheme, b, b_size) != ND_OK)
        return ND_ERROR_DAMAGED;
    const nd_kernels *kernels = nd_kernels_active();
    *distance = -1;
    if (scheme->kind == ND_SCHEME_BOTTOMK && scheme->measure == ND_MEASURE_ESTIMATE) {
        *similarity = nd_jaccard_estimate_bytes(a, a_size / 8, b, b_size / 8, (size_t)scheme->k);
    } else if (scheme->kind == ND_SCHEME_BOTTOMK || (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_HASHES)) {
        *similarity = nd_jaccard_bytes(a, a_size / 8, b, b_size / 8, 0);
    } else if (scheme->kind == ND_SCHEME_MINHASH) {
        size_t num_perm = (size_t)scheme->num_perm;
        size_t equal = scheme->slot_bits == 16 ? kernels->equal_slots16(a, b, num_perm) : kernels->equal_slots32(a, b, num_perm);
        *similarity = (double)equal / (double)num_perm;
    } else {
        /* One-bit samples of sets with Jaccard J differ in (1 - J) / 2 of their bits: the slope of 2 makes it an estimate of J. */
        double slope = scheme->kind == ND_SCHEME_BITSAMPLING ? 2.0 : 1.0;
        uint64_t differing = kernels->hamming(a, b, a_size);
        double measured = 1.0 - slope * (double)differing / (double)scheme->bits;
        *distance = (int64_t)differing;
        *similarity = measured > 0 ? measured : 0.0;
    }
    return ND_OK;
}
