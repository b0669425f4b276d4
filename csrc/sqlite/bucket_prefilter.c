/* bucket_prefilter.c: what lets a query pass by most of its candidates without their values. Candidates are looked up one by one, and many
 * of those in a crowded bucket are asked for by one query after another. Of these the connection remembers the outlines.
 *
 * neardup_may_match(fingerprint, id, slot_bits, threshold, number) -> 0 where the outline of fingerprint `id` is remembered and
 * shows that less than the threshold of its slots are equal; else 1. The first ND_OUTLINED_FROM candidates of a statement may all.
 * neardup_met(id, value, slot_bits, number, settled) -> 1; remembers the outline, where the statement has so many candidates.
 *
 * What is remembered is never wrong: the caller gives a number to the fingerprints of an index as long as each id keeps its value,
 * or goes for ever, and no other fingerprints of the process ever have that number. Ids above `settled` may yet be rolled back, and
 * inside a transaction that writes nothing is remembered of them. In the place of a database in memory the caller can put another by
 * sqlite3_deserialize, which nothing tells apart from the first: there are no outlines. Where SQL of others may come to the
 * connection and give a value that is none, neardup_search gives no number, and there are none either. DIRECTONLY. */
#include "sqlite/neardup.h"

#include <string.h>

/* Kept beside the fingerprint that a statement asks for, while it runs. */
typedef struct asked {
    size_t candidates;
    size_t spared; /* slots that may differ */
    size_t slots, slot_size;
    int64_t number;
    int is_usable;
    uint64_t outline[]; /* drawn when it is needed */
} asked;

/* What a statement asks for, from its arguments; NULL if memory is out. */
static asked *begin(sqlite3_context *context, sqlite3_value **argv)
{
    size_t slot_size = sqlite3_value_int64(argv[2]) == 32 ? 4 : 2;
    size_t slots = (size_t)sqlite3_value_bytes(argv[0]) / slot_size;
    asked *question = sqlite3_malloc64(sizeof *question + nd_outline_words(slots) * sizeof(uint64_t));
    if (question == NULL)
        return NULL;
    *question = (asked){.slots = slots, .slot_size = slot_size, .number = sqlite3_value_int64(argv[4])};
    question->spared = nd_slots_spared(slots, sqlite3_value_double(argv[3]));
    question->is_usable = slots > 0 && sqlite3_value_type(argv[0]) == SQLITE_BLOB &&
                          sqlite3_value_type(argv[4]) == SQLITE_INTEGER;
    nd_function_workspace(context)->outlined = 0;
    sqlite3_set_auxdata(context, 0, question, sqlite3_free);
    return sqlite3_get_auxdata(context, 0) == question ? question : NULL;
}

/* Whether the database is a file now: one that was deserialized is none any more. */
static int is_file(sqlite3_context *context)
{
    const char *name = sqlite3_db_filename(sqlite3_context_db_handle(context), "main");
    return name != NULL && name[0] != 0;
}

/* From here on the statement has many candidates. */
static void use_outlines(sqlite3_context *context, asked *question, sqlite3_value *fingerprint)
{
    nd_workspace *workspace = nd_function_workspace(context);
    question->is_usable = is_file(context);
    if (!question->is_usable)
        return;
    nd_outlines_begin(workspace->outlines, question->number, question->slots, question->slot_size);
    nd_outline_draw(sqlite3_value_blob(fingerprint), question->slots, question->slot_size, question->outline);
    workspace->outlined = 1;
}

static int sql_may_match(sqlite3_context *context, sqlite3_value **argv)
{
    nd_workspace *workspace = nd_function_workspace(context);
    asked *question = sqlite3_get_auxdata(context, 0);
    if (question == NULL && (question = begin(context, argv)) == NULL)
        return SQLITE_NOMEM;
    if (question->is_usable && question->candidates++ == ND_OUTLINED_FROM)
        use_outlines(context, question, argv[0]);
    int is_apart = question->is_usable && question->candidates > ND_OUTLINED_FROM &&
                   nd_outlines_are_of(workspace->outlines, question->number, question->slots, question->slot_size) &&
                   nd_outlines_tell_apart(workspace->outlines, sqlite3_value_int64(argv[1]), question->outline, question->spared);
    sqlite3_result_int(context, !is_apart);
    return SQLITE_OK;
}

/* Whether the row of a fingerprint will stay, or go for ever. */
static int is_settled(sqlite3_context *context, int64_t id, int64_t settled)
{
    return id <= settled || sqlite3_txn_state(sqlite3_context_db_handle(context), "main") != SQLITE_TXN_WRITE;
}

static int sql_met(sqlite3_context *context, sqlite3_value **argv)
{
    nd_workspace *workspace = nd_function_workspace(context);
    int64_t id = sqlite3_value_int64(argv[0]);
    size_t slot_size = sqlite3_value_int64(argv[2]) == 32 ? 4 : 2;
    sqlite3_result_int(context, 1);
    if (!workspace->outlined || sqlite3_value_type(argv[1]) != SQLITE_BLOB ||
        !is_settled(context, id, sqlite3_value_int64(argv[4])))
        return SQLITE_OK;
    const uint8_t *value = sqlite3_value_blob(argv[1]);
    size_t slots = (size_t)sqlite3_value_bytes(argv[1]) / slot_size;
    if (value != NULL && nd_outlines_are_of(workspace->outlines, sqlite3_value_int64(argv[3]), slots, slot_size))
        nd_outlines_keep(workspace->outlines, id, value);
    return SQLITE_OK;
}

const nd_scalar_spec nd_outline_scalars[] = {
    {"neardup_may_match", "*****", 1, sql_may_match},
    {"neardup_met", "*****", 1, sql_met},
    {NULL, NULL, 0, NULL},
};
