/* sqlite_checksums.c: an extension of its own, the VFS "neardup_checksums": a checksum in every page of a database file.
 *
 * The last 8 bytes of a page are XXH3-64 of the others, seeded with the number of the page, little-endian. They are written with
 * the page and compared when it is read: a page that does not fit is SQLITE_IOERR_DATA, and never an answer. SQLite leaves these
 * bytes alone where byte 20 of the header, the reserved bytes of a page, is 8. Files where it is another number are passed
 * through as they are, and so are journals, logs and temporary files. A new file is undecided until its first page is written.
 *
 * Nothing here reads a page by another way: there is no memory map (version 2 of the methods), and a read of a part of a page
 * reads all of it. Only the header of 100 bytes is read without a check, which SQLite does before it has a lock; it reads the
 * whole page before it believes it. A page in the write-ahead log has the log's own checksum; it gets its own on its way into the
 * file. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sqlite3ext.h>
#include "neardup_abi.h"
#include "sqlite_export.h"

SQLITE_EXTENSION_INIT1

#define VFS_NAME "neardup_checksums"
#define SUM_BYTES 8
#define HEADER_BYTES 100
#define PAGE_SIZE_AT 16
#define RESERVED_AT 20

typedef enum { PLAIN, UNDECIDED, CHECKED } nd_state;

typedef struct {
    sqlite3_file handle; /* first, for SQLite */
    sqlite3_file *inner; /* the file of the default VFS */
    nd_state state;
    int page_bytes; /* where it is checked */
    uint8_t *page;  /* room for one */
} nd_file;

static atomic_llong damaged_page;

/* Number of the page that was last refused. Not the thread's own: `add_many` meets it in one and reports it in another. */
ND_EXPORT sqlite3_int64 neardup_checksums_damaged_page(void);

ND_EXPORT sqlite3_int64 neardup_checksums_damaged_page(void)
{
    return atomic_load(&damaged_page);
}

/* ---- pages ------------------------------------------------------------------------------------------------------------- */

static void checksum(const nd_file *file, const uint8_t *page, sqlite3_int64 offset, uint8_t sum[SUM_BYTES])
{
    const uint64_t number = (uint64_t)(offset / file->page_bytes) + 1;
    uint64_t value = nd_xxh3_64(page, (size_t)file->page_bytes - SUM_BYTES, number);
    for (int i = 0; i < SUM_BYTES; i++, value >>= 8)
        sum[i] = (uint8_t)value;
}

/* Whole pages of the file below; offset is a multiple of page_bytes. */
static int read_page(nd_file *file, uint8_t *page, sqlite3_int64 offset)
{
    int code = file->inner->pMethods->xRead(file->inner, page, file->page_bytes, offset);
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ)
        return code;
    uint8_t sum[SUM_BYTES];
    checksum(file, page, offset, sum);
    if (code == SQLITE_OK && memcmp(sum, page + file->page_bytes - SUM_BYTES, SUM_BYTES) == 0)
        return SQLITE_OK;
    atomic_store(&damaged_page, offset / file->page_bytes + 1);
    return SQLITE_IOERR_DATA;
}

/* A copy is written, for the page belongs to SQLite. */
static int write_page(nd_file *file, const uint8_t *page, sqlite3_int64 offset)
{
    if (page != file->page)
        memcpy(file->page, page, (size_t)file->page_bytes);
    checksum(file, file->page, offset, file->page + file->page_bytes - SUM_BYTES);
    return file->inner->pMethods->xWrite(file->inner, file->page, file->page_bytes, offset);
}

/* ---- whether a file has checksums ---------------------------------------------------------------------------------------- */

static int header_page_bytes(const uint8_t *header)
{
    const int size = header[PAGE_SIZE_AT] << 8 | header[PAGE_SIZE_AT + 1];
    return size == 1 ? 65536 : size;
}

static int decide(nd_file *file, const uint8_t *header)
{
    if (header[RESERVED_AT] != SUM_BYTES) {
        file->state = PLAIN;
        return SQLITE_OK;
    }
    int page_bytes = header_page_bytes(header);
    if (page_bytes < 512 || (page_bytes & (page_bytes - 1)) != 0)
        page_bytes = 4096; /* damaged: no size fits, and the first page that is read will say so */
    file->page = sqlite3_malloc(page_bytes);
    if (file->page == NULL)
        return SQLITE_IOERR_NOMEM;
    file->page_bytes = page_bytes;
    file->state = CHECKED;
    return SQLITE_OK;
}

static int decide_by_file(nd_file *file)
{
    uint8_t header[HEADER_BYTES] = {0};
    const int code = file->inner->pMethods->xRead(file->inner, header, HEADER_BYTES, 0);
    const int is_hole = header[0] == 0 && header[RESERVED_AT] == 0;
    if (code == SQLITE_IOERR_SHORT_READ || (code == SQLITE_OK && is_hole))
        return SQLITE_OK; /* it is new, or has only later pages so far */
    return code == SQLITE_OK ? decide(file, header) : code;
}

/* The first page of a new file. A transaction larger than the cache has written others before it. */
static int decide_by_first_page(nd_file *file, const uint8_t *page)
{
    int code = decide(file, page);
    if (code != SQLITE_OK || file->state == PLAIN)
        return code;
    sqlite3_int64 end = 0;
    code = file->inner->pMethods->xFileSize(file->inner, &end);
    for (sqlite3_int64 at = file->page_bytes; code == SQLITE_OK && at + file->page_bytes <= end; at += file->page_bytes) {
        code = file->inner->pMethods->xRead(file->inner, file->page, file->page_bytes, at);
        if (code == SQLITE_OK)
            code = write_page(file, file->page, at);
    }
    return code;
}

/* ---- methods of a file --------------------------------------------------------------------------------------------------- */

#define INNER(handle) (((nd_file *)(handle))->inner)

static int file_read(sqlite3_file *handle, void *out, int amount, sqlite3_int64 offset)
{
    nd_file *const file = (nd_file *)handle;
    if (file->state == UNDECIDED) {
        const int code = decide_by_file(file);
        if (code != SQLITE_OK)
            return code;
    }
    if (file->state != CHECKED || offset + amount <= HEADER_BYTES)
        return file->inner->pMethods->xRead(file->inner, out, amount, offset);
    if (amount == file->page_bytes && offset % amount == 0)
        return read_page(file, out, offset);
    uint8_t *to = out;
    while (amount > 0) { /* parts of pages: SQLite reads long values so, where it is allowed to */
        const int start = (int)(offset % file->page_bytes);
        const int part = amount < file->page_bytes - start ? amount : file->page_bytes - start;
        const int code = read_page(file, file->page, offset - start);
        if (code != SQLITE_OK)
            return code;
        memcpy(to, file->page + start, (size_t)part);
        to += part;
        offset += part;
        amount -= part;
    }
    return SQLITE_OK;
}

static int file_write(sqlite3_file *handle, const void *data, int amount, sqlite3_int64 offset)
{
    nd_file *const file = (nd_file *)handle;
    const uint8_t *const page = data;
    if (file->state == UNDECIDED && offset == 0 && amount >= HEADER_BYTES) {
        const int code = decide_by_first_page(file, page);
        if (code != SQLITE_OK)
            return code;
    }
    if (file->state != CHECKED)
        return file->inner->pMethods->xWrite(file->inner, data, amount, offset);
    /* Pages of another size, or without room for the checksum, would be errors when they are read. */
    if (amount != file->page_bytes || offset % amount != 0 || (offset == 0 && page[RESERVED_AT] != SUM_BYTES))
        return SQLITE_IOERR_WRITE;
    return write_page(file, page, offset);
}

static int file_close(sqlite3_file *handle)
{
    nd_file *const file = (nd_file *)handle;
    const int code = file->inner->pMethods->xClose(file->inner);
    sqlite3_free(file->inner);
    sqlite3_free(file->page);
    return code;
}

static int file_truncate(sqlite3_file *handle, sqlite3_int64 size)
{
    return INNER(handle)->pMethods->xTruncate(INNER(handle), size);
}

static int file_sync(sqlite3_file *handle, int flags)
{
    return INNER(handle)->pMethods->xSync(INNER(handle), flags);
}

static int file_size(sqlite3_file *handle, sqlite3_int64 *size)
{
    return INNER(handle)->pMethods->xFileSize(INNER(handle), size);
}

static int file_lock(sqlite3_file *handle, int level)
{
    return INNER(handle)->pMethods->xLock(INNER(handle), level);
}

static int file_unlock(sqlite3_file *handle, int level)
{
    return INNER(handle)->pMethods->xUnlock(INNER(handle), level);
}

static int file_check_lock(sqlite3_file *handle, int *reserved)
{
    return INNER(handle)->pMethods->xCheckReservedLock(INNER(handle), reserved);
}

static int file_control(sqlite3_file *handle, int op, void *argument)
{
    return INNER(handle)->pMethods->xFileControl(INNER(handle), op, argument);
}

static int file_sector_size(sqlite3_file *handle)
{
    return INNER(handle)->pMethods->xSectorSize(INNER(handle));
}

static int file_characteristics(sqlite3_file *handle)
{
    int flags = INNER(handle)->pMethods->xDeviceCharacteristics(INNER(handle));
#ifdef SQLITE_IOCAP_SUBPAGE_READ
    flags &= ~SQLITE_IOCAP_SUBPAGE_READ; /* parts would cost a page each */
#endif
    return flags;
}

static int file_map_shared(sqlite3_file *handle, int region, int size, int extend, void volatile **at)
{
    return INNER(handle)->pMethods->xShmMap(INNER(handle), region, size, extend, at);
}

static int file_lock_shared(sqlite3_file *handle, int offset, int count, int flags)
{
    return INNER(handle)->pMethods->xShmLock(INNER(handle), offset, count, flags);
}

static void file_barrier(sqlite3_file *handle)
{
    INNER(handle)->pMethods->xShmBarrier(INNER(handle));
}

static int file_unmap_shared(sqlite3_file *handle, int delete_it)
{
    return INNER(handle)->pMethods->xShmUnmap(INNER(handle), delete_it);
}

/* Version 1 has no shared memory, version 3 would have a memory map. */
#define FILE_METHODS(version)                                                                                                    \
    {                                                                                                                            \
        .iVersion = (version), .xClose = file_close, .xRead = file_read, .xWrite = file_write, .xTruncate = file_truncate,       \
        .xSync = file_sync, .xFileSize = file_size, .xLock = file_lock, .xUnlock = file_unlock,                                  \
        .xCheckReservedLock = file_check_lock, .xFileControl = file_control, .xSectorSize = file_sector_size,                    \
        .xDeviceCharacteristics = file_characteristics, .xShmMap = file_map_shared, .xShmLock = file_lock_shared,                \
        .xShmBarrier = file_barrier, .xShmUnmap = file_unmap_shared                                                              \
    }

static const sqlite3_io_methods methods_without_log = FILE_METHODS(1);
static const sqlite3_io_methods methods = FILE_METHODS(2);

/* ---- methods of the VFS -------------------------------------------------------------------------------------------------- */

/* Whatever is the default at the moment. */
static sqlite3_vfs *below(const sqlite3_vfs *vfs)
{
    sqlite3_vfs *const found = sqlite3_vfs_find(NULL);
    return found == vfs ? found->pNext : found;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *handle, int flags, int *flags_out)
{
    nd_file *const file = (nd_file *)handle;
    sqlite3_vfs *const base = below(vfs);
    memset(file, 0, sizeof *file);
    sqlite3_file *const inner = sqlite3_malloc(base->szOsFile);
    if (inner == NULL)
        return SQLITE_NOMEM;
    memset(inner, 0, (size_t)base->szOsFile);
    const int code = base->xOpen(base, name, inner, flags, flags_out);
    if (code != SQLITE_OK) {
        if (inner->pMethods != NULL)
            inner->pMethods->xClose(inner);
        sqlite3_free(inner);
        return code;
    }
    file->inner = inner;
    file->state = (flags & SQLITE_OPEN_MAIN_DB) != 0 ? UNDECIDED : PLAIN;
    file->handle.pMethods = inner->pMethods->iVersion >= 2 ? &methods : &methods_without_log;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    return below(vfs)->xDelete(below(vfs), name, sync);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    return below(vfs)->xAccess(below(vfs), name, flags, out);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    return below(vfs)->xFullPathname(below(vfs), name, size, out);
}

static void *vfs_open_library(sqlite3_vfs *vfs, const char *name)
{
    return below(vfs)->xDlOpen(below(vfs), name);
}

static void vfs_library_error(sqlite3_vfs *vfs, int size, char *message)
{
    below(vfs)->xDlError(below(vfs), size, message);
}

static void (*vfs_symbol(sqlite3_vfs *vfs, void *library, const char *name))(void)
{
    return below(vfs)->xDlSym(below(vfs), library, name);
}

static void vfs_close_library(sqlite3_vfs *vfs, void *library)
{
    below(vfs)->xDlClose(below(vfs), library);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *out)
{
    return below(vfs)->xRandomness(below(vfs), size, out);
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    return below(vfs)->xSleep(below(vfs), microseconds);
}

static int vfs_time(sqlite3_vfs *vfs, double *days)
{
    return below(vfs)->xCurrentTime(below(vfs), days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *message)
{
    return below(vfs)->xGetLastError != NULL ? below(vfs)->xGetLastError(below(vfs), size, message) : 0;
}

static sqlite3_vfs checksums = {
    .iVersion = 1, .szOsFile = sizeof(nd_file), .zName = VFS_NAME, .xOpen = vfs_open, .xDelete = vfs_delete,
    .xAccess = vfs_access, .xFullPathname = vfs_full_path, .xDlOpen = vfs_open_library, .xDlError = vfs_library_error,
    .xDlSym = vfs_symbol, .xDlClose = vfs_close_library, .xRandomness = vfs_randomness, .xSleep = vfs_sleep,
    .xCurrentTime = vfs_time, .xGetLastError = vfs_last_error,
};

ND_EXPORT int sqlite3_neardup_checksums_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

ND_EXPORT int sqlite3_neardup_checksums_init(sqlite3 *db, char **message, const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api);
    (void)db;
    checksums.mxPathname = sqlite3_vfs_find(NULL)->mxPathname;
    if (sqlite3_vfs_register(&checksums, 0) != SQLITE_OK) {
        *message = sqlite3_mprintf("neardup: the VFS " VFS_NAME " could not be registered");
        return SQLITE_ERROR;
    }
    return SQLITE_OK_LOAD_PERMANENTLY; /* the VFS has to stay when the connection is closed */
}
