/* sketch.c: all that an index stores of one fingerprint, made in one go. */
#include "schemes/schemes.h"

int nd_scheme_sketch_value(const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys, nd_sketch *out)
{
    uint64_t *packed;
    *out = (nd_sketch){.value = value, .size = size, .value_hash = (int64_t)nd_xxh3_64(value, size, 0)};
    if (scheme->plan != ND_PLAN_BANDS)
        return nd_scheme_value_check(scheme, value, size);
    ND_TRY(nd_scheme_file_keys(scheme, 0, value, size, keys));
    ND_TRY(nd_scratch_hashes(keys->scratch, (size_t)scheme->bands, &packed));
    nd_keys_pack(keys, (size_t)scheme->bands, (int64_t *)packed);
    out->keys = (const int64_t *)packed;
    out->key_count = (size_t)scheme->bands;
    return ND_OK;
}

int nd_scheme_sketch_text(const nd_scheme *scheme, const nd_rules *rules, nd_text *work, const uint8_t *text, size_t size,
    nd_values *values, nd_keys *keys, nd_sketch *out)
{
    *out = (nd_sketch){.value = NULL};
    nd_values_clear(values);
    ND_TRY(nd_scheme_append_texts(scheme, rules, work, &text, &size, 1, values));
    const size_t value_size = (size_t)values->ends[0];
    if (value_size > 0 && keys == NULL)
        *out = (nd_sketch){.value = values->bytes, .size = value_size};
    else if (value_size > 0)
        ND_TRY(nd_scheme_sketch_value(scheme, values->bytes, value_size, keys, out));
    out->token_count = values->tokens[0];
    return ND_OK;
}
