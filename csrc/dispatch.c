/* dispatch.c: the one file that knows which tiers of kernels there are and which one is active. */
#include <stdatomic.h>

#include "internal.h"

typedef struct tier {
    const nd_kernels *kernels;
    unsigned needs; /* ND_CPU_* */
} tier;

/* Slowest first. */
static const tier tiers[] = {
    {&nd_kernels_scalar, 0},
#if ND_HAVE_X86
    {&nd_kernels_avx2, ND_CPU_AVX2},
#endif
};

/* NULL until the first use. Two threads that come first at once both find the same answer. */
static _Atomic(const nd_kernels *) active;

/* The index-th tier that this CPU can run, NULL beyond the last. */
static const nd_kernels *runnable(int index)
{
    unsigned features = nd_cpu_features();
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++)
        if ((tiers[i].needs & ~features) == 0 && index-- == 0)
            return tiers[i].kernels;
    return NULL;
}

const nd_kernels *nd_kernels_active(void)
{
    const nd_kernels *kernels = atomic_load_explicit(&active, memory_order_acquire);
    if (kernels == NULL) {
        kernels = runnable(nd_isa_count() - 1);
        atomic_store_explicit(&active, kernels, memory_order_release);
    }
    return kernels;
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
    int count = 0;
    while (runnable(count) != NULL)
        count++;
    return count;
}

const char *nd_isa_at(int index)
{
    const nd_kernels *kernels = index < 0 ? NULL : runnable(index);
    return kernels == NULL ? NULL : kernels->name;
}

int nd_isa_force(const char *name)
{
    int count = nd_isa_count();
    for (int i = 0; i < count; i++) {
        const nd_kernels *kernels = runnable(name == NULL ? count - 1 : i);
        if (name == NULL || strcmp(kernels->name, name) == 0) {
            atomic_store_explicit(&active, kernels, memory_order_release);
            return ND_OK;
        }
    }
    return ND_ERROR_PARAMETER;
}
