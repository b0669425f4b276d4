/* banding.c: how a fingerprint is cut into keys: permuted blocks, chunks and their neighbours, bands, prefixes. */
#include "schemes/schemes.h"

#define BLOCKS_MAX 256
#define BLOCK_TABLES_MAX 100000

uint64_t nd_binomial(size_t n, size_t r, uint64_t limit)
{
    if (r > n)
        return 0;
    if (r > n - r)
        r = n - r;
    uint64_t value = 1;
    /* After step i the value is C(n, i + 1), which grows up to the middle: above the limit it stays there. */
    for (size_t i = 0; i < r; i++) {
        value = value * (n - i) / (i + 1);
        if (value > limit)
            return limit + 1;
    }
    return value;
}

/* ---- blocks (Manku, Jain and Das Sarma 2007) ------------------------------------------------------------------------ */

size_t nd_block_table_count(size_t blocks, size_t distance)
{
    if (blocks > BLOCKS_MAX || distance >= blocks)
        return 0;
    uint64_t count = nd_binomial(blocks, distance, BLOCK_TABLES_MAX);
    return count > BLOCK_TABLES_MAX ? 0 : (size_t)count;
}

/* The index-th choice of m - distance out of m places, place 0 being the most significant block m - 1: at each place, the
 * choices that take it come first, C(places left, still to take - 1) of them. */
int nd_block_table(size_t blocks, size_t distance, size_t index, uint8_t *order)
{
    size_t tables = nd_block_table_count(blocks, distance);
    if (index >= tables)
        return ND_ERROR_PARAMETER;
    size_t leading = 0, trailing = blocks - distance;
    for (size_t place = 0; place < blocks; place++) {
        uint8_t block = (uint8_t)(blocks - 1 - place);
        size_t to_take = blocks - distance - leading;
        size_t with = to_take == 0 ? 0 : (size_t)nd_binomial(block, to_take - 1, BLOCK_TABLES_MAX);
        if (index < with) {
            order[leading++] = block;
        } else {
            index -= with;
            order[trailing++] = block;
        }
    }
    return ND_OK;
}

size_t nd_block_prefix_bits(size_t bits, size_t blocks, size_t distance, const uint8_t *order)
{
    size_t prefix = 0;
    for (size_t i = 0; i + distance < blocks; i++)
        prefix += nd_block_start(bits, blocks, (size_t)order[i] + 1) - nd_block_start(bits, blocks, order[i]);
    return prefix;
}

/* Bits gathered until whole bytes can be written. */
typedef struct bit_writer {
    uint8_t *out;
    uint64_t pending;
    size_t pending_bits; /* below 8 between the calls */
} bit_writer;

static void write_bits(bit_writer *writer, uint64_t value, size_t width)
{
    writer->pending = writer->pending << width | value;
    writer->pending_bits += width;
    while (writer->pending_bits >= 8) {
        writer->pending_bits -= 8;
        *writer->out++ = (uint8_t)(writer->pending >> writer->pending_bits);
    }
}

uint64_t nd_block_number(const nd_scheme *scheme, const uint8_t *value, const uint8_t *order, size_t prefix)
{
    uint8_t leading[ND_CODE_BYTES_MAX];
    const size_t bits = (size_t)scheme->bits, blocks = (size_t)scheme->blocks, size = (prefix + 7) / 8;
    const uint64_t code = bits <= 64 ? nd_load_big(value, bits / 8) : 0;
    bit_writer writer = {leading, 0, 0};
    uint64_t number = 0;
    for (size_t i = 0; i + (size_t)scheme->max_distance < blocks; i++) {
        const size_t start = nd_block_start(bits, blocks, order[i]), end = nd_block_start(bits, blocks, (size_t)order[i] + 1);
        if (bits <= 64) {
            number = end - start == 64 ? code : number << (end - start) | (code >> start & (((uint64_t)1 << (end - start)) - 1));
            continue;
        }
        for (size_t at = bits - end, width; at < bits - start; at += width) {
            width = bits - start - at < 48 ? bits - start - at : 48;
            write_bits(&writer, nd_read_bits(value, at, width), width);
        }
    }
    if (bits <= 64)
        return number;
    write_bits(&writer, 0, 8 * size - prefix);
    return prefix > 64 ? nd_xxh3_64(leading, size, 0) : nd_load_big(leading, size) >> (8 * size - prefix);
}

/* ---- chunks (multi-index hashing, Norouzi, Punjani and Fleet 2012) --------------------------------------------------- */

size_t nd_chunk_bits(size_t bits, size_t chunks, size_t chunk)
{
    if (chunk >= chunks)
        return 0;
    size_t block = chunks - 1 - chunk;
    return nd_block_start(bits, chunks, block + 1) - nd_block_start(bits, chunks, block);
}

int nd_split_chunks(const uint8_t *code, size_t bits, size_t chunks, uint64_t *out)
{
    if (bits % 8 != 0 || chunks == 0 || chunks > bits || (bits + chunks - 1) / chunks > 64)
        return ND_ERROR_PARAMETER;
    size_t at = 0;
    for (size_t i = 0; i < chunks; i++) {
        size_t width = nd_chunk_bits(bits, chunks, i), head = width > 48 ? width - 48 : 0;
        out[i] = head > 0 ? nd_read_bits(code, at, head) << 48 : 0;
        out[i] |= nd_read_bits(code, at + head, width - head);
        at += width;
    }
    return ND_OK;
}

int nd_chunk_radius(size_t chunks, size_t distance, size_t chunk)
{
    if (chunk >= chunks)
        return -1;
    int radius = (int)(distance / chunks);
    return chunk <= distance % chunks ? radius : radius - 1;
}

uint64_t nd_neighbour_count(size_t bits, size_t radius)
{
    const uint64_t most = (uint64_t)1 << 63;
    uint64_t count = 0, at_distance = 1;
    for (size_t i = 0; i <= radius && i <= bits; i++) {
        if (at_distance > most - count)
            return UINT64_MAX;
        count += at_distance;
        /* C(bits, i + 1) from C(bits, i); the product may need more than 64 bits. */
        uint64_t whole = at_distance / (i + 1), part = at_distance % (i + 1);
        if (i < bits && whole > most / (bits - i))
            at_distance = UINT64_MAX;
        else
            at_distance = whole * (bits - i) + part * (bits - i) / (i + 1);
    }
    return count;
}

int nd_neighbours(uint64_t chunk, size_t bits, size_t radius, uint64_t *out, size_t capacity, size_t *count)
{
    if (bits == 0 || bits > 64)
        return ND_ERROR_PARAMETER;
    uint64_t needed = nd_neighbour_count(bits, radius);
    *count = needed > SIZE_MAX ? SIZE_MAX : (size_t)needed;
    if (needed > capacity)
        return ND_ERROR_CAPACITY;
    *out++ = chunk;
    for (size_t flips = 1; flips <= radius && flips <= bits; flips++) {
        /* The places flipped, ascending, 0 the most significant bit; next in lexicographic order: the last that can move on
         * does, those behind it follow at its heels. */
        size_t places[64];
        for (size_t i = 0; i < flips; i++)
            places[i] = i;
        for (;;) {
            uint64_t mask = 0;
            for (size_t i = 0; i < flips; i++)
                mask |= (uint64_t)1 << (bits - 1 - places[i]);
            *out++ = chunk ^ mask;
            size_t moving = flips;
            while (moving > 0 && places[moving - 1] == bits - flips + moving - 1)
                moving--;
            if (moving == 0)
                break;
            places[moving - 1]++;
            for (size_t i = moving; i < flips; i++)
                places[i] = places[i - 1] + 1;
        }
    }
    return ND_OK;
}

uint64_t nd_chunk_probe_count(size_t bits, size_t chunks, size_t distance)
{
    uint64_t total = 0;
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        int radius = nd_chunk_radius(chunks, distance, chunk);
        uint64_t probes = radius < 0 ? 0 : nd_neighbour_count(nd_chunk_bits(bits, chunks, chunk), (size_t)radius);
        if (probes > UINT64_MAX - total)
            return UINT64_MAX;
        total += probes;
    }
    return total;
}

/* ---- bands ------------------------------------------------------------------------------------------------------------ */

int nd_band_buckets(const uint8_t *signature, size_t num_perm, size_t slot_size, size_t bands, size_t rows, int32_t *buckets)
{
    if ((slot_size != 2 && slot_size != 4) || rows == 0 || bands > num_perm / rows)
        return ND_ERROR_PARAMETER;
    for (size_t band = 0; band < bands; band++)
        buckets[band] = (int32_t)nd_xxh3_64(signature + band * rows * slot_size, rows * slot_size, band);
    return ND_OK;
}
