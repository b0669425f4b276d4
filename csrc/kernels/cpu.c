/* cpu.c: what this CPU and its operating system can run. */
#include "kernels/kernels.h"

#if ND_HAVE_X86
#include <cpuid.h>

/* The register states that the system saves on a task switch (XCR0): a CPU may have AVX2 while the system does not allow it. */
static uint64_t saved_states(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

unsigned nd_cpu_features(void)
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
    features |= ND_CPU_AVX2;
    if ((saved & avx512_state) == avx512_state && (ebx & avx512_b) == avx512_b && (ecx & avx512_c) == avx512_c)
        features |= ND_CPU_AVX512;
    return features;
}

#else

unsigned nd_cpu_features(void)
{
    return 0;
}

#endif
