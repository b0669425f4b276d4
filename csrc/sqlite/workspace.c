/* workspace.c: buffers that the calls on one connection use again, and what they hold. */
#include "sqlite/neardup.h"

#include <string.h>

int nd_workspace_rules(nd_workspace *workspace, int32_t shingle)
{
    const nd_rules_spec spec = {.normalize = ND_NORMALIZE_NFKC,
        .fold = ND_CASE_FOLD,
        .tokens = ND_TOKENS_WORDS,
        .nonword = ND_NONWORD_SPACE,
        .short_text = ND_SHORT_WHOLE,
        .hash = ND_HASH_XXH3_64,
        .shingle = shingle,
        .joiner = (const uint8_t *)" ",
        .joiner_size = 1};
    if (workspace->rules != NULL && workspace->shingle == shingle)
        return ND_OK;
    nd_rules_free(workspace->rules);
    workspace->rules = NULL;
    workspace->shingle = shingle;
    return nd_rules_new(&spec, &workspace->rules);
}

nd_workspace *nd_workspace_new(sqlite3 *db)
{
    nd_workspace *workspace = sqlite3_malloc64(sizeof *workspace);
    if (workspace == NULL)
        return NULL;
    memset(workspace, 0, sizeof *workspace);
    workspace->references = 1;
    workspace->db = db;
    workspace->work = nd_text_new();
    workspace->values = nd_values_new();
    workspace->outlines = nd_outlines_new();
    if (workspace->work == NULL || workspace->values == NULL || workspace->outlines == NULL) {
        nd_workspace_release(workspace);
        return NULL;
    }
    nd_text_watch(workspace->work, nd_is_interrupted, db);
    nd_values_watch(workspace->values, nd_is_interrupted, db);
    return workspace;
}

void nd_workspace_release(nd_workspace *workspace)
{
    if (workspace == NULL || --workspace->references > 0)
        return;
    nd_rules_free(workspace->rules);
    nd_text_free(workspace->work);
    nd_values_free(workspace->values);
    nd_outlines_free(workspace->outlines);
    sqlite3_free(workspace->numbers[0]);
    sqlite3_free(workspace->numbers[1]);
    sqlite3_free(workspace);
}

int nd_buffer_reserve(void **buffer, size_t *capacity, size_t needed, size_t item_size)
{
    if (needed <= *capacity)
        return SQLITE_OK;
    size_t wanted = needed + needed / 2 + 64;
    void *grown = sqlite3_realloc64(*buffer, wanted * item_size);
    if (grown == NULL)
        return SQLITE_NOMEM;
    *buffer = grown;
    *capacity = wanted;
    return SQLITE_OK;
}

uint64_t *nd_workspace_numbers(nd_workspace *workspace, int which, size_t count)
{
    uint64_t **numbers = &workspace->numbers[which];
    size_t *capacity = &workspace->capacity[which];
    if (*capacity > ND_KEPT_SIZE / sizeof **numbers && *capacity / 16 > count) { /* one large text is no reason to keep as much */
        sqlite3_free(*numbers);
        *numbers = NULL;
        *capacity = 0;
    }
    return nd_buffer_reserve((void **)numbers, capacity, count + 1, sizeof **numbers) == SQLITE_OK ? *numbers : NULL;
}

/* Blobs of a row stand anywhere in a page, so they are copied to where numbers may be read; the order is checked there. */
int nd_ascending_numbers(nd_workspace *workspace, int which, sqlite3_value *blob, const uint64_t **numbers, size_t *count)
{
    const void *data = sqlite3_value_blob(blob);
    size_t size = (size_t)sqlite3_value_bytes(blob);
    if (sqlite3_value_type(blob) != SQLITE_BLOB || size % sizeof(uint64_t) != 0)
        return ND_ERROR_DAMAGED;
    if (data == NULL && size > 0) /* zeros that could not be written out */
        return ND_ERROR_MEMORY;
    *count = size / sizeof(uint64_t);
    uint64_t *copy = nd_workspace_numbers(workspace, which, *count);
    if (copy == NULL)
        return ND_ERROR_MEMORY;
    for (size_t start = 0, end; start < *count; start = end) {
        end = *count - start < ND_NUMBERS_AT_ONCE ? *count : start + ND_NUMBERS_AT_ONCE;
        memcpy(copy + start, (const uint8_t *)data + start * sizeof *copy, (end - start) * sizeof *copy);
        for (size_t i = start > 0 ? start : 1; i < end; i++)
            if (copy[i - 1] >= copy[i])
                return ND_ERROR_DAMAGED;
        if (end - start == ND_NUMBERS_AT_ONCE && nd_is_interrupted(workspace->db))
            return ND_ERROR_STOPPED;
    }
    *numbers = copy;
    return ND_OK;
}
