/* sets.c: sets of shingle hashes in half of their bytes: 40 bits of each, whose first 8 are told by one bit a hash and 255 more. */
#include "kernels/kernels.h"
#include "schemes/schemes.h"

enum { HIGH_BITS = 8, LOW_BITS = 32, CUT_BITS = 64 - HIGH_BITS - LOW_BITS, GAPS = (1 << HIGH_BITS) - 1 };

void nd_set_numbers(const uint64_t *hashes, size_t count, uint64_t *numbers)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = nd_fold(nd_fold(hashes[i])) >> CUT_BITS << CUT_BITS;
}

size_t nd_set_size(size_t count)
{
    return 4 * count + (count + GAPS + 7) / 8;
}

size_t nd_set_count(size_t size)
{
    size_t count = size > GAPS / 8 ? (size - GAPS / 8) / 33 * 8 : 0;
    while (nd_set_size(count) < size)
        count++;
    return nd_set_size(count) == size ? count : 0;
}

/* Bit i + (first 8 bits of number i) is set for each i. */
static void write_bits(const uint64_t *numbers, size_t count, uint8_t *bits, size_t size)
{
    uint64_t word = 0;
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t bit = i + (size_t)(numbers[i] >> (64 - HIGH_BITS));
        for (; bit / 64 > done / 8; done += 8, word = 0)
            memcpy(bits + done, &word, 8);
        word |= (uint64_t)1 << bit % 64;
    }
    for (; done < size; done += 8, word = 0)
        memcpy(bits + done, &word, size - done < 8 ? size - done : 8);
}

void nd_set_write(const uint64_t *numbers, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t low = (uint32_t)(numbers[i] >> CUT_BITS);
        memcpy(out + 4 * i, &low, 4);
    }
    write_bits(numbers, count, out + 4 * count, nd_set_size(count) - 4 * count);
}

/* Number i has its 1 at `bit`; how many there are is known before the last is read. */
static uint64_t number_at(const uint8_t *value, size_t i, size_t bit)
{
    uint32_t low;
    memcpy(&low, value + 4 * i, 4);
    return (uint64_t)(bit - i) << (64 - HIGH_BITS) | (uint64_t)low << CUT_BITS;
}

int nd_set_read(const uint8_t *value, size_t size, uint64_t *numbers)
{
    const size_t count = nd_set_count(size);
    const uint8_t *bits = value + 4 * count;
    size_t found = 0;
    uint64_t last = 0;
    int ascending = 1;
    if (count == 0)
        return ND_ERROR_DAMAGED;
    for (size_t at = 0; at < size - 4 * count; at += 8) {
        const size_t rest = size - 4 * count - at;
        uint64_t word = 0;
        memcpy(&word, bits + at, rest < 8 ? rest : 8);
        if ((size_t)__builtin_popcountll(word) > count - found)
            return ND_ERROR_DAMAGED;
        for (; word != 0; word &= word - 1, found++) {
            const size_t bit = 8 * at + (size_t)__builtin_ctzll(word);
            const uint64_t number = number_at(value, found, bit);
            ascending &= ((found == 0) | (number > last)) & (bit - found <= GAPS);
            last = number;
            if (numbers != NULL)
                numbers[found] = number;
        }
    }
    return found == count && ascending ? ND_OK : ND_ERROR_DAMAGED;
}
