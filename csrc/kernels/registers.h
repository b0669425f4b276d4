/* registers.h: registers as arrays of numbers, by the vector extensions of GCC and Clang. A file for one tier includes it, after it
 * has defined
 *     ND_TIER     the attribute of functions for its CPUs, or nothing
 *     ND_WIDTH    bytes of a register */
#ifndef NEARDUP_KERNELS_REGISTERS_H
#define NEARDUP_KERNELS_REGISTERS_H

#define ND_INLINE ND_TIER static inline __attribute__((always_inline))

/* Before a loop of up to eight turns over registers held in an array: whole, so that they are registers. */
#if defined(__clang__)
#define ND_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ND_UNROLL _Pragma("GCC unroll 8")
#endif

typedef uint32_t words32 __attribute__((vector_size(ND_WIDTH)));
typedef uint64_t words64 __attribute__((vector_size(ND_WIDTH)));
/* The same at any address. */
typedef words32 any32 __attribute__((aligned(1), may_alias));
typedef words64 any64 __attribute__((aligned(1), may_alias));

/* A plain loop: compilers put several hashes into a register. AVX-512 takes a third of the time of AVX2. */
ND_TIER static inline void fold_hashes(const uint64_t *hashes, size_t count, uint32_t *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (uint32_t)(nd_fold(nd_fold(hashes[i])) >> 32);
}

#endif
