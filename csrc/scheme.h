/* scheme.h: what scheme.c (values, rules) and keys.c (candidate tables) share. */
#ifndef NEARDUP_SCHEME_H
#define NEARDUP_SCHEME_H

#include "internal.h"

/* Ranges that a query of a Hamming scheme looks up: tables, or neighbours of all chunks; UINT64_MAX where that overflows. */
uint64_t nd_scheme_probe_count(const nd_scheme *scheme);

/* Tables that a value has keys in. */
size_t nd_scheme_table_count(const nd_scheme *scheme);
/* The keys of a checked value in tables first_table to end_table - 1. */
int nd_scheme_table_keys(const nd_scheme *scheme, int64_t group_id, const uint8_t *value, size_t size, int probing,
    size_t first_table, size_t end_table, nd_keys *keys);

#define ND_CODE_BYTES_MAX 512
/* What codes of a bucket have in common in a block table with this order of blocks: the first `prefix` bits, or a hash of them. */
int nd_block_number(const nd_scheme *scheme, const uint8_t *value, const uint8_t *order, size_t prefix, uint64_t *number);
/* Where the bucket begins of codes that have `number`, of `width` bits, in common. */
int64_t nd_bucket_low(int64_t group_id, size_t table, uint64_t number, size_t width);

/* Lowers the minima in scratch->slots; ND_ERROR_STOPPED as the scratch is told. */
int nd_scheme_add_minima(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count);
/* The min-hash slots of a MinHash or BitSampling scheme, in scratch->slots. */
int nd_scheme_slots(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count);
/* The low slot_bits of each slot: a signature. */
void nd_scheme_pack_slots(const nd_scheme *scheme, const uint32_t *slots, uint8_t *signature);

/* Texts of ND_LARGE_TEXT bytes or more are worth a value part by part, where the scheme and the hash can be so taken. */
int nd_scheme_streams(const nd_scheme *scheme, const nd_rules *rules);
int nd_scheme_append_large(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *text, size_t size,
    nd_values *values);

#endif
