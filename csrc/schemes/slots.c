/* slots.c: the min-hash slots of a MinHash or BitSampling scheme, and their packing into a signature. */
#include "schemes/schemes.h"

/* The hashes of a packed value are mixed already: whatever the family of its signatures is, its keys are those of affine32. */
static int32_t family_of(const nd_scheme *scheme)
{
    return scheme->evidence == ND_EVIDENCE_PACKED ? ND_FAMILY_AFFINE32 : scheme->family;
}

int nd_scheme_begin_slots(const nd_scheme *scheme, nd_scratch *scratch)
{
    size_t num_perm = (size_t)(scheme->kind == ND_SCHEME_MINHASH ? scheme->num_perm : scheme->bits);
    ND_TRY(nd_scratch_family(scratch, family_of(scheme), scheme->seed, num_perm));
    memset(scratch->slots, 0xff, num_perm * sizeof scratch->slots[0]);
    return ND_OK;
}

int nd_scheme_add_minima(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count)
{
    const size_t most = ND_MINIMA_AT_ONCE / scratch->num_perm;
    const int32_t family = scheme->evidence == ND_EVIDENCE_PACKED ? ND_FAMILY_MIXED : scheme->family;
    for (size_t start = 0; start < count; start += most) {
        size_t size = count - start < most ? count - start : most;
        nd_minhash_add(family, scratch->a, scratch->b, scratch->num_perm, hashes + start, size, scratch->slots);
        if (size == most && nd_watched(&scratch->watch) != ND_OK)
            return ND_ERROR_STOPPED;
    }
    return ND_OK;
}

int nd_scheme_slots(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count)
{
    ND_TRY(count == 0 ? ND_ERROR_PARAMETER : nd_scheme_begin_slots(scheme, scratch));
    ND_TRY(nd_scheme_add_minima(scheme, scratch, hashes, count));
    nd_minhash_finish(family_of(scheme), scratch->num_perm, scratch->slots);
    return ND_OK;
}

void nd_scheme_pack_slots(const nd_scheme *scheme, const uint32_t *slots, uint8_t *signature)
{
    const size_t num_perm = (size_t)scheme->num_perm;
    if (scheme->slot_bits == 32) {
        memcpy(signature, slots, 4 * num_perm);
        return;
    }
    for (size_t i = 0; i < num_perm; i++)
        memcpy(signature + 2 * i, &slots[i], 2); /* a size that the compiler knows: else each is a call */
}
