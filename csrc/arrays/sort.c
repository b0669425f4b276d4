/* sort.c: radix sorts of 64-bit values, in place and without memory of their own, and of records. */
#include "arrays/arrays.h"

/* Each number is put in order with the one before it without a branch: whether they are swapped is a coin toss, and few go further. */
static void insertion_sort(uint64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint64_t before = values[i - 1], value = values[i];
        uint64_t smaller = value < before ? value : before;
        size_t j = i - 1;
        values[i] = value < before ? before : value;
        for (; j > 0 && values[j - 1] > smaller; j--)
            values[j] = values[j - 1];
        values[j] = smaller;
    }
}

/* In-place radix sort, the most significant byte first ("American flag sort", McIlroy, Bostic and McIlroy 1993): count each byte
 * value, then carry every item along the cycle of its places. DIGIT: the byte of an item from bit `shift` on; insert: sorts few. */
#define SORT_IN_PLACE(name, type, DIGIT, least_shift, insert)                                                                    \
    static void name(type *at, size_t count, int shift)                                                                          \
    {                                                                                                                            \
        if (count <= ND_INSERTION_LIMIT || shift < least_shift) {                                                                \
            insert(at, count);                                                                                                   \
            return;                                                                                                              \
        }                                                                                                                        \
        size_t next[256] = {0}, end[256], start = 0;                                                                             \
        for (size_t i = 0; i < count; i++)                                                                                       \
            next[DIGIT(at[i], shift)]++;                                                                                         \
        for (size_t digit = 0; digit < 256; digit++) {                                                                           \
            end[digit] = start + next[digit];                                                                                    \
            next[digit] = start;                                                                                                 \
            start = end[digit];                                                                                                  \
        }                                                                                                                        \
        for (size_t digit = 0; digit < 256; digit++)                                                                             \
            while (next[digit] < end[digit]) {                                                                                   \
                type one = at[next[digit]];                                                                                      \
                for (size_t home = DIGIT(one, shift); home != digit; home = DIGIT(one, shift)) {                                 \
                    const type displaced = at[next[home]];                                                                       \
                    at[next[home]++] = one;                                                                                      \
                    one = displaced;                                                                                             \
                }                                                                                                                \
                at[next[digit]++] = one;                                                                                         \
            }                                                                                                                    \
        start = 0;                                                                                                               \
        for (size_t digit = 0; digit < 256; digit++) {                                                                           \
            if (end[digit] - start > 1)                                                                                          \
                name(at + start, end[digit] - start, shift - 8);                                                                 \
            start = end[digit];                                                                                                  \
        }                                                                                                                        \
    }

#define BYTE_OF(number, shift) ((number) >> (shift)&255)
SORT_IN_PLACE(sort_by_byte, uint64_t, BYTE_OF, 0, insertion_sort)

static size_t keep_distinct(uint64_t *hashes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hashes[i];
        hashes[kept] = hash;
        kept += i + 1 == count || hash != hashes[i + 1];
    }
    return kept;
}

size_t nd_sort_distinct(uint64_t *hashes, size_t count)
{
    sort_by_byte(hashes, count, 56);
    return keep_distinct(hashes, count);
}

/* Numbers are put where 9 bits say, from the highest bit on that any of them has; then each goes past those few of the same bits that
 * are larger. Where so many have the same that this would take long (they are no hashes), they are sorted as others are. */
size_t nd_sorted_distinct(const uint64_t *from, size_t count, uint64_t *to)
{
    enum { BITS = 9, PLACES = 1 << BITS };
    uint16_t places[PLACES] = {0}, largest = 0, start = 0;
    uint64_t all = PLACES >> 1;
    if (count < ND_PLACED_FEWEST || count > ND_PLACED_MOST) {
        memcpy(to, from, count * sizeof *to);
        return nd_sort_distinct(to, count);
    }
    for (size_t i = 0; i < count && all >> 63 == 0; i++)
        all |= from[i];
    const unsigned shift = 64 - BITS - (unsigned)__builtin_clzll(all);
    for (size_t i = 0; i < count; i++)
        places[from[i] >> shift]++;
    for (size_t i = 0; i < PLACES; i++) {
        uint16_t size = places[i];
        largest = size > largest ? size : largest;
        places[i] = start;
        start = (uint16_t)(start + size);
    }
    for (size_t i = 0; i < count; i++)
        to[places[from[i] >> shift]++] = from[i];
    if (largest > ND_PLACED_SAME)
        return nd_sort_distinct(to, count);
    insertion_sort(to, count);
    return keep_distinct(to, count);
}

/* ---- short records ------------------------------------------------------------------------------------------------------- */

static int is_behind(const nd_short_record *record, const nd_short_record *other)
{
    return nd_short_key(record) != nd_short_key(other) ? nd_short_key(record) > nd_short_key(other) : record->item > other->item;
}

static void insert_short_records(nd_short_record *records, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const nd_short_record record = records[i];
        size_t j = i;
        for (; j > 0 && is_behind(&records[j - 1], &record); j--)
            records[j] = records[j - 1];
        records[j] = record;
    }
}

/* The byte of the key from bit `shift` on; the item follows, from bit -32 on. */
static inline size_t short_digit(const nd_short_record *record, int shift)
{
    return (shift >= 0 ? nd_short_key(record) >> shift : (uint64_t)record->item << 32 >> (64 + shift)) & 255;
}

#define BYTE_OF_SHORT(record, shift) short_digit(&(record), shift)
SORT_IN_PLACE(sort_short_by_byte, nd_short_record, BYTE_OF_SHORT, -32, insert_short_records)

void nd_sort_short_in_place(nd_short_record *records, size_t count)
{
    sort_short_by_byte(records, count, 56);
}

/* ---- with room of the same size ----------------------------------------------------------------------------------------------- */

/* The sorts below go by the least significant digit first, 11 bits a pass; a pass in which all digits are equal moves nothing. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static uint64_t digit_mask(unsigned shift, unsigned high_bit)
{
    return ((uint64_t)1 << (high_bit - shift < DIGIT_BITS ? high_bit - shift : DIGIT_BITS)) - 1;
}

/* Counts of digits -> where each digit's items begin; 0 if all items have the digit `first`. */
static int starts_of_counts(size_t *counts, uint64_t mask, size_t count, uint64_t first)
{
    size_t start = 0;
    if (counts[first] == count)
        return 0;
    for (size_t digit = 0; digit <= mask; digit++) {
        size_t size = counts[digit];
        counts[digit] = start;
        start += size;
    }
    return 1;
}

/* A stable sort of `type` by the bits low_bit .. high_bit - 1 of KEY. Few, which is what one fingerprint's rows are, are inserted:
 * counting digits would look at all of their 2,048 values each time. */
#define SORT_BY_DIGITS(name, type, KEY)                                                                                          \
    static void name##_few(type *at, size_t count, unsigned low_bit, unsigned high_bit)                                          \
    {                                                                                                                            \
        uint64_t mask = (high_bit < 64 ? (uint64_t)1 << high_bit : 0) - ((uint64_t)1 << low_bit);                                \
        for (size_t i = 1; i < count; i++) {                                                                                     \
            const type one = at[i];                                                                                              \
            size_t j = i;                                                                                                        \
            for (; j > 0 && (KEY(at[j - 1]) & mask) > (KEY(one) & mask); j--)                                                    \
                at[j] = at[j - 1];                                                                                               \
            at[j] = one;                                                                                                         \
        }                                                                                                                        \
    }                                                                                                                            \
                                                                                                                                 \
    type *name(type *at, type *other, size_t count, unsigned low_bit, unsigned high_bit)                                         \
    {                                                                                                                            \
        if (low_bit < high_bit && count <= ND_INSERTION_LIMIT) {                                                                 \
            name##_few(at, count, low_bit, high_bit);                                                                            \
            return at;                                                                                                           \
        }                                                                                                                        \
        size_t starts[DIGITS];                                                                                                   \
        for (unsigned shift = low_bit; shift < high_bit && count > 1; shift += DIGIT_BITS) {                                     \
            uint64_t mask = digit_mask(shift, high_bit);                                                                         \
            memset(starts, 0, sizeof starts);                                                                                    \
            for (size_t i = 0; i < count; i++)                                                                                   \
                starts[KEY(at[i]) >> shift & mask]++;                                                                            \
            if (!starts_of_counts(starts, mask, count, KEY(at[0]) >> shift & mask))                                              \
                continue;                                                                                                        \
            for (size_t i = 0; i < count; i++)                                                                                   \
                other[starts[KEY(at[i]) >> shift & mask]++] = at[i];                                                             \
            type *swap = at;                                                                                                     \
            at = other;                                                                                                          \
            other = swap;                                                                                                        \
        }                                                                                                                        \
        return at;                                                                                                               \
    }

#define KEY_OF_RECORD(record) (record).key
#define KEY_OF_SHORT(record) nd_short_key(&(record))
#define KEY_OF_KEY(key) (key)
SORT_BY_DIGITS(nd_sort_records, nd_record, KEY_OF_RECORD)
SORT_BY_DIGITS(nd_sort_short_records, nd_short_record, KEY_OF_SHORT)
SORT_BY_DIGITS(nd_sort_keys, uint64_t, KEY_OF_KEY)
