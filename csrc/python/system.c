/* system.c: process, clock, processors. A file of its own, because <windows.h> takes common words as names of its macros. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE /* glibc: sysconf(_SC_NPROCESSORS_ONLN) and what POSIX has */
#endif
#include "python/system.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define SECOND_NS 1000000000LL
#define MILLISECOND_NS 1000000L

long nd_process_id(void)
{
    return (long)GetCurrentProcessId();
}

long long nd_now_ns(void)
{
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    const long long seconds = count.QuadPart / frequency.QuadPart, rest = count.QuadPart % frequency.QuadPart;
    return seconds * SECOND_NS + rest * SECOND_NS / frequency.QuadPart;
}

void nd_nap(long ns)
{
    Sleep((DWORD)(ns / MILLISECOND_NS));
}

int nd_processor_count(void)
{
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count > 1 ? (int)count : 1;
}

#else
#include <time.h>
#include <unistd.h>

long nd_process_id(void)
{
    return (long)getpid();
}

long long nd_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

void nd_nap(long ns)
{
    const struct timespec nap = {0, ns};
    (void)nanosleep(&nap, NULL);
}

int nd_processor_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 1 ? (int)count : 1;
}

#endif
