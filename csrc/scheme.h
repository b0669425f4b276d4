/* scheme.h: what scheme.c (values, rules) and keys.c (candidate tables) share. */
#ifndef NEARDUP_SCHEME_H
#define NEARDUP_SCHEME_H

#include "internal.h"

/* Ranges that a query of a Hamming scheme looks up: tables, or neighbours of all chunks; UINT64_MAX where that overflows. */
uint64_t nd_scheme_probe_count(const nd_scheme *scheme);

/* The min-hash slots of a MinHash or BitSampling scheme, in scratch->slots. */
int nd_scheme_slots(const nd_scheme *scheme, nd_scratch *scratch, const uint64_t *hashes, size_t count);
/* The low slot_bits of each slot: a signature. */
void nd_scheme_pack_slots(const nd_scheme *scheme, const uint32_t *slots, uint8_t *signature);

#endif
