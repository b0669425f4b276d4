#ifndef ND_PYTHON_FORK_H
#define ND_PYTHON_FORK_H
#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3

/* From now on each fork of this process takes SQLite's own locks before. An SQLite result code. */
int nd_take_locks_at_forks(void);

#endif
