"""The sizes at which the Python code splits work into batches, pages, pieces and ranges.

No limit changes a result. Tests make all of them tiny (the fixture `small_limits`), so that a few documents exercise every split.
Modules read a limit at each use, as `limits.CROWD`. The limits of the C code are in `csrc/neardup_limits.h`.
"""

from __future__ import annotations

import os

# ---- adding many -----------------------------------------------------------------------------------------------------------

BATCH_RECORDS = 8192
BATCH_SIZE = 16 << 20  # the most characters of text in a batch, which bound its memory

# Batches of at least this many records or characters are fingerprinted and written in other threads.
WORTH_THREADS = 1000
WORTH_THREADS_SIZE = 1 << 20

WAITING_MAX = 16  # pieces of work that wait to be written
WAITING_BYTES = 96 << 20

SEEN_FROM = 50_000  # the Bloom filter of `KnownValues` pays after this many lookups in the file
SEEN_SLOTS = 1 << 25  # its size in bytes, a power of two

# A file with more fingerprints keeps its index over value hashes during a load. `HashedIds`, which replaces that index, takes 16
# bytes of memory for each fingerprint.
ASIDE_MAX = 10_000_000

VALUE_HASHES = 10_000  # hashes of stored values to read at a time
UNCONNECTED_MAX = 500_000  # documents waiting to be connected: bounds the memory of a load of equal copies, which add no rows
FILING_BYTES = 192 << 20  # memory for sorting candidate rows; more memory means fewer passes over the table

# The most expired documents that one add removes from an index with a window: more than one, so a backlog shrinks, but few, so no
# add is slow.
LEFT_PER_ADDED = 4

# With this many documents of empty texts, group names stay after their last document is deleted, because searching these
# documents for another of the group would take too long.
EMPTY_TEXTS = 1000

LIGHT_MAX = 1 << 20  # texts of at least this length are added inside a savepoint if a transaction is open
VALUES_DECIDED = 1024  # documents whose values deduplication reads at a time

# What one call passes to C: records of `Deduplicator`, and texts and their bytes. Python handles Ctrl-C between calls.
DEDUPLICATED_STEP = 256
SLICE_TEXTS = 4096
SLICE_BYTES = 8 << 20

KEPT_BYTES = 32 << 20  # a thread frees its value buffer if it is larger than this
SYNC_ROWS, SYNC_BYTES = 1 << 15, 32 << 20  # rows of a followed table to read at a time, and bytes of their texts
SYNC_SINGLY = 5  # up to this many new documents are added one by one, because a bulk load takes as long to start

# ---- clusters --------------------------------------------------------------------------------------------------------------

EXTRA_EDGES = 3  # an added document records one edge to each cluster that it matches, and at most this many more
CROWD = 256  # once a query verifies this many fingerprints, the rows of their cluster are stored apart in each bucket

# Fingerprints whose rows a load moves to large clusters at a time. A move writes pages all over the table; but until then, later
# segments of the load find these rows in their buckets.
CROWD_MOVES = 1 << 16

FROM_CROWD = 16  # matches that an added document looks for in each large cluster: a few are enough, as all are in one cluster
SIZE_KNOWN = 1000  # cluster members are counted up to this, and further only to compare with another cluster of this size
CHANGES_KEPT = 1_000_000  # changes that the file keeps for `changes`, about 20 bytes each

# ---- queries ---------------------------------------------------------------------------------------------------------------

LISTED_PAGE = 500  # documents that a lazy listing reads in a transaction
PAIRS_WANTED = 50_000  # fingerprint pairs that a range should have: bounds the memory of a join and the time of a transaction
MEMBERS_MOST = 1 << 19  # documents of a range with more than one fingerprint
SET_BLOCK, SET_HASHES = 1 << 17, 1 << 24  # sets in a block, and their hashes; a join holds two, 700 MB with 128 hashes a set
TURNED_ROWS = 1 << 13  # rows that one call converts to columns, while no other Python thread runs
COPIES_AT_ONCE = 1 << 13  # sets whose documents are looked up at a time
ASKED_BYTES = 1 << 26  # bytes of fingerprints that are looked up in another index at a time
CODES_A_GROUP = 100  # looking up the buckets of another group costs as much as comparing this many codes
JOINED_FROM = 24  # from this many queries on, one join with the candidate table is faster than a statement for each query

# Queries in one join, and queries that a thread fingerprints at a time. A join may read the whole candidate table, so larger
# joins cost less for each query.
ASKED_MOST, ASKED_PART = 1 << 17, 1024

RANGE_FIRST, RANGE_MOST = 1024, 1 << 18  # fingerprint ids in the first range of a join, and in the largest
READERS_MAX = max(4, os.cpu_count() or 1)  # readers of an index; more readers than processors are no faster
SETTLED_EVERY = 64  # transactions between two checks of which fingerprints are committed

# ---- asyncio ---------------------------------------------------------------------------------------------------------------

# Records of an asynchronous iterable, or results of a listing, that pass between the event loop and a thread at a time. A step
# takes about 0.1 ms of the loop's time.
TASK_RECORDS = 512

# ---- fingerprints as Parquet, Spark ----------------------------------------------------------------------------------------

IMPORTED_BYTES = 16 << 20  # bytes of fingerprints to read at a time

SPARK_BATCH_ROWS = 2000  # rows of an Arrow batch that an executor gets
SPARK_TEXT_BYTES = 16 << 20  # bytes of texts that it fingerprints at a time
SPARK_GROUP = 256  # documents of a bucket that one call connects; larger buckets are split
SPARK_BLOCK = 4096  # documents in a block of a split bucket
SPARK_GROUP_BYTES = 32 << 20  # bytes of values in groups that one call connects
SPARK_EDGES = 1 << 20  # edges that one executor task connects, about 100 bytes each; all executors connect more in rounds

# ---- maintenance, choosing rules -------------------------------------------------------------------------------------------

REBUILT_PAGE = 2000  # documents whose texts a rebuild fingerprints at a time
CHECKED_VALUES, CHECKED_TEXTS = 5000, 500  # stored values that `check` reads, and texts that it fingerprints, at a time

TUNED_BATCH, TUNED_BYTES = 1024, 32 << 20  # texts that `tune` reads at a time, and characters of the texts that it keeps
TUNED_WORK = 3 * 10**9  # the texts that `tune` compares, times their characters: a few seconds for each set of rules

# ---- SQLite ----------------------------------------------------------------------------------------------------------------

# Page cache of an internal connection in KiB: a hundredth of the file, within these bounds. Single queries and adds read pages
# all over the tables. Only the interior pages, a few in a thousand, are needed again soon. A larger cache holds few more of these
# and does not fit into the CPU caches: a query on a million texts takes 65 us with 16 MB and 59 us with 6 MB. In files below
# 1 GB, SQLite also scans the whole cache at a commit that splits a page.
CACHE_KIB, CACHE_KIB_MOST = 6 << 10, 16 << 10

SPILL_KIB = 16 << 10  # SQLite spills the pages of an open transaction to disk only above this size

# Page cache during a bulk load, which writes pages all over the tables. With SQLite's default of 2 MB it would write and read
# each page many times.
CACHE_KIB_MANY = 32 << 10

# Pages in the write-ahead log at which a commit runs a checkpoint. An add changes about 20 pages, so with SQLite's default of
# 1,000 every fiftieth add would wait for a checkpoint.
LOG_PAGES = 8000

# ---- command line ----------------------------------------------------------------------------------------------------------

# Records, and their bytes, that a command holds at a time. Sorted writes need many; the progress bar moves with each.
PIECE_RECORDS, PIECE_BYTES = 4096, 8 << 20

COMMIT_BYTES = 32 << 20  # the most bytes of records in a transaction of a command
WATCHED_TOGETHER = 256  # the most records that `neardup watch` stores in a transaction, if that many have arrived
DEDUP_COMMIT_EVERY = 20_000  # records in a transaction of `neardup boilerplate`
MATCHES_TOGETHER = 100  # matches of a record that `neardup query --from` holds; records with more are queried again one by one
LINE_BYTES = 1 << 20  # bytes of an overlong line that are skipped at a time

# Records and bytes in a piece for the second thread of `neardup dedup` and `decontaminate`, few enough for the CPU cache, and
# pieces that wait for this thread.
SKETCHED_RECORDS, SKETCHED_BYTES, PIECES_WAITING = 2048, 1 << 19, 2

SORTED_KEYS, SORTED_RANGES = 1 << 20, 4096  # bucket keys sorted at a time, 24 bytes each, and ranges of buckets merged at a time
PLACES_AT_ONCE = 1 << 16  # places of records to read at a time
COPIED_BYTES = 1 << 20  # bytes of records to copy at a time
GROUP_BYTES = 64 << 20  # bytes of a written Parquet row group; larger groups are split
