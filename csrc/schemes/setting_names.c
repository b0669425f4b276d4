/* setting_names.c: the settings of a file that are words, with the numbers that they stand for. */
#include "core.h"

typedef struct setting {
    const char *name;
    const char *words[8]; /* of number i; the last is NULL */
} setting;

static const setting settings[] = {
    {"scheme", {"simhash", "minhash", "bottomk", "bitsampling", "binarycode", "passages"}},
    {"plan", {"scan", "blocks", "chunks", "bands", "prefix", "winnow"}},
    {"family", {"affine32", "java32"}},
    {"evidence", {"none", "packed"}},
    {"measure", {"fingerprint", "estimate"}},
    {"text.normalize", {"none", "NFC", "NFKC"}},
    {"text.case", {"none", "lower", "fold"}},
    {"text.tokens", {"words", "chars"}},
    {"text.nonword", {"space", "keep", "drop"}},
    {"text.short", {"whole", "drop"}},
    {"text.hash", {"xxh3_64", "fnv1a_32", "fnv1a_64", "djb2a", "md5", "sha1", "sha256"}},
    {"text.filter", {"none"}},
};

static const char *const *words_of(const char *name)
{
    static const char *const none[] = {NULL};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (strcmp(name, settings[i].name) == 0)
            return settings[i].words;
    return none;
}

const char *nd_setting_word(const char *name, int32_t number)
{
    const char *const *words = words_of(name);
    for (int32_t i = 0; words[i] != NULL; i++)
        if (i == number)
            return words[i];
    return NULL;
}

int32_t nd_setting_number(const char *name, const char *word)
{
    const char *const *words = words_of(name);
    for (int32_t i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}
