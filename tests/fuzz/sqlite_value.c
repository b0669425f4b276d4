/* sqlite_value.c: the stored value of a text in an index, for fuzz_sql.c, by the extension's own reading of the settings. (What
 * includes sqlite/neardup.h sees SQLite as an extension does, which a program with a main database cannot.) */
#include "sqlite/neardup.h"

#include "fuzz.h"

size_t fuzz_stored_value(sqlite3 *db, const char *text, uint8_t *out, size_t room);

size_t fuzz_stored_value(sqlite3 *db, const char *text, uint8_t *out, size_t room)
{
    nd_settings settings;
    char *message = NULL;
    const uint8_t *bytes = (const uint8_t *)text;
    size_t size = strlen(text);
    PROMISE(nd_settings_load(db, "i", 1, &settings, &message) == SQLITE_OK);
    if (settings.rules == NULL) {
        size = (size_t)settings.scheme.bits / 8;
        memset(out, text[0], size);
    } else {
        nd_text *work = nd_text_new();
        nd_values *values = nd_values_new();
        PROMISE(work != NULL && values != NULL);
        PROMISE(nd_scheme_append_texts(&settings.scheme, settings.rules, work, &bytes, &size, 1, values) == ND_OK);
        size = (size_t)values->ends[0];
        PROMISE(size <= room);
        if (size > 0)
            memcpy(out, values->bytes, size);
        nd_values_free(values);
        nd_text_free(work);
    }
    nd_settings_clear(&settings);
    return size;
}
