/* sqlite_fork.c: an extension of its own that lets a forked child open files which its parent has open.
 *
 * SQLite keeps a table of the open files of a process, found by device and inode, and in it which locks the process holds: POSIX
 * locks belong to processes. A forked child inherits the table, but none of the locks. When it opens one of these files, SQLite
 * believes in locks that are not there and does not take them: the parent, or any other process, then takes itself for the last
 * one, and removes the write-ahead log to which the child goes on writing.
 *
 * From when this is loaded on, files are entered into the table under another device, made from the process's own id, so that
 * nothing inherited is ever found. Nothing else depends on the number. */
#define _POSIX_C_SOURCE 200809L
#include <sqlite3ext.h>
#include "sqlite_export.h"

SQLITE_EXTENSION_INIT1

#if !defined(_WIN32)
#include <stdint.h>
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

static int enter_files_anew(void)
{
    sqlite3_vfs *const vfs = sqlite3_vfs_find("unix");
    if (vfs == NULL || vfs->iVersion < 3)
        return SQLITE_ERROR;
    return vfs->xSetSystemCall(vfs, "fstat", (sqlite3_syscall_ptr)own_fstat);
}
#else
static int enter_files_anew(void)
{
    return SQLITE_OK; /* no process is forked there */
}
#endif

ND_EXPORT int sqlite3_neardup_fork_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

ND_EXPORT int sqlite3_neardup_fork_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api);
    (void)db;
    if (enter_files_anew() != SQLITE_OK) {
        *message = sqlite3_mprintf("neardup: this SQLite lets no system call be replaced");
        return SQLITE_ERROR;
    }
    return SQLITE_OK_LOAD_PERMANENTLY; /* the function has to stay when the connection is closed */
}
