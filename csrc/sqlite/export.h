/* export.h: what SQLite finds by name in a module that it loads. */
#ifndef ND_SQLITE_EXPORT_H
#define ND_SQLITE_EXPORT_H

#if defined(_WIN32)
#define ND_EXPORT __declspec(dllexport)
#else
#define ND_EXPORT __attribute__((visibility("default")))
#endif

#endif
