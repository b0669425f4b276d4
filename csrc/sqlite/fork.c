/* fork.c: what lets a forked child open files which its parent has open.
 *
 * SQLite keeps a table of the open files of a process, found by device and inode, and in it which locks the process holds: POSIX
 * locks belong to processes. A forked child inherits the table, but none of the locks. When it opens one of these files, SQLite
 * believes in locks that are not there and does not take them: the parent, or any other process, then takes itself for the last
 * one, and removes the write-ahead log to which the child goes on writing.
 *
 * After nd_enter_files_anew, files are entered into the table under another device, made from the process's own id, so that
 * nothing inherited is ever found. Nothing else depends on the number. */
#define _POSIX_C_SOURCE 200809L
#include "sqlite/neardup.h"

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>

/* fstat() with a device that is this process's own: its id spread over all bits, times an odd number near 2^64 / 1.618. */
static int own_fstat(int file, struct stat *status)
{
    const int failed = fstat(file, status);
    if (failed == 0) {
        const uint64_t spread = (uint64_t)getpid() * UINT64_C(0x9E3779B97F4A7C15);
        status->st_dev ^= (dev_t)(spread >> (64 - 8 * sizeof(dev_t)));
    }
    return failed;
}

int nd_enter_files_anew(void)
{
    sqlite3_vfs *const vfs = sqlite3_vfs_find("unix");
    if (vfs == NULL || vfs->iVersion < 3)
        return SQLITE_ERROR;
    return vfs->xSetSystemCall(vfs, "fstat", (sqlite3_syscall_ptr)own_fstat);
}
#else
int nd_enter_files_anew(void)
{
    return SQLITE_OK; /* no process is forked there */
}
#endif
