"""The numbers by which the Python code splits work into batches, pages, pieces, ranges and crowds.

No number here changes an answer. Tests make all of them tiny (the fixture `small_limits`), so that a few documents reach every
place where work is split. Modules read a number when they use it, as `limits.CROWD`. The numbers of the C code are in
`csrc/neardup_limits.h`.

Other numbers stand elsewhere: those of the file format (`BUCKET_BITS`, `MAX_ID`), bounds of arguments (`_K_MAX`), costs by which
a plan is chosen (`schemes/plans.py`), how much is shown (`SHOWN`, `show/`), and how often something is tried (`_LOOKS`).
"""

from __future__ import annotations

import os

# ---- adding many -----------------------------------------------------------------------------------------------------------

BATCH_RECORDS = 8192
BATCH_SIZE = 16 << 20
"""Characters of text in a batch at most. They bound the memory of a batch."""

WORTH_THREADS = 1000
WORTH_THREADS_SIZE = 1 << 20
"""A batch of at least this many records, or this many characters, is fingerprinted and written in other threads."""

WAITING_MAX = 16
WAITING_BYTES = 96 << 20
"""Pieces of work that may wait to be written, and the bytes that they may hold. Both bound their memory."""

SEEN_FROM = 50_000
"""`SeenHashes` pays once this many values were looked up in the file."""

SEEN_SLOTS = 1 << 25
"""Size of `SeenHashes` in bytes, a power of two."""

ASIDE_MAX = 10_000_000
"""A file with more fingerprints keeps its index over the hashes of values during a load. `HashedIds`, which replaces that index,
takes 16 bytes of memory a fingerprint."""

VALUE_HASHES = 10_000
"""Hashes of stored values that are read together."""

UNCONNECTED_MAX = 500_000
"""Documents that wait to be connected at most. They bound the memory of a load of equal copies, which file no rows."""

FILING_BYTES = 192 << 20
"""Memory in bytes for sorting the rows of many fingerprints. More memory means fewer walks through the table."""

LEFT_PER_ADDED = 4
"""Expired documents that an added one removes at most, in an index with a window. More than one, so that a backlog shrinks; few,
so that no add waits for it."""

EMPTY_TEXTS = 1000
"""With at least so many documents of empty texts the names of groups stay when their last document goes: to look through these
documents for another of the group would take too long."""

LIGHT_MAX = 1 << 20
"""A text of at least this length is added inside a savepoint if a transaction is open."""

VALUES_DECIDED = 1024
"""Documents whose values are read together to decide which of them stay."""

DEDUPLICATED_STEP = 256
"""Records that one call of `Deduplicator` passes to C. Python handles Ctrl-C between two calls."""

SLICE_TEXTS = 4096
SLICE_BYTES = 8 << 20
"""Texts that one call passes to C, and their bytes. Python handles Ctrl-C between two calls."""

KEPT_BYTES = 32 << 20
"""A thread frees its list of values when the list is larger than this, in bytes."""

SYNC_ROWS, SYNC_BYTES = 1 << 15, 32 << 20
"""Rows of a followed table, and bytes of their texts, that are read together. They bound memory."""

SYNC_SINGLY = 5
"""So few new documents are added one by one: a bulk load takes as long to begin."""

# ---- clusters --------------------------------------------------------------------------------------------------------------

EXTRA_EDGES = 3
"""An added document records one edge to each cluster that it touches, and at most this many more."""

CROWD = 256
"""Once an answer has this many verified fingerprints, the rows of their cluster stand apart in each bucket."""

FROM_CROWD = 16
"""Verified fingerprints that an added document looks for in each crowd. A few are enough, because all are of one cluster."""

SIZE_KNOWN = 1000
"""Members of a cluster are counted up to this number, and further only where another cluster has as many."""

CHANGES_KEPT = 1_000_000
"""Changes that are kept for those who follow an index by `changes`. A change takes about 20 bytes of the file."""

# ---- asking ----------------------------------------------------------------------------------------------------------------

LISTED_PAGE = 500
"""Documents that a lazy listing reads in one transaction."""

PAIRS_WANTED = 50_000
"""Pairs of fingerprints that a range should have. They bound the memory of a join and the time of one transaction."""

MEMBERS_MOST = 1 << 19
"""Documents that a range may have if it has more than one fingerprint."""

SET_BLOCK, SET_HASHES = 1 << 17, 1 << 24
"""Sets in a block, and hashes in these sets. A join holds two blocks. With 128 hashes a set it takes about 700 MB."""

TURNED_ROWS = 1 << 13
"""Rows that one call turns into columns: no other thread of Python runs meanwhile."""

COPIES_AT_ONCE = 1 << 13
"""Sets whose documents are looked up together."""

ASKED_BYTES = 1 << 26
"""Bytes of fingerprints (values and evidence) that are looked up in another index together."""

CODES_A_GROUP = 100
"""Looking up the buckets of one more group takes as long as comparing so many codes."""

JOINED_FROM = 24
"""From this many questions on, one join with the candidate table is quicker than one statement a question."""

ASKED_MOST, ASKED_PART = 1 << 17, 1024
"""Questions that are looked up together, and questions that one thread fingerprints at a time. Each lookup may read the whole
candidate table, so many questions together cost less each."""

RANGE_FIRST, RANGE_MOST = 1024, 1 << 18
"""Fingerprint ids in the first range of a join, and in a range at most."""

READERS_MAX = max(4, os.cpu_count() or 1)
"""Readers of one index at most. More readers than processors answer no sooner."""

SETTLED_EVERY = 64
"""Transactions between two looks at which fingerprints are committed."""

# ---- asyncio ---------------------------------------------------------------------------------------------------------------

TASK_RECORDS = 512
"""Records of an asynchronous iterable, or results of a listing, that pass between the loop and a thread together. One such step
takes some 0.1 ms of the loop's time."""

# ---- fingerprints as Parquet -------------------------------------------------------------------------------------------------

EXPORTED_BYTES, EXPORTED_ROWS = 64 << 20, 1 << 16
"""Of fingerprints in a row group that is written."""

IMPORTED_BYTES = 16 << 20
"""Of fingerprints that are read at once."""

# ---- Spark -------------------------------------------------------------------------------------------------------------------

SPARK_BATCH_ROWS, SPARK_TEXT_BYTES = 2000, 16 << 20
"""Of rows in a batch of Arrow that an executor gets, and of texts in it that are fingerprinted together."""

SPARK_GROUP = 256
"""Documents of a bucket that are connected by one call; larger buckets are cut."""

SPARK_BLOCK = 4096
"""Documents of a cut bucket in a block that meets other blocks, and of a cluster in a part that meets its representative."""

SPARK_GROUP_BYTES = 32 << 20
"""Of values in groups that one call connects."""

SPARK_EDGES = 1 << 20
"""Edges that one task of an executor connects, with some hundred bytes of memory each. More are connected by all executors, in
rounds."""

# ---- upkeep ----------------------------------------------------------------------------------------------------------------

REBUILT_PAGE = 2000
"""Documents whose texts a rebuild fingerprints together."""

CHECKED_PAGE = 20_000
"""Fingerprints whose rows `check` compares together."""

CHECKED_VALUES = 5000
"""Stored values that `check` reads together."""

CHECKED_TEXTS = 500
"""Stored texts that `check` fingerprints together."""

# ---- choosing rules ----------------------------------------------------------------------------------------------------------

TUNED_BATCH, TUNED_BYTES = 1024, 32 << 20
"""Texts that `tune` looks at together, and characters of those that it keeps."""

TUNED_WORK = 3 * 10**9
"""Texts that `tune` compares, times their characters, at most: some seconds for each rules that it tries."""

# ---- SQLite ----------------------------------------------------------------------------------------------------------------

CACHE_KIB, CACHE_KIB_MOST = 6 << 10, 16 << 10
"""Page cache of a connection of our own, in KiB: a hundredth of the file, within these bounds.

Single queries and adds touch pages all over the tables. Only the inner pages, a few in a thousand, are needed again soon. A
larger cache holds hardly more of these, and it does not fit into the caches of the CPU: a query among a million texts takes 65 us
with 16 MB and 59 us with 6 MB. In files below 1 GB, SQLite also walks through the whole cache at a commit that split a page."""

SPILL_KIB = 16 << 10
"""SQLite writes pages of an open transaction to the disk only when its pages take more than this, in KiB."""

CACHE_KIB_MANY = 32 << 10
"""Page cache in KiB while many documents are written. A large transaction touches pages all over the tables. With SQLite's 2 MB
it would write and read each page many times."""

LOG_PAGES = 8000
"""A commit that finds this many pages in the log moves them into the file. An added document changes about 20 pages, so with
SQLite's 1,000 every fiftieth add would wait for such a move."""

# ---- command line ----------------------------------------------------------------------------------------------------------

PIECE_RECORDS, PIECE_BYTES = 4096, 8 * 1024 * 1024
"""Records, and their bytes, that a command holds at a time. Sorted writes need many; the progress bar moves with each piece."""

COMMIT_BYTES = 64 * 1024 * 1024
"""Bytes of records in a transaction at most, unless the user gave the number of records."""

WATCHED_TOGETHER = 256
"""Records of a stream that `neardup watch` stores in one transaction at most, where so many have arrived."""

DEDUP_COMMIT_EVERY = 20_000
"""Records in a transaction of `neardup dedup`."""

MATCHES_TOGETHER = 100
"""Matches of each record of a piece that `neardup query --from` holds; records with more are asked for again one by one."""

LINE_BYTES = 1 << 20
"""The rest of a line that is too long is passed over in pieces of this many bytes."""

SKETCHED_RECORDS, PIECES_WAITING = 2048, 2
"""Records in a piece that `neardup dedup` passes to the thread that computes their buckets, few enough for the CPU's cache, and
pieces that may wait for that thread."""

SORTED_KEYS, SORTED_RANGES = 1 << 20, 4096
"""Bucket keys that are sorted together, with 24 bytes of memory each, and ranges of buckets, the least that is merged at once."""

NUMBERS_HELD = 1 << 17
"""Numbers of a long list that are in memory, 8 bytes each; the others are in a temporary file."""

PLACES_AT_ONCE = 1 << 16
"""Places of records that are read together."""

COPIED_BYTES = 1 << 20
"""Bytes of records that are copied together."""

GROUP_BYTES = 64 * 1024 * 1024
"""Rows of a row group of Parquet that wait to be written; a larger group is written as several."""
