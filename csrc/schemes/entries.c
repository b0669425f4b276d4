/* entries.c: the entries of one row of a bucket: codes and the ids of the fingerprints that have them, packed. */
#include "kernels/kernels.h"
#include "schemes/schemes.h"

#define HASH_BYTES 4
#define HEAD_BYTES (HASH_BYTES + 1)

static uint32_t entries_hash(const uint8_t *bytes, size_t size)
{
    return (uint32_t)nd_xxh3_64(bytes + HASH_BYTES, size - HASH_BYTES, 0);
}

int nd_entries_read(const uint8_t *bytes, size_t size, size_t code_size, nd_entries *out)
{
    uint32_t hash;
    if (size <= HEAD_BYTES || code_size == 0)
        return ND_ERROR_DAMAGED;
    memcpy(&hash, bytes, sizeof hash);
    out->id_size = bytes[HASH_BYTES];
    if (out->id_size < 1 || out->id_size > 8 || (size - HEAD_BYTES) % (code_size + out->id_size) != 0 ||
        hash != entries_hash(bytes, size))
        return ND_ERROR_DAMAGED;
    out->code_size = code_size;
    out->count = (size - HEAD_BYTES) / (code_size + out->id_size);
    out->codes = bytes + HEAD_BYTES;
    out->ids = out->codes + out->count * code_size;
    return out->count <= UINT32_MAX ? ND_OK : ND_ERROR_DAMAGED;
}

int64_t nd_entries_id(const nd_entries *entries, size_t place)
{
    uint64_t id = 0;
    memcpy(&id, entries->ids + place * entries->id_size, entries->id_size);
    return (int64_t)id;
}

size_t nd_entries_near(const nd_entries *entries, const uint8_t *code, uint64_t max_distance, uint32_t *out)
{
    return nd_kernels_active()->keep_near(entries->codes, entries->count, entries->code_size, code, max_distance, out);
}

static size_t id_size(const int64_t *ids, size_t count)
{
    uint64_t all = 0;
    size_t size = 1;
    for (size_t i = 0; i < count; i++)
        all |= (uint64_t)ids[i];
    while (size < 8 && all >> 8 * size != 0)
        size++;
    return size;
}

size_t nd_entries_size(const int64_t *ids, size_t count, size_t code_size)
{
    return HEAD_BYTES + count * (code_size + id_size(ids, count));
}

void nd_entries_write(const int64_t *ids, const uint8_t *codes, size_t count, size_t code_size, uint8_t *out)
{
    size_t width = id_size(ids, count);
    uint8_t *at = out + HEAD_BYTES;
    out[HASH_BYTES] = (uint8_t)width;
    memcpy(at, codes, count * code_size);
    at += count * code_size;
    for (size_t i = 0; i < count; i++)
        memcpy(at + i * width, &ids[i], width);
    uint32_t hash = entries_hash(out, HEAD_BYTES + count * (code_size + width));
    memcpy(out, &hash, sizeof hash);
}
