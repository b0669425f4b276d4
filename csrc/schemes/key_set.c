/* key_set.c: the selected hashes of a few texts, to tell which of very many others may share a passage with one of them. */
#include <stdlib.h>

#include "schemes/schemes.h"

/* A bit for each hash, by its first bits, so that most look-ups of others end there; then the hashes, open addressing. */
struct nd_key_set {
    uint64_t *bits;
    int64_t *keys;
    unsigned bit_shift, key_shift;
    int has_zero;
};

static inline uint64_t mixed(int64_t key)
{
    return (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15);
}

static int64_t *find(const nd_key_set *set, int64_t key)
{
    const size_t mask = ((size_t)1 << (64 - set->key_shift)) - 1;
    size_t at = (size_t)(mixed(key) >> set->key_shift);
    while (set->keys[at] != 0 && set->keys[at] != key)
        at = (at + 1) & mask;
    return &set->keys[at];
}

nd_key_set *nd_key_set_new(const int64_t *keys, size_t count)
{
    unsigned width = 10;
    while ((size_t)1 << width < 2 * count)
        width++;
    nd_key_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return NULL;
    set->key_shift = 64 - width;
    set->bit_shift = 64 - width - 4;
    set->keys = calloc((size_t)1 << width, sizeof *set->keys);
    set->bits = calloc((size_t)1 << (width + 4 - 6), sizeof *set->bits);
    if (set->keys == NULL || set->bits == NULL) {
        nd_key_set_free(set);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t bit = mixed(keys[i]) >> set->bit_shift;
        set->bits[bit / 64] |= (uint64_t)1 << bit % 64;
        *find(set, keys[i]) = keys[i];
        set->has_zero |= keys[i] == 0;
    }
    return set;
}

void nd_key_set_free(nd_key_set *set)
{
    if (set == NULL)
        return;
    free(set->bits);
    free(set->keys);
    free(set);
}

static inline int has(const nd_key_set *set, int64_t key)
{
    const uint64_t bit = mixed(key) >> set->bit_shift;
    if (!(set->bits[bit / 64] >> bit % 64 & 1))
        return 0;
    return key == 0 ? set->has_zero : *find(set, key) == key;
}

int nd_key_set_meet(const nd_key_set *set, const nd_scheme *scheme, const nd_rules *rules, nd_text *work,
    const uint8_t *const *texts, const size_t *sizes, size_t count, nd_values *values, nd_keys *keys, uint8_t *met,
    uint64_t *token_counts)
{
    if (scheme->plan != ND_PLAN_WINNOW)
        return ND_ERROR_PARAMETER;
    for (size_t i = 0; i < count; i++) {
        uint64_t *selected;
        size_t selected_count;
        nd_sketch made;
        int status = nd_scheme_sketch_text(scheme, rules, work, texts[i], sizes[i], values, NULL, &made);
        if (status == ND_OK)
            status = nd_winnow(made.value, made.size / 4, (size_t)scheme->k, (size_t)scheme->shortest, &keys->scratch, &selected,
                &selected_count);
        if (status != ND_OK)
            return status;
        met[i] = 0;
        token_counts[i] = made.token_count;
        for (size_t j = 0; j < selected_count && !met[i]; j++)
            met[i] = (uint8_t)has(set, nd_winnow_key(selected[j]));
    }
    return ND_OK;
}
