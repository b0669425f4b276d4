/* neardup_values.h: an array in memory, which Python binds by pointer and the SQL function nd_values reads. */
#ifndef NEARDUP_VALUES_H
#define NEARDUP_VALUES_H

#include <stddef.h>
#include <stdint.h>

#define ND_VALUES_POINTER "nd_values"

typedef struct nd_values_array {
    int type; /* SQLITE_INTEGER, SQLITE_TEXT or SQLITE_BLOB */
    size_t count;
    const int64_t *numbers;   /* of integers, */
    const char *const *items; /* of others, */
    const size_t *sizes;      /* and their sizes in bytes */
} nd_values_array;

#endif
