/* query.c: query EXTENSION DATABASE FILE: loads the extension into a connection of SQLite, runs the statements of the file, prints the
 * rows, a line each. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static char *read_file(const char *path)
{
    FILE *const file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, got = 0;
    if (file == NULL)
        fail(path, "cannot be opened");
    do {
        size += got;
        text = realloc(text, size + 65537);
        if (text == NULL)
            fail(path, "no memory");
        got = fread(text + size, 1, 65536, file);
    } while (got > 0);
    fclose(file);
    text[size] = '\0';
    return text;
}

static int print_row(void *unused, int count, char **values, char **names)
{
    (void)unused;
    (void)names;
    for (int i = 0; i < count; i++)
        printf("%s%s", i > 0 ? "|" : "", values[i] == NULL ? "NULL" : values[i]);
    fputs("\n", stdout);
    return 0;
}

int main(int count, char **given)
{
    sqlite3 *db;
    char *message = NULL;
    if (count != 4)
        fail("usage", "query EXTENSION DATABASE FILE");
    if (sqlite3_open(given[2], &db) != SQLITE_OK)
        fail(given[2], sqlite3_errmsg(db));
    sqlite3_enable_load_extension(db, 1);
    if (sqlite3_load_extension(db, given[1], NULL, &message) != SQLITE_OK)
        fail(given[1], message);
    char *const statements = read_file(given[3]);
    if (sqlite3_exec(db, statements, print_row, NULL, &message) != SQLITE_OK)
        fail(given[3], message);
    free(statements);
    return sqlite3_close(db) == SQLITE_OK ? 0 : 1;
}
