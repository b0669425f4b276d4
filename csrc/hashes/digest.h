/* digest.h: the three digests of digest.c, in the byte order in which they are usually printed. */
#ifndef ND_DIGEST_INTERNAL_H
#define ND_DIGEST_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

void nd_digest_md5(const uint8_t *data, size_t size, uint8_t digest[16]);
void nd_digest_sha1(const uint8_t *data, size_t size, uint8_t digest[20]);
void nd_digest_sha256(const uint8_t *data, size_t size, uint8_t digest[32]);

#endif
