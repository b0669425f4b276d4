"""The sizes at which the Python code splits work into batches, pages, pieces and ranges.

No limit changes a result. Tests make all of them tiny (the fixture `small_limits`), so that a few documents exercise every split.
Modules read a limit at each use, as `limits.CROWD`. The limits of the C code are in `csrc/neardup_limits.h`.
"""

from __future__ import annotations

import os

# ---- adding many -----------------------------------------------------------------------------------------------------------

BATCH_RECORDS = 8192
BATCH_SIZE = 16 << 20
"""The most characters of text in a batch, which bound its memory."""

WORTH_THREADS = 1000
WORTH_THREADS_SIZE = 1 << 20
"""Batches of at least this many records or characters are fingerprinted and written in other threads."""

WAITING_MAX = 16
WAITING_BYTES = 96 << 20
"""The most pieces of work that wait to be written, and the most bytes that they hold."""

SEEN_FROM = 50_000
"""The Bloom filter of `KnownValues` pays after this many lookups in the file."""

SEEN_SLOTS = 1 << 25
"""Its size in bytes, a power of two."""

ASIDE_MAX = 10_000_000
"""A file with more fingerprints keeps its index over value hashes during a load. `HashedIds`, which replaces that index, takes
16 bytes of memory for each fingerprint."""

VALUE_HASHES = 10_000
"""Hashes of stored values to read at a time."""

UNCONNECTED_MAX = 500_000
"""The most documents that wait to be connected. The limit bounds the memory of a load of equal copies, which add no rows."""

FILING_BYTES = 192 << 20
"""Memory in bytes for sorting candidate rows. More memory means fewer passes over the table."""

LEFT_PER_ADDED = 4
"""The most expired documents that one add removes from an index with a window: more than one, so a backlog shrinks, but few, so
no add is slow."""

EMPTY_TEXTS = 1000
"""With this many documents of empty texts, group names stay after their last document is deleted, because searching these
documents for another of the group would take too long."""

LIGHT_MAX = 1 << 20
"""Texts of at least this length are added inside a savepoint if a transaction is open."""

VALUES_DECIDED = 1024
"""Documents whose values deduplication reads at a time."""

DEDUPLICATED_STEP = 256
"""Records that one call of `Deduplicator` passes to C. Python handles Ctrl-C between calls."""

SLICE_TEXTS = 4096
SLICE_BYTES = 8 << 20
"""Texts that one call passes to C, and their bytes. Python handles Ctrl-C between calls."""

KEPT_BYTES = 32 << 20
"""A thread frees its value buffer if it is larger than this, in bytes."""

SYNC_ROWS, SYNC_BYTES = 1 << 15, 32 << 20
"""Rows of a followed table to read at a time, and bytes of their texts."""

SYNC_SINGLY = 5
"""Up to this many new documents are added one by one, because a bulk load takes as long to start."""

# ---- clusters --------------------------------------------------------------------------------------------------------------

EXTRA_EDGES = 3
"""An added document records one edge to each cluster that it matches, and at most this many more."""

CROWD = 256
"""Once a query verifies this many fingerprints, the rows of their cluster are stored apart in each bucket."""

CROWD_MOVES = 1 << 16
"""Fingerprints whose rows a load moves to large clusters at a time. A move writes pages all over the table; but until then,
later segments of the load find these rows in their buckets."""

FROM_CROWD = 16
"""Matches that an added document looks for in each large cluster. A few are enough, because all are in one cluster."""

SIZE_KNOWN = 1000
"""Cluster members are counted up to this number, and further only to compare with another cluster of this size."""

CHANGES_KEPT = 1_000_000
"""Changes that the file keeps for `changes`, about 20 bytes each."""

# ---- queries ---------------------------------------------------------------------------------------------------------------

LISTED_PAGE = 500
"""Documents that a lazy listing reads in a transaction."""

PAIRS_WANTED = 50_000
"""Fingerprint pairs that a range should have. They bound the memory of a join and the time of a transaction."""

MEMBERS_MOST = 1 << 19
"""The most documents of a range with more than one fingerprint."""

SET_BLOCK, SET_HASHES = 1 << 17, 1 << 24
"""Sets in a block, and hashes in these sets. A join holds two blocks, about 700 MB with 128 hashes a set."""

TURNED_ROWS = 1 << 13
"""Rows that one call converts to columns, while no other Python thread runs."""

COPIES_AT_ONCE = 1 << 13
"""Sets whose documents are looked up at a time."""

ASKED_BYTES = 1 << 26
"""Bytes of fingerprints that are looked up in another index at a time."""

CODES_A_GROUP = 100
"""Looking up the buckets of another group costs as much as comparing this many codes."""

JOINED_FROM = 24
"""From this many queries on, one join with the candidate table is faster than a statement for each query."""

ASKED_MOST, ASKED_PART = 1 << 17, 1024
"""Queries in one join, and queries that a thread fingerprints at a time. A join may read the whole candidate table, so larger
joins cost less for each query."""

RANGE_FIRST, RANGE_MOST = 1024, 1 << 18
"""Fingerprint ids in the first range of a join, and in the largest."""

READERS_MAX = max(4, os.cpu_count() or 1)
"""The most readers of an index. More readers than processors are no faster."""

SETTLED_EVERY = 64
"""Transactions between two checks of which fingerprints are committed."""

# ---- asyncio ---------------------------------------------------------------------------------------------------------------

TASK_RECORDS = 512
"""Records of an asynchronous iterable, or results of a listing, that pass between the event loop and a thread at a time. A step
takes about 0.1 ms of the loop's time."""

# ---- fingerprints as Parquet -------------------------------------------------------------------------------------------------

IMPORTED_BYTES = 16 << 20
"""Bytes of fingerprints to read at a time."""

# ---- Spark -------------------------------------------------------------------------------------------------------------------

SPARK_BATCH_ROWS, SPARK_TEXT_BYTES = 2000, 16 << 20
"""Rows of an Arrow batch that an executor gets, and bytes of texts that it fingerprints at a time."""

SPARK_GROUP = 256
"""The most documents of a bucket that one call connects; larger buckets are split."""

SPARK_BLOCK = 4096
"""Documents in a block of a split bucket."""

SPARK_GROUP_BYTES = 32 << 20
"""Bytes of values in groups that one call connects."""

SPARK_EDGES = 1 << 20
"""The most edges that one executor task connects, with about 100 bytes of memory each. All executors connect more edges in
rounds."""

# ---- maintenance------------------------------------------------------------------------------------------------------------

REBUILT_PAGE = 2000
"""Documents whose texts a rebuild fingerprints at a time."""

CHECKED_VALUES = 5000
"""Stored values that `check` reads at a time."""

CHECKED_TEXTS = 500
"""Stored texts that `check` fingerprints at a time."""

# ---- choosing rules ----------------------------------------------------------------------------------------------------------

TUNED_BATCH, TUNED_BYTES = 1024, 32 << 20
"""Texts that `tune` reads at a time, and characters of the texts that it keeps."""

TUNED_WORK = 3 * 10**9
"""The most texts that `tune` compares, times their characters: a few seconds for each set of rules."""

# ---- SQLite ----------------------------------------------------------------------------------------------------------------

CACHE_KIB, CACHE_KIB_MOST = 6 << 10, 16 << 10
"""Page cache of an internal connection in KiB: a hundredth of the file, within these bounds.

Single queries and adds read pages all over the tables. Only the interior pages, a few in a thousand, are needed again soon. A
larger cache holds few more of these and does not fit into the CPU caches: a query on a million texts takes 65 us with 16 MB and
59 us with 6 MB. In files below 1 GB, SQLite also scans the whole cache at a commit that splits a page."""

SPILL_KIB = 16 << 10
"""SQLite spills the pages of an open transaction to disk only above this size, in KiB."""

CACHE_KIB_MANY = 32 << 10
"""Page cache in KiB during a bulk load, which writes pages all over the tables. With SQLite's default of 2 MB it would write and
read each page many times."""

LOG_PAGES = 8000
"""Pages in the write-ahead log at which a commit runs a checkpoint. An add changes about 20 pages, so with SQLite's default of
1,000 every fiftieth add would wait for a checkpoint."""

# ---- command line ----------------------------------------------------------------------------------------------------------

PIECE_RECORDS, PIECE_BYTES = 4096, 8 * 1024 * 1024
"""Records, and their bytes, that a command holds at a time. Sorted writes need many; the progress bar moves with each."""

COMMIT_BYTES = 32 * 1024 * 1024
"""The most bytes of records in a transaction of a command."""

WATCHED_TOGETHER = 256
"""The most records that `neardup watch` stores in a transaction, if that many have arrived."""

DEDUP_COMMIT_EVERY = 20_000
"""Records in a transaction of `neardup boilerplate`."""

MATCHES_TOGETHER = 100
"""Matches of each record of a piece that `neardup query --from` holds; records with more are queried again, one by one."""

LINE_BYTES = 1 << 20
"""Bytes of an overlong line that are skipped at a time."""

SKETCHED_RECORDS, SKETCHED_BYTES, PIECES_WAITING = 2048, 1 << 19, 2
"""Records and bytes in a piece for the second thread of `neardup dedup` and `decontaminate`, few enough for the CPU cache, and
pieces that wait for this thread."""

SORTED_KEYS, SORTED_RANGES = 1 << 20, 4096
"""Bucket keys that are sorted at a time, 24 bytes of memory each, and the ranges of buckets that are merged at a time."""

PLACES_AT_ONCE = 1 << 16
"""Places of records to read at a time."""

COPIED_BYTES = 1 << 20
"""Bytes of records to copy at a time."""

GROUP_BYTES = 64 * 1024 * 1024
"""Bytes of a written Parquet row group; larger groups are split."""
