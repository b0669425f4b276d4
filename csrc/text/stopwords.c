/* stopwords.c: the table of stop words, open addressing by hash. */
#include "hashes/xxh3.h"
#include "text/workspace.h"

static const uint8_t *stopword(const nd_rules *rules, size_t index, size_t *size)
{
    const size_t start = index == 0 ? 0 : rules->stopword_ends[index - 1];
    *size = rules->stopword_ends[index] - start;
    return rules->stopword_bytes + start;
}

size_t nd_stopwords_place(const nd_rules *rules, const uint8_t *token, size_t size)
{
    size_t place = (size_t)nd_xxh3_inline(token, size, 0) & rules->stopword_mask;
    for (; rules->stopword_table[place] != 0; place = (place + 1) & rules->stopword_mask) {
        size_t other_size;
        const uint8_t *const other = stopword(rules, rules->stopword_table[place] - 1, &other_size);
        if (other_size == size && memcmp(other, token, size) == 0)
            break;
    }
    return place;
}

int nd_rules_is_stopword(const nd_rules *rules, const uint8_t *token, size_t size)
{
    return rules->stopword_table[nd_stopwords_place(rules, token, size)] != 0;
}
