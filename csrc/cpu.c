/* cpu.c: what this CPU and its operating system can run. */
#include "internal.h"

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
    const uint64_t sse_and_avx_state = 6;
    unsigned eax, ebx, ecx, edx, features = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & osxsave) == 0 || (ecx & avx) == 0 || (ecx & popcnt) == 0)
        return 0;
    if ((saved_states() & sse_and_avx_state) != sse_and_avx_state)
        return 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & avx2) != 0)
        features |= ND_CPU_AVX2;
    return features;
}

#else

unsigned nd_cpu_features(void)
{
    return 0;
}

#endif
