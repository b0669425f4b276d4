"""An index on a connection of Python's sqlite3 that another program opened, and only reads from.

The file is never opened a second time: what an `Index` asks of its own connection is asked of this one, with the same SQL. Where
the connection has the extension, nothing else is different. Where it cannot load one, the keys that `neardup_probe` would give
are computed by the core and bound, and candidates are verified by functions registered from Python (`scalars`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import native
from ..errors import NearDupError, ParameterError
from ..parameters import is_index_name
from ..reader import Reader
from ..store import schema
from ..store.connection import Database, load
from ..store.search import Search
from ..store.state import Common, Given, Sketch, Store
from . import scalars

_PROBE = re.compile(r"neardup_probe\([^()]*\)")
"""The call in sql/verify_*.sql that bound keys replace."""

_STEPS = 2000
"""Instructions of SQLite between two looks at the clock."""

_MANY = 1 << 40
"""Fingerprints beyond which no plan looks at all of them, unless it has no table."""


class TookTooLong(NearDupError):
    """A statement ran into the time limit."""


def prepare(connection: Any, extension: bool = True) -> None:
    """Give a connection the functions that queries need: the extension's where it can be loaded, else those of `scalars`."""
    if extension:
        try:
            load(connection)
            return
        except (ParameterError, connection.Error):  # this module, or its SQLite, cannot load it: the answers are the same
            pass
    scalars.register(connection)


class ForeignDatabase(Database):
    """A connection of Python's sqlite3, or of a module like it, behind the interface of our own. It belongs to somebody else."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, owned=False, read_only=True)
        self._overdue = False
        self._limit_s = 0.0

    def execute(self, sql: str, bindings: Any = None) -> Any:
        with self._translated():
            cursor: Any = self.connection.cursor()
            cursor.row_factory = None  # plain tuples, whatever the owner makes of its own rows
            return cursor.execute(sql, () if bindings is None else bindings)

    def rows(self, sql: str, bindings: Any = None) -> list[tuple[Any, ...]]:
        with self._translated():
            return super().rows(sql, bindings)

    def row(self, sql: str, bindings: Any = None) -> tuple[Any, ...] | None:
        with self._translated():
            return super().row(sql, bindings)

    @contextmanager
    def held(self, sql: str, bindings: Any = None) -> Iterator[tuple[Any, ...] | None]:
        with self._translated(), super().held(sql, bindings) as row:
            yield row

    @contextmanager
    def reading(self) -> Iterator[bool]:
        with self.hold(), self._translated():
            began = not self.connection.in_transaction
            try:
                if began:
                    self.execute("BEGIN")
                yield began
            finally:
                if began and self.connection.in_transaction:
                    self.execute("COMMIT")

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Statements end with TookTooLong after so many seconds, all of them together."""
        connection: Any = self.connection
        deadline = time.monotonic() + seconds
        self._overdue, self._limit_s = False, seconds

        def look() -> bool:
            self._overdue = time.monotonic() > deadline
            return self._overdue

        connection.set_progress_handler(look, _STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, _STEPS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        connection: Any = self.connection
        try:
            yield
        except connection.Error as error:
            if self._overdue:
                raise TookTooLong(
                    f"the answer took longer than the time limit of {self._limit_s:g} s: raise time_limit_s in the plugin's "
                    "settings"
                ) from error
            raise NearDupError(f"SQLite: {error}") from error

    def has_extension(self) -> bool:
        """Whether our table-valued functions are there."""
        return bool(self.value("SELECT 1 FROM pragma_module_list WHERE name = 'neardup_probe'"))


class ForeignStore(Store):
    """An index inside a foreign connection."""

    def __init__(self, db: ForeignDatabase, name: str) -> None:
        super().__init__(db, name, Common((Given(),)))
        self.bound = not db.has_extension()
        """Whether keys are bound, since `neardup_probe` is not there."""

    def at_once(self, ask: Any) -> Any:
        with self.reading():
            return ask()

    def query_sql(self, frame: str, verify: str, crowd: str = "") -> str:
        text = super().query_sql(frame, verify, crowd)
        if not self.bound:
            return text
        return _PROBE.sub(f"({schema.sql_text('probe_bound')})", text)


class BoundSearch(Search):
    """Queries whose keys are computed here and bound."""

    def _verify(self, measure: str | None = None) -> str:
        """Never a look at all codes where there is a table: a call into Python for each costs more than any number of probes."""
        if measure is None:
            return self.store.scheme.query_name(_MANY)
        return super()._verify(measure)

    def parameters(
        self,
        sketch: Sketch,
        group_id: int,
        now: int,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: str | None = None,
    ) -> dict[str, Any]:
        found = super().parameters(sketch, group_id, now, threshold, max_distance, measure)
        if sketch.value is not None and not self._verify(measure).startswith("scan"):
            share = None if measure is None else found["threshold"]
            keys = native.keys(self.store.scheme.native, sketch.value, group_id, probe=True, containment=share)
            found["keys"] = json.dumps(keys)
        return found


class ForeignReader(Reader):
    """What can be asked of an index on a foreign connection: `query`, `query_code`, `get` and what else needs no function of ours
    beside those of a query."""

    def __init__(self, store: ForeignStore) -> None:
        super().__init__(store)
        if store.bound:
            self._views.own.search = BoundSearch(store, self._views.own.documents)
            self._register_text_functions(store)

    def similarities(self, document_id: int, other_ids: list[int]) -> dict[int, tuple[float | None, int | None]]:
        """(similarity, distance) of each of the others to a document, as the index measures it; None for an empty text.
        Inside `reading`."""
        head = self._stored(document_id)
        measured: dict[int, tuple[float | None, int | None]] = {}
        for number in other_ids:
            other = self._stored(number)
            measured[number] = (None, None)
            if head is not None and head.value is not None and other is not None and other.value is not None:
                measured[number] = self.scheme.compare(head.value, other.value, head.evidence, other.evidence)
        return measured

    def _stored(self, document_id: int) -> Sketch | None:
        sql = self._store.sql("SELECT fingerprint_id FROM {index}_document WHERE id = ?")
        fingerprint_id = self._store.db.value(sql, (document_id,))
        return None if fingerprint_id is None else self._views.own.search.stored_sketch(document_id, fingerprint_id)

    def _register_text_functions(self, store: ForeignStore) -> None:
        """The two functions that hash stored texts again, which they do by the rules of this index."""

        def hashes(text: str | bytes | None) -> bytes:
            proofs = None if text is None else store.scheme.evidence([text], store.rules)
            return (proofs and proofs[0]) or b""

        def jaccard(_index: str, text: str | bytes | None, evidence: bytes, threshold: float) -> float | None:
            return scalars.jaccard(hashes(text), evidence, threshold)

        def containment(_index: str, text: str | bytes | None, evidence: bytes) -> float | None:
            return scalars.containment(evidence, hashes(text))

        connection: Any = store.db.connection
        connection.create_function("neardup_text_jaccard", 4, jaccard)
        connection.create_function("neardup_text_containment", 3, containment)


def index_names(db: ForeignDatabase) -> list[str]:
    """Names of the indexes in a database: only those that may stand in SQL, whatever a stranger's file has."""
    return [name for name in schema.index_names(db) if is_index_name(name)]


def open_reader(db: ForeignDatabase, name: str) -> ForeignReader:
    """The index of this name. Raises what opening it read-only raises: FormatError, MismatchError, CorruptIndexError."""
    store = ForeignStore(db, name)
    with db.reading():
        store.load()
    return ForeignReader(store)
