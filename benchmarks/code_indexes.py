"""Indexes of codes of bits, each behind the same four calls: this package and its peers, one thread each.

`load` takes all codes, `prepared` turns queries into what the library wants (not measured), `ask` is what is measured, `found`
reads the numbers of the codes from its answer (not measured).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measure import folder_bytes

Codes = npt.NDArray[np.uint8]
MASK = (1 << 64) - 1


class CodeIndex:
    """`bits` a code, `radius` the largest distance, `folder` for files. `queries`: how many are worth their time."""

    queries = 2000
    most_codes: int | None = None
    """More codes than this only on demand: they take too much time or memory."""

    def __init__(self, bits: int, radius: int, folder: Path, **settings: Any) -> None:
        self.bits, self.radius, self.folder, self.settings = bits, radius, folder, settings

    def load(self, codes: Codes) -> None:
        """Add all codes; their numbers are 0, 1, ..."""
        raise NotImplementedError

    def prepared(self, queries: Codes) -> Sequence[Any]:
        """The queries as the library wants them."""
        return [code[None, :] for code in queries]

    def ask(self, query: Any) -> Any:
        """The answer to one query."""
        raise NotImplementedError

    def found(self, answer: Any) -> set[int]:
        """The numbers of the codes in an answer."""
        return set(answer)

    def ask_all(self, queries: Codes) -> bool:
        """All queries in one call; False where there is no such call."""
        return False

    def file_bytes(self) -> int | None:
        """Bytes on disk; None for an index in memory."""
        return None


class NeardupIndex(CodeIndex):
    """This package, in a file. Settings: record_matches."""

    def load(self, codes: Codes) -> None:
        from neardup_db import BinaryCode, Index

        scheme = BinaryCode(self.bits, self.radius, expected=len(codes))
        self.index = Index(self.folder / "index.db", scheme, **self.settings)
        self.index.add_codes(range(len(codes)), codes)

    def prepared(self, queries: Codes) -> Sequence[Any]:
        return [int.from_bytes(code.tobytes(), "big") for code in queries]

    def ask(self, query: Any) -> Any:
        return self.index.query_code(query)

    def found(self, answer: Any) -> set[int]:
        return {match.key for match in answer}

    def file_bytes(self) -> int:
        return folder_bytes(self.folder)


class FaissFlat(CodeIndex):
    """faiss, all codes compared."""

    queries = 300

    def make(self) -> Any:
        """An empty index."""
        import faiss

        return faiss.IndexBinaryFlat(self.bits)

    def load(self, codes: Codes) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = self.make()
        self.index.add(codes)

    def ask(self, query: Any) -> Any:
        return self.index.range_search(query, self.radius + 1)

    def found(self, answer: Any) -> set[int]:
        return set(answer[2].tolist())

    def ask_all(self, queries: Codes) -> bool:
        self.index.range_search(queries, self.radius + 1)
        return True


class FaissMultiHash(FaissFlat):
    """faiss, multi-index hashing. Settings: hashes, width (bits of each), flips (bits of each that may differ)."""

    queries = 2000

    def make(self) -> Any:
        import faiss

        index = faiss.IndexBinaryMultiHash(self.bits, self.settings["hashes"], self.settings["width"])
        index.nflip = self.settings["flips"]
        return index


class Simhash(CodeIndex):
    """1e0ng's simhash: a dictionary of sets of strings."""

    queries = 300
    most_codes = 1_000_000

    def load(self, codes: Codes) -> None:
        from simhash import Simhash, SimhashIndex

        logging.getLogger("simhash").setLevel(logging.ERROR)
        numbers = codes.view(">u8").ravel().tolist()
        self.index = SimhashIndex([(str(i), Simhash(code)) for i, code in enumerate(numbers)], k=self.radius)

    def prepared(self, queries: Codes) -> Sequence[Any]:
        from simhash import Simhash

        return [Simhash(code) for code in queries.view(">u8").ravel().tolist()]

    def ask(self, query: Any) -> Any:
        return self.index.get_near_dups(query)

    def found(self, answer: Any) -> set[int]:
        return set(map(int, answer))


class Usearch(CodeIndex):
    """usearch: a graph of neighbours, approximate; the ten nearest, of which those within the radius count.

    Settings: expansion_search.
    """

    most_codes = 1_000_000

    def load(self, codes: Codes) -> None:
        from usearch.index import Index

        self.index = Index(ndim=self.bits, metric="hamming", dtype="b1", **self.settings)
        self.index.add(np.arange(len(codes)), codes, threads=1)

    def prepared(self, queries: Codes) -> Sequence[Any]:
        return list(queries)

    def ask(self, query: Any) -> Any:
        return self.index.search(query, 10, threads=1)

    def found(self, answer: Any) -> set[int]:
        return {int(key) for key, distance in zip(answer.keys, answer.distances, strict=True) if distance <= self.radius}

    def ask_all(self, queries: Codes) -> bool:
        self.index.search(queries, 10, threads=1)
        return True


class SqliteVec(CodeIndex):
    """sqlite-vec in memory: all codes compared; the ten nearest, of which those within the radius count."""

    queries = 50

    def load(self, codes: Codes) -> None:
        import apsw
        import sqlite_vec

        self.connection = apsw.Connection(":memory:")  # the standard module often cannot load extensions
        self.connection.enable_load_extension(True)
        self.connection.load_extension(sqlite_vec.loadable_path())
        self.connection.execute(f"CREATE VIRTUAL TABLE code USING vec0(code bit[{self.bits}])")
        with self.connection:
            rows = ((i, code.tobytes()) for i, code in enumerate(codes))
            self.connection.executemany("INSERT INTO code(rowid, code) VALUES (?, vec_bit(?))", rows)

    def prepared(self, queries: Codes) -> Sequence[Any]:
        return [code.tobytes() for code in queries]

    def ask(self, query: Any) -> Any:
        sql = "SELECT rowid, distance FROM code WHERE code MATCH vec_bit(?) AND k = 10"
        return self.connection.execute(sql, (query,)).fetchall()

    def found(self, answer: Any) -> set[int]:
        return {number for number, distance in answer if distance <= self.radius}


class SqliteByHand(CodeIndex):
    """The standard sqlite3 module and four tables, one a block of 16 bits, each with the whole code, filled in order; distances
    in Python. In a file, with a cache and a map that hold all of it."""

    BLOCK = 16

    def load(self, codes: Codes) -> None:
        self.connection = sqlite3.connect(self.folder / "byhand.db", isolation_level=None)
        self.connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -262144; PRAGMA mmap_size = 8000000000"
        )
        blocks = codes.view(">u2")
        signed = codes.view(">i8").ravel()
        for table in range(self.bits // self.BLOCK):
            self.connection.execute(
                f"CREATE TABLE block{table} (block INTEGER, id INTEGER, code INTEGER, PRIMARY KEY (block, id)) WITHOUT ROWID"
            )
            order = np.argsort(blocks[:, table], kind="stable")
            rows = zip(blocks[order, table].tolist(), order.tolist(), signed[order].tolist(), strict=True)
            self.connection.execute("BEGIN")
            self.connection.executemany(f"INSERT INTO block{table} VALUES (?, ?, ?)", rows)
            self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        tables = range(self.bits // self.BLOCK)
        self.sql = " UNION ALL ".join(f"SELECT id, code FROM block{table} WHERE block = ?" for table in tables)

    def prepared(self, queries: Codes) -> Sequence[Any]:
        return list(zip(queries.view(">i8").ravel().tolist(), queries.view(">u2").tolist(), strict=True))

    def ask(self, query: Any) -> Any:
        asked, blocks = query
        rows = self.connection.execute(self.sql, blocks)
        return {number for number, code in rows if ((code ^ asked) & MASK).bit_count() <= self.radius}

    def file_bytes(self) -> int:
        return folder_bytes(self.folder)
