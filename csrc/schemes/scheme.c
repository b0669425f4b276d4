/* scheme.c: what the six schemes are: their parameters, the layout of a stored value, and the rule that verifies.
 *
 * Stored values, by scheme:
 *     SimHash, one-bit samples, codes   bits / 8 bytes, the code
 *     MinHash                           num_perm slots of slot_bits / 8 bytes: the signature
 *     MinHash, evidence PACKED          40 bits of each distinct shingle hash, mixed, as nd_set_write lays them out; the signature is
 *                                       computed from them
 *     passages                          4 bytes for each token: its hash, in their order
 *     bottom-k                          8 bytes for each of the k smallest distinct hashes, ascending
 * Every number is little-endian. No text without shingles has a value, and none that is shorter than a passage. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "schemes/schemes.h"

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
    int32_t most = scheme->bits < ND_BLOCKS_MAX ? scheme->bits : ND_BLOCKS_MAX;
    if (scheme->max_distance >= most)
        return refuse(to, "max_distance is %d; block tables of %d bits serve distances below %d: use chunk tables or a scan",
            scheme->max_distance, scheme->bits, most);
    if (scheme->blocks <= scheme->max_distance || scheme->blocks > most)
        return refuse(to, "blocks is %d; with max_distance %d and %d bits it must be from %d to %d", scheme->blocks,
            scheme->max_distance, scheme->bits, scheme->max_distance + 1, most);
    size_t tables = nd_block_table_count((size_t)scheme->blocks, (size_t)scheme->max_distance);
    if (tables == 0 || tables > ND_TABLES_MAX)
        return refuse(to, "blocks is %d; with max_distance %d that would need more than %d tables: use fewer blocks",
            scheme->blocks, scheme->max_distance, ND_TABLES_MAX);
    return ND_OK;
}

static int check_chunks(const complaint *to, const nd_scheme *scheme)
{
    int32_t most = scheme->bits < ND_CHUNKS_MAX ? scheme->bits : ND_CHUNKS_MAX;
    if (scheme->chunks < 1 || scheme->chunks > most)
        return refuse(to, "chunks is %d; with %d bits it must be from 1 to %d", scheme->chunks, scheme->bits, most);
    if (scheme->bits > scheme->chunks * ND_CHUNK_BITS_MAX)
        return refuse(to, "chunks is %d; with %d bits a chunk would be wider than %d bits: use at least %d", scheme->chunks,
            scheme->bits, ND_CHUNK_BITS_MAX, (scheme->bits + ND_CHUNK_BITS_MAX - 1) / ND_CHUNK_BITS_MAX);
    if (nd_chunk_probe_count((size_t)scheme->bits, (size_t)scheme->chunks, (size_t)scheme->max_distance) > ND_PROBES_MAX)
        return refuse(to,
            "chunks is %d; with max_distance %d and %d bits a query would probe more than %d values: use more chunks or a scan",
            scheme->chunks, scheme->max_distance, scheme->bits, ND_PROBES_MAX);
    return ND_OK;
}

static int check_family(const complaint *to, const nd_scheme *scheme)
{
    if (scheme->family != ND_FAMILY_AFFINE32 && scheme->family != ND_FAMILY_JAVA32)
        return refuse(to, "family is %d; it must be %d (affine32) or %d (java32)", scheme->family, ND_FAMILY_AFFINE32,
            ND_FAMILY_JAVA32);
    return ND_OK;
}

static int check_code(const complaint *to, const nd_scheme *scheme)
{
    if (scheme->bits < 8 || scheme->bits > ND_BITS_MAX || scheme->bits % 8 != 0)
        return refuse(to, "bits is %d; it must be a multiple of 8 from 8 to %d", scheme->bits, ND_BITS_MAX);
    ND_TRY(check_range(to, "max_distance", scheme->max_distance, 0, scheme->bits));
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
    ND_TRY(check_range(to, "num_perm", scheme->num_perm, 1, ND_NUM_PERM_MAX));
    ND_TRY(check_threshold(to, scheme->threshold));
    ND_TRY(check_range(to, "rows", scheme->rows, 1, scheme->num_perm));
    ND_TRY(check_family(to, scheme));
    ND_TRY(check_range(to, "evidence", scheme->evidence, ND_EVIDENCE_NONE, ND_EVIDENCE_PACKED));
    if (scheme->bands < 1 || scheme->bands > scheme->num_perm / scheme->rows)
        return refuse(to, "bands is %d; with %d rows and num_perm %d it must be from 1 to %d", scheme->bands, scheme->rows,
            scheme->num_perm, scheme->num_perm / scheme->rows);
    if (scheme->slot_bits != 16 && scheme->slot_bits != 32)
        return refuse(to, "slot_bits is %d; it must be 16 or 32", scheme->slot_bits);
    if (scheme->plan != ND_PLAN_BANDS)
        return refuse(to, "plan is %d; MinHash signatures are found by bands (%d)", scheme->plan, ND_PLAN_BANDS);
    return ND_OK;
}

static int check_bottomk(const complaint *to, const nd_scheme *scheme)
{
    ND_TRY(check_range(to, "k", scheme->k, 1, ND_K_MAX));
    ND_TRY(check_threshold(to, scheme->threshold));
    ND_TRY(check_range(to, "measure", scheme->measure, ND_MEASURE_FINGERPRINT, ND_MEASURE_ESTIMATE));
    ND_TRY(check_range(to, "containment", scheme->containment, 0, 1));
    if (scheme->plan != ND_PLAN_PREFIX)
        return refuse(to, "plan is %d; bottom-k fingerprints are found by prefixes (%d)", scheme->plan, ND_PLAN_PREFIX);
    return ND_OK;
}

static int check_passages(const complaint *to, const nd_scheme *scheme)
{
    ND_TRY(check_range(to, "shortest", scheme->shortest, ND_SHORTEST_MIN, ND_SHORTEST_MAX));
    ND_TRY(check_range(to, "k", scheme->k, 1, scheme->shortest));
    if (scheme->threshold != 0)
        ND_TRY(check_threshold(to, scheme->threshold));
    if (scheme->plan != ND_PLAN_WINNOW)
        return refuse(to, "plan is %d; passages are found by winnowing (%d)", scheme->plan, ND_PLAN_WINNOW);
    return ND_OK;
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
    case ND_SCHEME_PASSAGES:
        return check_passages(&to, scheme);
    default:
        return refuse(&to, "kind of scheme is %d; it must be from %d to %d", scheme->kind, ND_SCHEME_SIMHASH, ND_SCHEME_PASSAGES);
    }
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
    if (scheme->kind == ND_SCHEME_PASSAGES)
        return size % 4 == 0 && size / 4 >= (size_t)scheme->shortest ? ND_OK : ND_ERROR_DAMAGED;
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_HASHES)
        return check_ascending(value, size, SIZE_MAX);
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_PACKED)
        return nd_set_read(value, size, NULL);
    if (scheme->kind == ND_SCHEME_MINHASH)
        expected = nd_signature_size(scheme);
    else
        expected = (size_t)scheme->bits / 8;
    return size == expected ? ND_OK : ND_ERROR_DAMAGED;
}

/* Of two packed sets that were checked. */
static int packed_similarity(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, double *similarity)
{
    const size_t a_count = nd_set_count(a_size), b_count = nd_set_count(b_size);
    uint64_t *numbers = malloc((a_count + b_count) * sizeof *numbers);
    if (numbers == NULL)
        return ND_ERROR_MEMORY;
    int status = nd_set_read(a, a_size, numbers);
    if (status == ND_OK)
        status = nd_set_read(b, b_size, numbers + a_count);
    if (status == ND_OK)
        *similarity = nd_jaccard(numbers, a_count, numbers + a_count, b_count, 0);
    free(numbers);
    return status;
}

int nd_scheme_similarity(const nd_scheme *scheme, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
    double *similarity, int64_t *distance)
{
    if (nd_scheme_value_check(scheme, a, a_size) != ND_OK || nd_scheme_value_check(scheme, b, b_size) != ND_OK)
        return ND_ERROR_DAMAGED;
    *distance = -1;
    if (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_PACKED)
        return packed_similarity(a, a_size, b, b_size, similarity);
    if (scheme->kind == ND_SCHEME_PASSAGES)
        return nd_passages_similarity(a, a_size, b, b_size, (size_t)scheme->shortest, similarity);
    if (scheme->kind == ND_SCHEME_BOTTOMK && scheme->measure == ND_MEASURE_ESTIMATE) {
        *similarity = nd_jaccard_estimate(a, a_size / 8, b, b_size / 8, (size_t)scheme->k);
    } else if (scheme->kind == ND_SCHEME_BOTTOMK ||
               (scheme->kind == ND_SCHEME_MINHASH && scheme->evidence == ND_EVIDENCE_HASHES)) {
        *similarity = nd_jaccard(a, a_size / 8, b, b_size / 8, 0);
    } else if (scheme->kind == ND_SCHEME_MINHASH) {
        size_t num_perm = (size_t)scheme->num_perm;
        *similarity = (double)nd_equal_slots(a, b, num_perm, scheme->slot_bits) / (double)num_perm;
    } else {
        uint64_t differing = nd_hamming(a, b, a_size);
        double measured = 1.0 - nd_scheme_slope(scheme) * (double)differing / (double)scheme->bits;
        *distance = (int64_t)differing;
        *similarity = measured > 0 ? measured : 0.0;
    }
    return ND_OK;
}

int nd_scheme_is_like(const nd_scheme *scheme, const uint8_t *value, size_t size, const uint8_t *others, const uint64_t *ends,
    size_t count, int *like)
{
    nd_bounds bounds;
    double similarity;
    int64_t distance;
    nd_scheme_bounds(scheme, 0, &bounds);
    *like = 0;
    for (size_t i = 0; i < count && !*like; i++) {
        const uint64_t start = i == 0 ? 0 : ends[i - 1];
        ND_TRY(nd_scheme_similarity(scheme, value, size, others + start, (size_t)(ends[i] - start), &similarity, &distance));
        *like = similarity >= bounds.threshold && distance <= bounds.max_distance;
    }
    return ND_OK;
}
