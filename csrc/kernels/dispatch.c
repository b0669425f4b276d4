/* dispatch.c: the one file that knows which tiers of kernels there are and which one is active. */
#include <stdatomic.h>

#include "kernels/kernels.h"

typedef struct layer {
    const nd_kernels *kernels;
    unsigned needs; /* ND_CPU_* */
} layer;

/* Slowest first. Tables of one name stand together and need the same. */
static const layer layers[] = {
    {&nd_kernels_scalar, 0},
    {&nd_kernels_text_scalar, 0},
    {&nd_kernels_compare_scalar, 0},
#if ND_HAVE_X86
    {&nd_kernels_avx2, ND_CPU_AVX2},
    {&nd_kernels_text_avx2, ND_CPU_AVX2},
    {&nd_kernels_compare_avx2, ND_CPU_AVX2},
    {&nd_kernels_text_avx512, ND_CPU_AVX512},
    {&nd_kernels_compare_avx512, ND_CPU_AVX512},
#endif
};
#define LAYERS (sizeof layers / sizeof layers[0])

/* The complete tables of the tiers that this CPU can run, slowest first: written before main or by the loading of the library,
 * only read from then on. */
static nd_kernels tiers[LAYERS];
static int tier_count;
static _Atomic(const nd_kernels *) active;

/* Lays over a complete table what another has. A table is a row of pointers. */
static void nd_kernels_lay(nd_kernels *over, const nd_kernels *table)
{
    for (size_t at = 0; at < sizeof *table; at += sizeof(void *)) {
        const void *member;
        memcpy(&member, (const char *)table + at, sizeof member);
        if (member != NULL)
            memcpy((char *)over + at, &member, sizeof member);
    }
}

__attribute__((constructor)) static void find_tiers(void)
{
    unsigned features = nd_cpu_features();
    for (size_t i = 0; i < LAYERS; i++) {
        const nd_kernels *table = layers[i].kernels;
        if ((layers[i].needs & ~features) != 0)
            continue;
        if (tier_count == 0 || strcmp(tiers[tier_count - 1].name, table->name) != 0) {
            tiers[tier_count] = tier_count == 0 ? nd_kernels_scalar : tiers[tier_count - 1];
            tier_count++;
        }
        nd_kernels_lay(&tiers[tier_count - 1], table);
    }
    atomic_store_explicit(&active, &tiers[tier_count - 1], memory_order_release);
}

const nd_kernels *nd_kernels_active(void)
{
    return atomic_load_explicit(&active, memory_order_acquire);
}

const char *nd_version(void)
{
    return ND_PACKAGE_VERSION;
}

const char *nd_isa_name(void)
{
    return nd_kernels_active()->name;
}

int nd_isa_count(void)
{
    return tier_count;
}

const char *nd_isa_at(int index)
{
    return index < 0 || index >= tier_count ? NULL : tiers[index].name;
}

int nd_isa_force(const char *name)
{
    for (int i = tier_count - 1; i >= 0; i--)
        if (name == NULL || strcmp(tiers[i].name, name) == 0) {
            atomic_store_explicit(&active, &tiers[i], memory_order_release);
            return ND_OK;
        }
    return ND_ERROR_PARAMETER;
}
