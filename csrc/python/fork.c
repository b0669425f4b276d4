/* fork.c: what lets a forked child use SQLite, whatever the other threads of its parent were doing.
 *
 * SQLite has locks for the whole process: of memory, of the table of open files, of random numbers, and others. A thread holds one
 * for a moment; the child of a fork in that moment inherits it locked, and nobody there opens it. So whoever forks takes them all
 * before, when no other thread has one, and parent and child give them back.
 *
 * The wait is bounded: a thread that has such a lock may be waiting for Python's, which the forking thread has (a function of
 * Python's that SQLite calls for its log, or as a file system). Such a lock is left as it is. */
#define _POSIX_C_SOURCE 200809L
#include "python/fork.h"

#if !defined(_WIN32)
#include <pthread.h>
#include <time.h>

#define NAP_NS 20000
#define NAPS_MOST 25000 /* for all locks together: half a second and more */

/* In the order in which SQLite takes one inside of another. */
static const int kinds[] = {SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_MAIN,
    SQLITE_MUTEX_STATIC_VFS1, SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3, SQLITE_MUTEX_STATIC_LRU,
    SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM};

enum { COUNT = sizeof kinds / sizeof *kinds };

static sqlite3_mutex *locks[COUNT];

static _Thread_local int is_taken[COUNT]; /* by this thread, which forks */

static void take_locks(void)
{
    const struct timespec nap = {0, NAP_NS};
    int naps = 0;
    for (int i = 0; i < COUNT; i++)
        while (!(is_taken[i] = sqlite3_mutex_try(locks[i]) == SQLITE_OK) && naps++ < NAPS_MOST)
            (void)nanosleep(&nap, NULL);
}

static void give_back_locks(void)
{
    for (int i = COUNT - 1; i >= 0; i--)
        if (is_taken[i])
            sqlite3_mutex_leave(locks[i]);
}

static int outcome;

static void register_handlers(void)
{
    for (int i = 0; i < COUNT; i++)
        locks[i] = sqlite3_mutex_alloc(kinds[i]);
    outcome = pthread_atfork(take_locks, give_back_locks, give_back_locks) == 0 ? SQLITE_OK : SQLITE_NOMEM;
}

int nd_take_locks_at_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* registered twice, the second would wait for the first for ever */
    return pthread_once(&once, register_handlers) == 0 ? outcome : SQLITE_ERROR;
}
#else
int nd_take_locks_at_forks(void)
{
    return SQLITE_OK; /* no process is forked there */
}
#endif
