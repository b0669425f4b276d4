/* hash.c: the hashes by number. Every digest is big-endian: its first byte holds the most significant bits. */
#include "hashes/xxh3.h"

static void write_big(uint64_t value, size_t size, uint8_t *digest)
{
    for (size_t i = 0; i < size; i++)
        digest[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

/* ---- small ones ------------------------------------------------------------------------------------------------------------ */

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

/* ---- MD5 (RFC 1321), SHA-1 and SHA-256 (FIPS 180-4) ----------------------------------------------------------------------
 *
 * They are here because fingerprints of other libraries are built on them and must be reproduced; nothing in this project relies on
 * them for security. */

#define BLOCK_SIZE 64

static inline uint32_t rotate(uint32_t value, int bits)
{
    return (value << bits) | (value >> (32 - bits));
}

static inline uint32_t read_little(const uint8_t *data)
{
    return (uint32_t)data[0] | ((uint32_t)data[1] << 8) | ((uint32_t)data[2] << 16) | ((uint32_t)data[3] << 24);
}

static inline uint32_t read_big(const uint8_t *data)
{
    return ((uint32_t)data[0] << 24) | ((uint32_t)data[1] << 16) | ((uint32_t)data[2] << 8) | (uint32_t)data[3];
}

/* floor(2^32 * |sin(i + 1)|) */
/* clang-format off */
static const uint32_t md5_constants[64] = {
    0xd76aa478U, 0xe8c7b756U, 0x242070dbU, 0xc1bdceeeU, 0xf57c0fafU, 0x4787c62aU, 0xa8304613U, 0xfd469501U,
    0x698098d8U, 0x8b44f7afU, 0xffff5bb1U, 0x895cd7beU, 0x6b901122U, 0xfd987193U, 0xa679438eU, 0x49b40821U,
    0xf61e2562U, 0xc040b340U, 0x265e5a51U, 0xe9b6c7aaU, 0xd62f105dU, 0x02441453U, 0xd8a1e681U, 0xe7d3fbc8U,
    0x21e1cde6U, 0xc33707d6U, 0xf4d50d87U, 0x455a14edU, 0xa9e3e905U, 0xfcefa3f8U, 0x676f02d9U, 0x8d2a4c8aU,
    0xfffa3942U, 0x8771f681U, 0x6d9d6122U, 0xfde5380cU, 0xa4beea44U, 0x4bdecfa9U, 0xf6bb4b60U, 0xbebfbc70U,
    0x289b7ec6U, 0xeaa127faU, 0xd4ef3085U, 0x04881d05U, 0xd9d4d039U, 0xe6db99e5U, 0x1fa27cf8U, 0xc4ac5665U,
    0xf4292244U, 0x432aff97U, 0xab9423a7U, 0xfc93a039U, 0x655b59c3U, 0x8f0ccc92U, 0xffeff47dU, 0x85845dd1U,
    0x6fa87e4fU, 0xfe2ce6e0U, 0xa3014314U, 0x4e0811a1U, 0xf7537e82U, 0xbd3af235U, 0x2ad7d2bbU, 0xeb86d391U,
};
/* clang-format on */

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
/* clang-format off */
static const uint32_t sha256_constants[64] = {
    0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U, 0xab1c5ed5U,
    0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU, 0x9bdc06a7U, 0xc19bf174U,
    0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU, 0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU,
    0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U, 0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U,
    0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU, 0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U,
    0xa2bfe8a1U, 0xa81a664bU, 0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U,
    0x19a4c116U, 0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
    0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U, 0xc67178f2U,
};
/* clang-format on */

static void md5_block(uint32_t state[8], const uint8_t *block)
{
    static const uint8_t shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const uint8_t index_factor[4] = {1, 5, 3, 7};
    static const uint8_t index_start[4] = {0, 1, 5, 0};
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        const unsigned round = i / 16;
        const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                               : round == 1 ? (d & b) | (~d & c)
                               : round == 2 ? b ^ c ^ d
                                            : c ^ (b | ~d);
        const unsigned word = (index_factor[round] * i + index_start[round]) % 16;
        const uint32_t sum = a + mixed + md5_constants[i] + read_little(block + 4 * word);
        a = d;
        d = c;
        c = b;
        b += rotate(sum, shifts[round][i % 4]);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

static void sha1_block(uint32_t state[8], const uint8_t *block)
{
    static const uint32_t constants[4] = {0x5a827999U, 0x6ed9eba1U, 0x8f1bbcdcU, 0xca62c1d6U};
    uint32_t words[80];
    for (unsigned i = 0; i < 16; i++)
        words[i] = read_big(block + 4 * i);
    for (unsigned i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (unsigned i = 0; i < 80; i++) {
        const unsigned round = i / 20;
        const uint32_t mixed = round == 0 ? (b & c) | (~b & d) : round == 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        const uint32_t sum = rotate(a, 5) + mixed + e + constants[round] + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = sum;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

static void sha256_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t words[64];
    for (unsigned i = 0; i < 16; i++)
        words[i] = read_big(block + 4 * i);
    for (unsigned i = 16; i < 64; i++) {
        const uint32_t early = words[i - 15], late = words[i - 2];
        const uint32_t sigma0 = rotate(early, 25) ^ rotate(early, 14) ^ (early >> 3);
        const uint32_t sigma1 = rotate(late, 15) ^ rotate(late, 13) ^ (late >> 10);
        words[i] = words[i - 16] + sigma0 + words[i - 7] + sigma1;
    }
    uint32_t v[8];
    memcpy(v, state, sizeof v);
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t sum1 = rotate(v[4], 26) ^ rotate(v[4], 21) ^ rotate(v[4], 7);
        const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t first = v[7] + sum1 + choice + sha256_constants[i] + words[i];
        const uint32_t sum0 = rotate(v[0], 30) ^ rotate(v[0], 19) ^ rotate(v[0], 10);
        const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += first;
        v[0] = first + sum0 + majority;
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] += v[i];
}

/* What the three have in common: whole blocks, then the rest with one bit 1, zeros and the length in bits. */
static void digest_all(void (*step)(uint32_t *, const uint8_t *), uint32_t state[8], const uint8_t *data, size_t size,
    int big_endian)
{
    const uint64_t size_bits = (uint64_t)size * 8;
    while (size >= BLOCK_SIZE) {
        step(state, data);
        data += BLOCK_SIZE;
        size -= BLOCK_SIZE;
    }
    uint8_t tail[2 * BLOCK_SIZE] = {0};
    if (size > 0)
        memcpy(tail, data, size);
    tail[size] = 0x80;
    const size_t tail_size = size < BLOCK_SIZE - 8 ? BLOCK_SIZE : 2 * BLOCK_SIZE;
    for (unsigned i = 0; i < 8; i++)
        tail[tail_size - 8 + i] = (uint8_t)(size_bits >> (big_endian ? 56 - 8 * i : 8 * i));
    for (size_t at = 0; at < tail_size; at += BLOCK_SIZE)
        step(state, tail + at);
}

static void write_words(const uint32_t *state, size_t words, uint8_t *digest)
{
    for (size_t i = 0; i < words; i++)
        write_big(state[i], 4, digest + 4 * i);
}

static void md5(const uint8_t *data, size_t size, uint8_t digest[16])
{
    uint32_t state[8] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U};
    digest_all(md5_block, state, data, size, 0);
    for (size_t i = 0; i < 16; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (8 * (i % 4)));
}

static void sha1(const uint8_t *data, size_t size, uint8_t digest[20])
{
    uint32_t state[8] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
    digest_all(sha1_block, state, data, size, 1);
    write_words(state, 5, digest);
}

/* Starts from the first 32 bits of the fractions of the square roots of the first 8 primes. */
static void sha256(const uint8_t *data, size_t size, uint8_t digest[32])
{
    uint32_t state[8] = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU, 0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
    digest_all(sha256_block, state, data, size, 1);
    write_words(state, 8, digest);
}

/* ---- by number ------------------------------------------------------------------------------------------------------------- */

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
        md5(data, size, digest);
        return ND_OK;
    case ND_HASH_SHA1:
        sha1(data, size, digest);
        return ND_OK;
    case ND_HASH_SHA256:
        sha256(data, size, digest);
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
