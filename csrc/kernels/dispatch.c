/* dispatch.c: the one file that knows which tiers of kernels there are, what this CPU and its operating system can run, and which one is
 * active. */
#include <stdatomic.h>

#include "kernels/kernels.h"

/* ---- the CPU --------------------------------------------------------------------------------------------------------------- */

#define CPU_AVX2 1 /* with POPCNT, and the system saves the wide registers */
/* All of ND_TARGET_AVX512, that is Ice Lake, Zen 4 and later; on the CPUs before them 512-bit registers slow the clock. */
#define CPU_AVX512 2

#if ND_HAVE_X86
#include <cpuid.h>

/* The register states that the system saves on a task switch (XCR0): a CPU may have AVX2 while the system does not allow it. */
static uint64_t saved_states(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static unsigned cpu_features(void)
{
    const unsigned popcnt = 1u << 23, osxsave = 1u << 27, avx = 1u << 28, avx2 = 1u << 5;
    const unsigned avx512_b = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL in ebx */
    const unsigned avx512_c = 1u << 1 | 1u << 6 | 1u << 14;              /* VBMI, VBMI2, VPOPCNTDQ in ecx */
    const uint64_t sse_and_avx_state = 0x06, avx512_state = 0xe6;
    unsigned eax, ebx, ecx, edx, features = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & osxsave) == 0 || (ecx & avx) == 0 || (ecx & popcnt) == 0)
        return 0;
    uint64_t saved = saved_states();
    if ((saved & sse_and_avx_state) != sse_and_avx_state)
        return 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (ebx & avx2) == 0)
        return 0;
    features |= CPU_AVX2;
    if ((saved & avx512_state) == avx512_state && (ebx & avx512_b) == avx512_b && (ecx & avx512_c) == avx512_c)
        features |= CPU_AVX512;
    return features;
}

#endif

/* ---- tiers ----------------------------------------------------------------------------------------------------------------- */

typedef struct layer {
    const nd_kernels *kernels;
    unsigned needs; /* CPU_* */
} layer;

/* Slowest first. Tables of one name stand together and need the same. */
static const layer layers[] = {
    {&nd_kernels_scalar, 0},
    {&nd_kernels_text_scalar, 0},
    {&nd_kernels_compare_scalar, 0},
#if ND_HAVE_X86
    {&nd_kernels_avx2, CPU_AVX2},
    {&nd_kernels_text_avx2, CPU_AVX2},
    {&nd_kernels_compare_avx2, CPU_AVX2},
    {&nd_kernels_text_avx512, CPU_AVX512},
    {&nd_kernels_compare_avx512, CPU_AVX512},
#endif
};
#define LAYERS (sizeof layers / sizeof layers[0])

/* The complete tables of the tiers that this CPU can run, slowest first: written before main or by the loading of the library,
 * only read from then on. */
static nd_kernels tiers[LAYERS];
static int tier_count;
static _Atomic(const nd_kernels *) active;

/* Lays over a complete table what another has. A table is a row of pointers. */
static void lay(nd_kernels *over, const nd_kernels *table)
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
#if ND_HAVE_X86
    const unsigned features = cpu_features();
#else
    const unsigned features = 0;
#endif
    for (size_t i = 0; i < LAYERS; i++) {
        const nd_kernels *table = layers[i].kernels;
        if ((layers[i].needs & ~features) != 0)
            continue;
        if (tier_count == 0 || strcmp(tiers[tier_count - 1].name, table->name) != 0) {
            tiers[tier_count] = tier_count == 0 ? nd_kernels_scalar : tiers[tier_count - 1];
            tier_count++;
        }
        lay(&tiers[tier_count - 1], table);
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
