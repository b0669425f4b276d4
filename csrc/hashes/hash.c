/* hash.c: the hashes by number, and the small ones. Every digest is big-endian: its first byte holds the most significant bits. */
#include "hashes/digest.h"
#include "hashes/xxh3.h"

/* FNV-1a (Fowler, Noll, Vo): XOR a byte, multiply by the prime. */
static uint32_t fnv1a_32(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 16777619U;
    return hash;
}

static uint64_t fnv1a_64(const uint8_t *data, size_t size)
{
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 1099511628211U;
    return hash;
}

/* Bernstein's hash in its XOR form. */
static uint32_t djb2a(const uint8_t *data, size_t size)
{
    uint32_t hash = 5381;
    for (size_t i = 0; i < size; i++)
        hash = (hash * 33) ^ data[i];
    return hash;
}

static void write_big(uint64_t value, size_t size, uint8_t *digest)
{
    for (size_t i = 0; i < size; i++)
        digest[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

size_t nd_hash_size(int32_t hash)
{
    static const uint8_t sizes[] = {8, 4, 8, 4, 16, 20, 32};
    return hash >= ND_HASH_XXH3_64 && hash <= ND_HASH_SHA256 ? sizes[hash] : 0;
}

int nd_hash_bytes(int32_t hash, uint64_t seed, const uint8_t *data, size_t size, uint8_t *digest)
{
    switch (hash) {
    case ND_HASH_XXH3_64:
        write_big(nd_xxh3_inline(data, size, seed), 8, digest);
        return ND_OK;
    case ND_HASH_FNV1A_32:
        write_big(fnv1a_32(data, size), 4, digest);
        return ND_OK;
    case ND_HASH_FNV1A_64:
        write_big(fnv1a_64(data, size), 8, digest);
        return ND_OK;
    case ND_HASH_DJB2A:
        write_big(djb2a(data, size), 4, digest);
        return ND_OK;
    case ND_HASH_MD5:
        nd_digest_md5(data, size, digest);
        return ND_OK;
    case ND_HASH_SHA1:
        nd_digest_sha1(data, size, digest);
        return ND_OK;
    case ND_HASH_SHA256:
        nd_digest_sha256(data, size, digest);
        return ND_OK;
    default:
        return ND_ERROR_PARAMETER;
    }
}

void nd_hash_values(const uint8_t *bytes, const uint64_t *ends, size_t count, uint64_t *hashes)
{
    uint64_t start = 0;
    for (size_t i = 0; i < count; i++) {
        hashes[i] = nd_xxh3_64(bytes + start, (size_t)(ends[i] - start), 0);
        start = ends[i];
    }
}
