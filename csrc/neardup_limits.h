/* neardup_limits.h: the sizes at which the C code splits work: pages, blocks, spans, batches. None changes an answer or a
 * stored value, so a build with tiny limits (meson setup -Dsmall_limits=true) must give the same answers; small tests then
 * reach every split. Its files are not compatible with other builds, since ND_HASHED_BITS is part of the format.
 *
 * Not here: constants of the file format and of formulas (neardup_abi.h), bounds of arguments, the cost model of plans, and
 * sizes required by a kernel's instructions. */
#ifndef NEARDUP_LIMITS_H
#define NEARDUP_LIMITS_H

#ifdef ND_SMALL_LIMITS
#define ND_LIMIT(usual, small) (small)
#else
#define ND_LIMIT(usual, small) (usual)
#endif

/* ---- texts ----------------------------------------------------------------------------------------------------------- */

#define ND_LARGE_TEXT ND_LIMIT((size_t)1 << 19, 48) /* bytes; longer texts are sketched part by part */
#define ND_DRAIN_SIZE ND_LIMIT((size_t)1 << 17, 24) /* bytes of tokens in a part */
#define ND_SPAN_SIZE ND_LIMIT(65536, 64)            /* bytes of text that are normalised together */
#define ND_POINT_BATCH ND_LIMIT(128, 40)            /* code points decoded together, more than ND_WINDOW */
#define ND_MIXED_BATCH ND_LIMIT(65536, 96)          /* bytes of scripts with spaces */
#define ND_KEPT_SIZE ND_LIMIT((size_t)4 << 20, 256) /* a buffer up to this size stays from text to text */

/* ---- fingerprints ---------------------------------------------------------------------------------------------------- */

#define ND_HASH_BLOCK                                                                                                            \
    ND_LIMIT(512, 16) /* hashes of a text processed together: the results fit the stack and the first-level cache */

#define ND_MINIMA_AT_ONCE                                                                                                        \
    ND_LIMIT((size_t)1 << 26, (size_t)1 << 17) /* minima between two checks for an interrupt: milliseconds */

#define ND_ROWS_AT_ONCE ND_LIMIT((size_t)64, (size_t)2) /* values moved to their rows while in the first-level cache */

/* ---- sorting --------------------------------------------------------------------------------------------------------- */

#define ND_INSERTION_LIMIT ND_LIMIT(48, 4) /* values up to which inserting one by one is faster than counting digits */
#define ND_SORT_ROOM ND_LIMIT((size_t)1 << 20, (size_t)16) /* records up to which a sort with room of their size is faster */
#define ND_PLACED_FEWEST ND_LIMIT(64, 8) /* nd_sorted_distinct: numbers that are put where 9 of their bits say, */
#define ND_PLACED_MOST ND_LIMIT(4096, 64)
#define ND_PLACED_SAME ND_LIMIT(32, 3) /* where no more than these have the same bits */

/* ---- blobs ----------------------------------------------------------------------------------------------------------- */

#define ND_NUMBERS_AT_ONCE ND_LIMIT((size_t)1 << 20, (size_t)2) /* numbers copied between two checks for an interrupt */

/* ---- growing --------------------------------------------------------------------------------------------------------- */

#define ND_FIRST_CAPACITY ND_LIMIT(1024, 4) /* first capacity of a hash table, a power of two */

/* ---- joins in memory ------------------------------------------------------------------------------------------------- */

#define ND_FOUND_BLOCK ND_LIMIT(1024, 40)  /* pairs that a kernel finds at once, more than ND_NEAR_ROOM */
#define ND_JOIN_BATCH ND_LIMIT(1024, 8)    /* codes whose keys are made at once */
#define ND_JOIN_PARTS ND_LIMIT(9, 2)       /* bits of a key by which codes are put into parts */
#define ND_BITMAPS_STEP ND_LIMIT(2048, 16) /* sets whose bitmaps are compared together, a multiple of ND_SET_LANES */
#define ND_JOIN_SAMPLE ND_LIMIT(256, 4)    /* sampled sets for the cost of comparing all bitmaps */

/* ---- outlines of signatures ------------------------------------------------------------------------------------------ */

#define ND_OUTLINED_FROM ND_LIMIT(16, 2) /* candidates of a query above which it uses outlines, and adds to them */
#define ND_OUTLINES_FIRST ND_LIMIT((size_t)1024, (size_t)2)
#define ND_OUTLINES_BYTES ND_LIMIT((size_t)12 << 20, (size_t)256) /* at most: 262,144 signatures of 128 slots */
#define ND_OUTLINE_PLACES ND_LIMIT(8, 2)                          /* that an id may have */

/* ---- candidate tables ------------------------------------------------------------------------------------------------ */

#define ND_PART_BYTES ND_LIMIT(1900, 100) /* bytes of entries in a row of several: two such rows fill a page */
/* Bits of a bucket that is a hash, up to ND_BUCKET_BITS. Part of the format; few of them make groups and codes collide. */
#define ND_HASHED_BITS ND_LIMIT(ND_BUCKET_BITS, 3)
#define ND_FIRST_SEEN ND_LIMIT(64, 2) /* places for the candidates of a query, a power of two */

/* ---- joins of a candidate table -------------------------------------------------------------------------------------- */

#define ND_PAGE_BYTES                                                                                                            \
    ND_LIMIT((size_t)192 << 20, (size_t)8192) /* memory for the probes of a page: every page walks the table again */
#define ND_PASSED_ROWS ND_LIMIT(8, 2)         /* rows skipped before seeking instead */
#define ND_ITEM_BITS 20                       /* which fingerprint of a page */
#define ND_PAGE_ITEMS ND_LIMIT((size_t)1 << ND_ITEM_BITS, (size_t)3)
#define ND_KEPT_BYTES ND_LIMIT((size_t)64 << 20, (size_t)512)    /* values kept in memory for repeated comparisons */
#define ND_CANDIDATES_MAX ND_LIMIT((size_t)1 << 22, (size_t)5)   /* sorted and compared together */
#define ND_RESULTS_MAX ND_LIMIT((size_t)1 << 20, (size_t)24)     /* pairs of several fingerprints: a caller can ask for fewer */
#define ND_CANDIDATES_ASKED ND_LIMIT((size_t)1 << 16, (size_t)3) /* candidates between two checks for an interrupt */
#define ND_RARE_FROM ND_LIMIT(32, 0) /* failed comparisons for each set of a bucket, after which it uses rarest elements */
#define ND_RARE_PAIRS ND_LIMIT((size_t)512, (size_t)0)        /* pairs for each set of a bucket, above which it does so at once */
#define ND_RARE_BYTES ND_LIMIT((size_t)64 << 20, (size_t)400) /* for rarest elements: every part scans the members again */
#define ND_WINDOWS_MAX ND_LIMIT((size_t)1 << 21, (size_t)64)  /* windows around a selected hash that are sorted together */
#define ND_RARE_COUNTERS ND_LIMIT((size_t)1 << 20, (size_t)8) /* a power of two */
#define ND_NEAR_EACH ND_LIMIT(16, 2)        /* near codes listed to connect a code, before codes of its component are skipped */
#define ND_GROUPED_FROM ND_LIMIT(2048, 4)   /* pairs of a bucket above which it pays to split it into components */
#define ND_GROUPED_TEXTS ND_LIMIT(32, 4)    /* the same of texts, whose comparisons take long */
#define ND_HOT_FROM ND_LIMIT(8, 3)          /* kept records in one bucket, above which they are found by their rarest elements */
#define ND_RANKED_FIRST ND_LIMIT(64, 2)     /* such records before elements are first ordered by frequency */
#define ND_BITMAP_WORDS_FOR ND_LIMIT(40, 3) /* words of bitmaps compared in the time of one record found by an element */
#define ND_SCANNED_FOR ND_LIMIT(4, 1)       /* codes compared in the time of one bucket lookup */
#define ND_SCANNED_STEP ND_LIMIT(1024, 3)

#endif
