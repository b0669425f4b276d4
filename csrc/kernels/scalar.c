/* scalar.c: the kernels for any CPU: with the registers of 16 bytes that all of x86-64 and of 64-bit ARM has. */
#include "kernels/kernels.h"

#define ND_TIER
#define ND_WIDTH 16
#define ND_ONES nd_population
#if ND_HAVE_NEON
#include <arm_neon.h>
#define ND_LEAST(a, b) vminq_u32(a, b)
#else
#define ND_LEAST(a, b) (((a) & (words32)((a) < (b))) | ((b) & (words32)((a) >= (b))))
#endif
#include "kernels/loops.h"

const nd_kernels nd_kernels_scalar = {.name = ND_BASE_TIER, ND_LOOPS, .count_common = merge_common};
