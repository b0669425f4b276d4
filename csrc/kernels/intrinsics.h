/* intrinsics.h: the instructions of x86-64 as functions.
 *
 * A file is compiled without flags for a CPU, and each function says what it needs. clang-cl's <immintrin.h> brings only what the flags
 * allow; the headers behind it have the rest. */
#ifndef NEARDUP_INTRINSICS_H
#define NEARDUP_INTRINSICS_H

#include <immintrin.h>

#if defined(_MSC_VER)
#include <smmintrin.h>
#include <popcntintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <avx512fintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlintrin.h>
#include <avx512vlbwintrin.h>
#include <avx512vldqintrin.h>
#include <avx512vbmiintrin.h>
#include <avx512vbmivlintrin.h>
#include <avx512vbmi2intrin.h>
#include <avx512vlvbmi2intrin.h>
#include <avx512vpopcntdqintrin.h>
#include <avx512vpopcntdqvlintrin.h>
#endif

/* GCC 12 was seen to widen a mask, spill what it got by a store of one byte, and read that back as eight: the mask goes into a
 * general register before it is widened, by an instruction that is none. */
static inline uint32_t nd_number_of_mask(__mmask8 mask)
{
    __asm__("" : "+r"(mask));
    return mask;
}

#endif
