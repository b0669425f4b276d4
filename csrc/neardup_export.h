/* neardup_export.h: what SQLite finds by name in a module that it loads. */
#ifndef NEARDUP_EXPORT_H
#define NEARDUP_EXPORT_H

#if defined(_WIN32)
#define ND_EXPORT __declspec(dllexport)
#else
#define ND_EXPORT __attribute__((visibility("default")))
#endif

#endif
