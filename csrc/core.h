/* core.h: what every file of the core begins with: the contract, the limits, and when long work stops. Little-endian CPUs only. */
#ifndef NEARDUP_CORE_H
#define NEARDUP_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What cffi reads has no guard of its own: a constant tells that it was included. */
#ifndef ND_OK
#include "neardup_abi.h"
#endif
#ifndef ND_TESTING
#include "neardup_testing.h"
#endif
#include "neardup_limits.h"
#include "neardup_try.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the stored values are little-endian and are read in place: this CPU is not supported"
#endif

/* Long work calls `stopped` every few milliseconds to learn whether to stop; NULL: it never stops. */
typedef struct nd_watch {
    int (*stopped)(void *context);
    void *context;
} nd_watch;

static inline int nd_watched(const nd_watch *watch)
{
    return watch->stopped != NULL && watch->stopped(watch->context) ? ND_ERROR_STOPPED : ND_OK;
}

#endif
