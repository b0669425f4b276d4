"""All of another index into one that never had a document: its tables are copied as they stand, as SQLite copies a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import apsw

from ...errors import CorruptIndexError
from ...values import AddReport
from ..asking.documents import Documents
from ..database import checksums
from ..layout.candidates import MAX_ID
from ..layout.schema import optional_tables
from ..layout.state import Store
from ..linking.relations import Relations
from ..writing.background import Background
from ..writing.segment import Segment
from ..writing.stored import Stored

_OF_THE_FILE = {"generation", "fingerprints", "created_at", "next_cluster", "crowds"}
"""Settings that say nothing of how an index works."""

_TABLES = ("group", "fingerprint", "document", "match")
"""All that hold something but the candidate table."""

_NUMBERS = count(1)
"""For the names of attached files: one that cannot be detached keeps its name."""


class _OtherwiseError(Exception):
    """The other index has to be merged document by document."""


def copy_whole(segment: Segment, given: Store, now: int, progress: Callable[[int], Any] | None) -> AddReport | None:
    """Copy another index into that of a segment, in one transaction. None, and nothing has happened, where that cannot be: then
    its documents are to be merged one by one.

    Documents are checked as if they were merged one by one. Of what the other index knows of them (rows of the candidate table,
    recorded matches, labels) SQL tells whether it fits together; that a match is one, and a row has its key, is not computed."""
    store = segment.store
    with store.db.hold():
        if not _may_attach(store, given):
            return None
        try:
            with _writing(store, given) as schema:
                return _Copy(segment, given, schema, now).run(progress)
        except (_OtherwiseError, CorruptIndexError):  # damage is named by the other way
            return None


def _may_attach(store: Store, given: Store) -> bool:
    """Whether the other's file can be read by this connection, and its tables are as they would be here."""
    db, other = store.db, given.db
    if not (db.owned and other.owned and other.name) or db.depth or db.is_attended or db.connection.in_transaction:
        return False
    if checksums.has(db.connection) or checksums.has(other.connection):
        return False
    settings = [{name: value for name, value in one.settings.items() if name not in _OF_THE_FILE} for one in (store, given)]
    return settings[0] == settings[1] and store.following is None and not optional_tables(settings[0])


@contextmanager
def _writing(store: Store, given: Store) -> Iterator[str]:
    """A transaction, and the name under which the connection has the other's file in it. The file is attached inside, because a
    transaction that begins later would keep its writers away, and detached outside, because SQLite does it nowhere else."""
    connection, schema = store.db.connection, f"neardup_{next(_NUMBERS)}"
    try:
        with store.writing():
            try:
                connection.execute(f"ATTACH ? AS {schema}", (given.db.connection.filename,))
                connection.execute(f"SELECT 1 FROM {schema}.sqlite_schema LIMIT 1").fetchall()
            except apsw.Error as error:  # a folder that cannot be written, a file without a log that is being written, ...
                raise _OtherwiseError from error
            yield schema
    finally:
        with suppress(apsw.Error):  # while the caller reads rows of a query of its own, it stays until the connection is closed
            connection.execute(f"DETACH {schema}")


class _Copy:
    """One copy, inside a transaction."""

    def __init__(self, segment: Segment, given: Store, schema: str, now: int) -> None:
        self.segment = segment
        self.store, self.db, self.documents = segment.store, segment.db, segment.documents
        self.given = given
        self.schema = schema
        self.there = given.attached(self.db, schema)
        self.now = now
        self.count = 0

    def run(self, progress: Callable[[int], Any] | None) -> AddReport:
        self._require()
        with Background(self.db) as background:  # so that Ctrl-C is heard meanwhile
            background.start(self._check)
            background.start(self._copy)
            background.start(self._require_sound)
        self.store.new_generation(fingerprints=True)
        report = AddReport(added=self.count, matched=self._matched())
        if self.count and progress is not None:
            progress(self.count)
        return report

    def _require(self) -> None:
        """That the other is still as it was found, with counters that give no id again, that this one never had a document, and
        that all is to come along."""
        used = """SELECT 1 FROM sqlite_sequence WHERE name IN ('{index}_document', '{index}_fingerprint')
                  UNION ALL SELECT 1 FROM {index}_group"""
        expired = "SELECT 1 FROM {index}_document WHERE expires_at <= ? LIMIT 1"
        counters = f"""SELECT count(*) FROM {self.schema}.sqlite_sequence AS s JOIN (
                           SELECT '{self.store.name}_document' AS name, min(id) AS least, max(id) AS most FROM {{index}}_document
                           UNION ALL SELECT '{self.store.name}_fingerprint', min(id), max(id) FROM {{index}}_fingerprint
                       ) AS t ON t.name = s.name
                       WHERE typeof(s.seq) = 'integer' AND t.least > 0 AND s.seq >= t.most AND s.seq < ?"""
        names = self._names()
        same = f"""SELECT count(*) FROM main.sqlite_schema AS a JOIN {self.schema}.sqlite_schema AS b ON b.name = a.name
                   WHERE a.type = 'table' AND b.type = 'table' AND b.sql = a.sql AND a.name IN ({", ".join("?" * len(names))})"""
        if (
            dict(self.db.rows(self.there.sql("SELECT name, value FROM {index}_setting"))) != self.given.settings
            or self.db.value(same, names) != len(names)
            or self.db.value(self.store.sql(used)) is not None
            or self.db.value(self.there.sql(expired), (self.now,)) is not None
            or self.db.value(self.there.sql(counters), (MAX_ID,)) != 2
        ):
            raise _OtherwiseError

    def _names(self) -> list[str]:
        return [*(f"{self.store.name}_{table}" for table in _TABLES), self.store.table.name]

    def _check(self) -> None:
        self.count = Stored(Documents(self.there), self.now, with_texts=self.store.store_text).count_checked()

    def _copy(self) -> None:
        """Where a table is empty and this the whole statement, SQLite copies rows without a look into them."""
        for table in self._names():
            self.db.execute(f"INSERT INTO main.{table} SELECT * FROM {self.schema}.{table}")
        for table in ("fingerprint", "document"):  # ids above the highest that is there may have been labels
            highest = f"SELECT ifnull(max(seq), 0) FROM {self.schema}.sqlite_sequence WHERE name = :name"
            update = f"UPDATE main.sqlite_sequence SET seq = max(seq, ({highest})) WHERE name = :name"
            self.db.execute(update, {"name": f"{self.store.name}_{table}"})
        self.documents.drop_unused_groups()
        self.store.set(**{name: self.given.settings[name] for name in ("next_cluster", "crowds")})

    def _require_sound(self) -> None:
        """That only documents came which were checked, and that what came unseen fits together: the other way finds matches and
        rows of the candidate table anew."""
        came = self.db.value(self.store.sql("SELECT count(*) FROM {index}_document"))
        if came != self.count or not Relations(self.store, self.documents).is_sound():
            raise _OtherwiseError

    def _matched(self) -> int:
        """How many documents match an earlier one: those with a recorded match to one, and those of a cluster that have none but
        are not its first, where a question tells."""
        matched: int = self.db.value(self.store.sql("SELECT count(DISTINCT document_id) FROM {index}_match"))
        unsure = """WITH first(label, id) AS MATERIALIZED (
                        SELECT cluster_id, min(id) FROM {index}_document WHERE cluster_id IS NOT NULL GROUP BY cluster_id)
                    SELECT d.id FROM first AS f CROSS JOIN {index}_document AS d WHERE d.cluster_id = f.label AND d.id <> f.id
                        AND NOT EXISTS (SELECT 1 FROM {index}_match AS m WHERE m.document_id = d.id)"""
        rows = self.db.rows(self.store.sql(unsure))
        return matched + sum(self.segment.has_match(document_id, self.now) for (document_id,) in rows)
