/* unicode.h: look-ups in the Unicode tables that are short enough to be inlined, for unicode.c and text.c. The names of
 * the constants (ND_CP_*, ND_GCB_*, ND_NORMALIZE_*, ND_CASE_*) are those of the headers above. Every function takes any 32-bit
 * value: unassigned code points have what the database gives them, values above U+10FFFF have no property and map to
 * themselves. */
#ifndef ND_UNICODE_INTERNAL_H
#define ND_UNICODE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "text/unicode_data.h"

/* All properties of a code point in one number: flags in bits 0-7, then grapheme break, combining class and quick checks. */
static inline uint32_t nd_unicode_record(uint32_t code_point)
{
    if (code_point >= ND_PROPERTY_LIMIT)
        return 0;
    const uint32_t block = nd_property_stage1[code_point >> ND_PROPERTY_SHIFT];
    const uint32_t low = code_point & ((1u << ND_PROPERTY_SHIFT) - 1u);
    return nd_property_record[nd_property_stage2[block << ND_PROPERTY_SHIFT | low]];
}

/* ND_CP_* */
static inline uint32_t nd_record_flags(uint32_t record)
{
    return record & 0xFFu;
}

/* ND_GCB_* */
static inline uint32_t nd_record_break(uint32_t record)
{
    return record >> ND_RECORD_BREAK_SHIFT & 0xFu;
}

/* Canonical_Combining_Class */
static inline uint32_t nd_record_class(uint32_t record)
{
    return record >> ND_RECORD_CLASS_SHIFT & 0xFFu;
}

/* The bits of a record of which none may be set in a stable code point of a form (ND_NORMALIZE_*). */
static inline uint32_t nd_stable_mask(int32_t form)
{
    return form == 0 ? 0 : 0xFFu << ND_RECORD_CLASS_SHIFT | 1u << (ND_RECORD_CHECK_SHIFT + form);
}

/* 1 if the code point is stable under the form: its combining class is 0 and its quick check is "yes". A run of stable code
 * points is already in the form, and nothing before a stable one can change with it or after it: text may be cut before each,
 * and the pieces normalised one by one. All of ASCII is stable under every form. */
static inline int nd_unicode_is_stable(int32_t form, uint32_t code_point)
{
    return code_point < 0x80 || (nd_unicode_record(code_point) & nd_stable_mask(form)) == 0;
}

/* Length of the prefix that is already in the form and ends before a stable code point or at the end: count if all of it is in
 * the form. What is left may be normalised alone. */
size_t nd_unicode_normal_prefix(int32_t form, const uint32_t *code_points, size_t count);

/* Case record, to be read with fold = 0 (lower case) or 1 (folded). */
static inline const nd_case_record *nd_case_record_of(uint32_t code_point)
{
    if (code_point >= ND_CASE_LIMIT)
        return &nd_case_records[0];
    const uint32_t block = nd_case_stage1[code_point >> ND_CASE_SHIFT];
    const uint32_t low = code_point & ((1u << ND_CASE_SHIFT) - 1u);
    return &nd_case_records[nd_case_stage2[block << ND_CASE_SHIFT | low]];
}

/* The mapping to lower case (folded = 0) or folded case (folded = 1) where it is one code point, as nearly all are; 0 where it
 * is longer, and for U+0000: then ask nd_unicode_case. */
static inline uint32_t nd_unicode_case_single(int folded, uint32_t code_point)
{
    if (code_point < 0x80)
        return code_point - 'A' < 26u ? code_point | 0x20u : code_point;
    const nd_case_record *record = nd_case_record_of(code_point);
    return record->sequence[folded] ? 0 : code_point + (uint32_t)record->delta[folded];
}

#endif
