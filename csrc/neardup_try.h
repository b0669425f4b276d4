/* neardup_try.h: how an error gets to the caller. */
#ifndef NEARDUP_TRY_H
#define NEARDUP_TRY_H

/* Returns what the call returned, a status or an SQLite result code, unless that is ND_OK, which SQLITE_OK is equal to. For
 * functions with nothing to release. */
#define ND_TRY(call)                                                                                                             \
    do {                                                                                                                         \
        const int failed_ = (call);                                                                                              \
        if (failed_ != 0)                                                                                                        \
            return failed_;                                                                                                      \
    } while (0)

#endif
