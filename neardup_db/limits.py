"""Every number of the Python code that decides how work is cut: into batches, pages, pieces, ranges, crowds.

None of them changes an answer, so tests make all of them tiny (the fixture `small_limits`): few documents come to the places
where work is cut. Modules read them at run time, as `limits.CROWD`. The numbers of the C code are in `csrc/neardup_limits.h`.

Not here: what belongs to the format of the file (`BUCKET_BITS`, `MAX_ID`), bounds of arguments (`_K_MAX`), costs by which a
plan is chosen (`schemes/plans.py`), how much is shown (`SHOWN`, `show/`), and patience (`_LOOKS`).
"""

from __future__ import annotations

import os

# ---- adding many -----------------------------------------------------------------------------------------------------------

BATCH_RECORDS = 8192
BATCH_SIZE = 16 << 20
"""Characters of text in a batch: what bounds the memory that a batch needs."""

WORTH_THREADS = 1000
WORTH_THREADS_SIZE = 1 << 20
"""Records of a batch, or their characters, from which on it is fingerprinted and written in other threads."""

WAITING_MAX = 16
WAITING_BYTES = 96 << 20
"""Pieces of work that may wait to be written, and what they may hold: what bounds the memory of them."""

SEEN_FROM = 50_000
"""Values looked up in the file before `SeenHashes` pays."""

SEEN_SLOTS = 1 << 25
"""Bytes of `SeenHashes`, a power of two."""

ASIDE_MAX = 10_000_000
"""Fingerprints up to which the index over the hashes of values may be set aside: `HashedIds` takes 16 bytes of each."""

VALUE_HASHES = 10_000
"""Hashes of stored values that are read at once."""

UNCONNECTED_MAX = 500_000
"""Documents that wait to be connected: what bounds their memory where most are equal copies, which have no rows."""

FILING_BYTES = 192 << 20
"""Memory in which the rows of many fingerprints are sorted. The more at once, the less often the table is walked through."""

LIGHT_MAX = 1 << 20
"""Length of a text from which on adding it inside a transaction has a savepoint."""

SLICE_TEXTS = 4096
SLICE_BYTES = 8 << 20
"""Texts handed to C in one call, and their bytes: between two calls Ctrl-C is heard."""

KEPT_BYTES = 32 << 20
"""A thread's list of values that grew beyond this is given back."""

# ---- clusters --------------------------------------------------------------------------------------------------------------

EXTRA_EDGES = 3
"""Edges recorded for an added document beside the one to each cluster that it touches."""

CROWD = 256
"""Verified fingerprints in one answer from which on the rows of their cluster stand apart."""

FROM_CROWD = 16
"""Verified fingerprints that an added document looks for in each crowd: their cluster is one."""

SIZE_KNOWN = 1000
"""Clusters are counted up to this size."""

# ---- asking ----------------------------------------------------------------------------------------------------------------

LISTED_PAGE = 500
"""Documents that a lazy listing reads in one transaction."""

PAIRS_WANTED = 50_000
"""Pairs of fingerprints that a range should have: what bounds the memory of a join, and the time of one transaction."""

MEMBERS_MOST = 1 << 19
"""Documents that a range of more than one fingerprint may have."""

SET_BLOCK, SET_HASHES = 1 << 17, 1 << 24
"""Sets, and hashes in them, that are held at once, twice: with 128 hashes each and what joining them takes, about 700 MB."""

COPIES_AT_ONCE = 1 << 13
"""Sets whose documents are looked up together."""

ASKED_BYTES = 1 << 26
"""Of the values and the evidence of fingerprints that are asked for in another index."""

JOINED_FROM = 24
"""Questions from which on a join with the candidate table is quicker than a statement each."""

ASKED_MOST, ASKED_PART = 1 << 17, 1024
"""Questions that are looked up together, and those of them that one thread fingerprints at a time. Each piece may read the whole
candidate table, so large ones cost less for each question."""

RANGE_FIRST, RANGE_MOST = 1024, 1 << 18
"""Ids of fingerprints in the first range of a join, and in the largest one."""

READERS_MAX = max(4, os.cpu_count() or 1)
"""Readers of one index: more of them than processors answer no sooner."""

SETTLED_EVERY = 64
"""Transactions after which it is seen again which fingerprints are committed."""

# ---- upkeep ----------------------------------------------------------------------------------------------------------------

REBUILT_PAGE = 2000
"""Documents whose texts a rebuild fingerprints at once."""

CHECKED_PAGE = 20_000
"""Fingerprints whose rows `check` compares at once."""

CHECKED_VALUES = 5000
"""Stored values that `check` reads at once."""

CHECKED_TEXTS = 500
"""Stored texts that `check` fingerprints at once."""

# ---- SQLite ----------------------------------------------------------------------------------------------------------------

CACHE_KIB, CACHE_KIB_MOST = 6 << 10, 16 << 10
"""Pages that a connection of our own keeps at most: a hundredth of the file, within these bounds.

What is asked for, or added, one by one touches pages all over the tables, of which only the inner ones, a few in a thousand, are
met again soon. A larger cache holds hardly more of the others, and is itself in none of the CPU's: with 16 MB a query of a
million texts takes 65 us, with 6 MB 59. SQLite also walks through all of it at each commit in which a page was split, in files
below 1 GB."""

SPILL_KIB = 16 << 10
"""What a transaction has changed is kept, whatever the size of the cache, until all pages are this much."""

CACHE_KIB_MANY = 32 << 10
"""The same, while many documents are written: a large transaction touches pages all over the tables, and with SQLite's 2 MB each
of them is written, and read again, many times over."""

LOG_PAGES = 8000
"""Pages of the log from which on a commit moves them. An added document changes about 20, all over the tables: with SQLite's
1,000 every fiftieth one would wait for that."""

# ---- command line ----------------------------------------------------------------------------------------------------------

PIECE_RECORDS, PIECE_BYTES = 4096, 8 * 1024 * 1024
"""What is held at a time: enough for sorted writes to pay, little enough for the progress bar to move."""

COMMIT_BYTES = 64 * 1024 * 1024
"""Text in a transaction at most, unless its number of records was given."""

DEDUP_COMMIT_EVERY = 20_000
"""Records in a transaction of `neardup dedup`."""

LINE_BYTES = 1 << 20
"""Bytes of a line that are read at once."""

SKETCHED_RECORDS, PIECES_WAITING = 512, 4
"""Records that `neardup dedup` hands over to the thread that computes their buckets, as many as stay in the CPU's cache, and how
often it does so before it waits."""

SORTED_KEYS = 1 << 21
"""Bucket keys that are sorted at once, 40 bytes of memory each."""

COPIED_BYTES = 1 << 20
"""Bytes of records that are copied at once."""
