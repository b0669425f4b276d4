/* fingerprints.c: a line for each fixed text under each scheme: its stored value, its tokens, its bucket keys. The lines are the same
 * on every platform. Each tier of kernels that the CPU has must make them; its name goes to stderr. */
#include "../c/check.h"

#define LONG_SIZE ((size_t)1 << 20)
#define SHOWN_BYTES 64 /* of a longer value its hash is printed */

typedef struct case_of {
    const char *name;
    nd_scheme scheme;
    nd_rules_spec rules;
} case_of;

#define RULES(given_shingle)                                                                                                     \
    .normalize = ND_NORMALIZE_NFKC, .fold = ND_CASE_FOLD, .tokens = ND_TOKENS_WORDS, .shingle = (given_shingle),                 \
    .joiner = (const uint8_t *)" ", .joiner_size = 1

#define MINHASH(given_bits, given_evidence, given_family)                                                                        \
    .kind = ND_SCHEME_MINHASH, .plan = ND_PLAN_BANDS, .num_perm = 128, .bands = 32, .rows = 4, .slot_bits = (given_bits),        \
    .family = (given_family), .evidence = (given_evidence), .seed = 7, .threshold = 0.8

static const case_of cases[] = {
    {"minhash", {MINHASH(16, ND_EVIDENCE_NONE, ND_FAMILY_AFFINE32)}, {RULES(3)}},
    {"minhash 32 bits, java32", {MINHASH(32, ND_EVIDENCE_NONE, ND_FAMILY_JAVA32)}, {RULES(3)}},
    {"minhash, packed", {MINHASH(32, ND_EVIDENCE_PACKED, ND_FAMILY_AFFINE32)}, {RULES(3)}},
    {"minhash, characters", {MINHASH(16, ND_EVIDENCE_NONE, ND_FAMILY_AFFINE32)},
        {.normalize = ND_NORMALIZE_NFC,
            .fold = ND_CASE_LOWER,
            .tokens = ND_TOKENS_CHARS,
            .nonword = ND_NONWORD_KEEP,
            .strip_accents = 1,
            .hash_seed = 11,
            .shingle = 5}},
    {"bottom-k", {.kind = ND_SCHEME_BOTTOMK, .plan = ND_PLAN_PREFIX, .k = 64, .threshold = 0.7, .containment = 1}, {RULES(2)}},
    {"bit samples",
        {.kind = ND_SCHEME_BITSAMPLING,
            .plan = ND_PLAN_CHUNKS,
            .bits = 128,
            .num_perm = 128,
            .max_distance = 12,
            .chunks = 8,
            .slot_bits = 32},
        {RULES(3)}},
    {"simhash", {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_BLOCKS, .bits = 64, .max_distance = 3, .blocks = 6}, {RULES(1)}},
    {"simhash, MD5", {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_CHUNKS, .bits = 128, .max_distance = 7, .chunks = 8},
        {RULES(2), .hash = ND_HASH_MD5}},
    {"simhash, SHA-256", {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_SCAN, .bits = 256, .max_distance = 30},
        {RULES(2), .hash = ND_HASH_SHA256}},
    {"simhash, FNV-1a of 32 bits",
        {.kind = ND_SCHEME_SIMHASH, .plan = ND_PLAN_BLOCKS, .bits = 32, .max_distance = 2, .blocks = 4},
        {RULES(2), .hash = ND_HASH_FNV1A_32}},
};

static const char *const short_texts[] = {
    "",
    " \t\n...",
    "one",
    "two words",
    "The harbour was full of small boats that morning, and nobody had told the baker about the new oven in the yard.",
    "Ein sch\xc3\xb6ner Gru\xc3\x9f aus Zu\xcc\x88rich an alle \xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd im B\xc3\xbcro",
    "\xe6\x88\x91\xe4\xbb\xac\xe5\x9c\xa8\xe5\x8c\x97\xe4\xba\xac\xe7\x9a\x84\xe4\xb8\x80\xe5\xae\xb6\xe5\xb0\x8f\xe9\xa4\x90\xe9"
    "\xa6\x86 and \xe0\xb8\xa0\xe0\xb8\xb2\xe0\xb8\xa9\xe0\xb8\xb2\xe0\xb9\x84\xe0\xb8\x97\xe0\xb8\xa2",
    "\xce\x91\xce\xa5\xce\xa4\xce\x8c \xd0\xad\xd0\xa2\xd0\x9e \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d "
    "\xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7 \xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87 "
    "\xed\x95\x9c\xea\xb5\xad\xec\x96\xb4",
    "\xef\xac\x81ne \xef\xbc\xb7\xef\xbc\xa9\xef\xbc\xa4\xef\xbc\xa5 \xe2\x84\xa2 \xc4\xb0stanbul \xe1\xba\x9e 3\xc2\xbd "
    "\xe2\x85\xa7",
    "broken \xff\xfe bytes \xed\xa0\x80 and \xc3",
};
#define SHORT_TEXTS (sizeof short_texts / sizeof short_texts[0])

/* Words of Latin, Greek and Han letters in an order that a random generator draws: long enough for every way of the core. */
static char *long_text(void)
{
    static const char *const words[] = {"stone ", "River, ", "na\xc3\xafve ", "\xce\xbb\xcf\x8c\xce\xb3\xce\xbf\xcf\x82 ",
        "\xe9\x9b\xa8\xe5\xa4\xa9 ", "42 ", "candle\n", "and "};
    char *const text = malloc(LONG_SIZE + 16);
    uint64_t state = 20261123;
    size_t size = 0;
    CHECK(text != NULL);
    while (size < LONG_SIZE) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const char *const word = words[state >> 61];
        for (size_t i = 0; word[i] != '\0'; i++)
            text[size++] = word[i];
    }
    text[size] = '\0';
    return text;
}

/* A line that grows. */
typedef struct lines {
    char *at;
    size_t size, capacity;
} lines;

static void put(lines *to, const char *text)
{
    const size_t size = strlen(text);
    if (to->size + size + 1 > to->capacity) {
        to->capacity = 2 * (to->size + size + 1);
        to->at = realloc(to->at, to->capacity);
        CHECK(to->at != NULL);
    }
    memcpy(to->at + to->size, text, size + 1);
    to->size += size;
}

static void put_number(lines *to, uint64_t number)
{
    char digits[20];
    snprintf(digits, sizeof digits, " %08lx%08lx", (unsigned long)(number >> 32), (unsigned long)(number & 0xFFFFFFFF));
    put(to, digits);
}

static void put_value(lines *to, const uint8_t *value, size_t size)
{
    char digits[3];
    put_number(to, size);
    put(to, " ");
    for (size_t i = 0; i < size && size <= SHOWN_BYTES; i++) {
        snprintf(digits, sizeof digits, "%02x", (unsigned)value[i]);
        put(to, digits);
    }
    put_number(to, nd_xxh3_64(value, size, 0));
}

/* How many keys there are, and one number made of all. */
static void put_keys(lines *to, const nd_scheme *scheme, const uint8_t *value, size_t size, nd_keys *keys)
{
    uint64_t all = 0;
    if (size > 0)
        CHECK(nd_scheme_file_keys(scheme, 5, value, size, keys) == ND_OK);
    const size_t count = size > 0 ? keys->count : 0;
    for (size_t i = 0; i < count; i++) {
        const nd_key *const key = keys->rows + i;
        all = all * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)key->table_no;
        all = all * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)key->low;
        all = all * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)key->high;
    }
    put_number(to, count);
    put_number(to, all);
}

static void put_case(lines *to, const case_of *given, const char *const *texts, size_t count)
{
    nd_rules *rules;
    nd_text *const work = nd_text_new();
    nd_values *const values = nd_values_new();
    nd_keys *const keys = nd_keys_new();
    char message[300];
    if (nd_scheme_check(&given->scheme, message, sizeof message) != ND_OK) {
        fprintf(stderr, "%s: %s\n", given->name, message);
        exit(1);
    }
    CHECK(work != NULL && values != NULL && keys != NULL && nd_rules_new(&given->rules, &rules) == ND_OK);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *const text = (const uint8_t *)texts[i];
        nd_sketch sketch;
        CHECK(nd_scheme_sketch_text(&given->scheme, rules, work, text, strlen(texts[i]), values, NULL, &sketch) == ND_OK);
        put(to, given->name);
        put(to, ":");
        put_number(to, sketch.token_count);
        put_value(to, sketch.value, sketch.size);
        put_keys(to, &given->scheme, sketch.value, sketch.size, keys);
        put(to, "\n");
    }
    nd_keys_free(keys);
    nd_values_free(values);
    nd_text_free(work);
    nd_rules_free(rules);
}

int main(void)
{
    const char *texts[SHORT_TEXTS + 1];
    char *const long_one = long_text(), *expected = NULL;
    for (size_t i = 0; i < SHORT_TEXTS; i++)
        texts[i] = short_texts[i];
    texts[SHORT_TEXTS] = long_one;
    for (int tier = 0; tier < nd_isa_count(); tier++) {
        lines made = {0};
        CHECK(nd_isa_force(nd_isa_at(tier)) == ND_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            put_case(&made, &cases[i], texts, SHORT_TEXTS + 1);
        CHECK(expected == NULL || strcmp(expected, made.at) == 0);
        free(expected);
        expected = made.at;
        fprintf(stderr, "%s%s", tier > 0 ? " " : "", nd_isa_name());
    }
    fputs(expected, stdout);
    free(expected);
    free(long_one);
    return 0;
}
