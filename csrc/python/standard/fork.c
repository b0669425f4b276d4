/* fork.c: what lets a forked child open files that its parent has open, by the application's own library.
 *
 * Without it the child loses what it writes there, whoever opens the file: see csrc/sqlite/fork.c, which does the same for apsw's
 * library once a child opens a file. Here the application opens it, perhaps before it asks anything of us, so it is done ahead; in
 * the process that does it nothing changes. */
#define _POSIX_C_SOURCE 200809L
#include "python/standard/base.h"

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>

static pid_t home; /* the process that has loaded this, whose children are others */

/* fstat() with a device that is a child's own: its id spread over all bits, times an odd number near 2^64 / 1.618. */
static int childs_own_fstat(int file, struct stat *status)
{
    const int failed = fstat(file, status);
    if (failed == 0 && getpid() != home) {
        const uint64_t spread = (uint64_t)getpid() * UINT64_C(0x9E3779B97F4A7C15);
        status->st_dev ^= (dev_t)(spread >> (64 - 8 * sizeof(dev_t)));
    }
    return failed;
}

void nd_enter_files_anew_in_children(const sqlite3_api_routines *sqlite3_api)
{
    sqlite3_vfs *const vfs = sqlite3_vfs_find("unix");
    if (home == 0)
        home = getpid();
    if (vfs != NULL && vfs->iVersion >= 3 && vfs->xGetSystemCall(vfs, "fstat") != (sqlite3_syscall_ptr)childs_own_fstat)
        (void)vfs->xSetSystemCall(vfs, "fstat", (sqlite3_syscall_ptr)childs_own_fstat);
}
#else
void nd_enter_files_anew_in_children(const sqlite3_api_routines *sqlite3_api)
{
    (void)sqlite3_api; /* no process is forked there */
}
#endif
