"""Repairs an index: each step recomputes damaged data from sound data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ... import limits
from ..clustering.allowing import exempt_unindexed
from ..ingest.window import require_window
from ..layout import definitions
from ..layout.candidates import MAX_GIVEN_ID
from ..layout.sketches import is_comparable
from .check import Checker, with_examples
from .rebuild import reindex


class Repair:
    """The caller holds a write transaction of the store."""

    def __init__(self, checker: Checker) -> None:
        self.store, self.db, self.documents = checker.store, checker.store.db, checker.documents
        self.checker, self.clusters = checker, checker.clusters

    def run(self, now: int) -> tuple[list[str], list[str]]:
        """Recompute fingerprints if texts are stored, then candidate rows, matches and clusters.

        Returns (messages about repairs, messages about losses). Nothing changes if a row has an id that is never assigned.
        """
        if list(self.checker.ids()):
            return [], []
        self.clusters.changes.restart()  # its counter may be damaged, too
        if not -MAX_GIVEN_ID <= self.store.setting("next_cluster") < 0:
            self.store.set(next_cluster=-1)
        messages = list(self._set_counters())
        if expired := require_window(self.documents):
            messages.append(f"{expired} documents outside of the window expire as it says")
        lost_codes = list(self._repair_parts()) if self.store.has_parts else []
        repaired, lost = self._repair_fingerprints()
        messages += repaired
        lost += lost_codes
        if self.store.allows:
            lost += self._repair_allowed()
        self.store.execute(f"DELETE FROM {{index}}_fingerprint WHERE id IN ({self.store.frame('unused')})")
        messages.append(f"{self.db.connection.changes()} fingerprints without a document removed")
        if self.store.dismisses and (dropped := self.clusters.dismissed.drop_damaged()):
            messages.append(f"{dropped} dismissed pairs without two documents removed")
        self.db.execute(f"DELETE FROM {self.store.table.name}")
        messages.append(f"{self.store.table.name} rebuilt from the fingerprints")
        exempt_unindexed(self.documents)
        reindex(self.clusters, now, lambda _: None)
        if self.store.record_matches:
            messages.append("matches and clusters computed again")
        self.store.new_generation(fingerprints=True)
        return messages, lost

    def indexes(self) -> list[str]:
        """Recreate SQLite indexes and views, which all other steps need. Returns messages about repairs."""
        messages = [f"{name} made again" for name in definitions.restore(self.db, self.store.definitions)]
        if any(message != "ok" for (message,) in self.db.rows("PRAGMA integrity_check(1)")):
            for table in ("document", "fingerprint", "match", "group", *self.store.optional):
                self.store.execute(f"REINDEX {{index}}_{table}")
            messages.append("indexes of all tables built again")
        return messages

    def _set_counters(self) -> Iterator[str]:
        """Set id counters so that no id is reused. Yields messages."""
        for table in ("document", "fingerprint", *(["allowed"] if self.store.allows else [])):
            name = f"{self.store.name}_{table}"
            highest = self.db.value(f"SELECT ifnull(max(id), 0) FROM {name}")
            counter = self.db.value("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (name,))
            if not isinstance(counter, int) or not highest <= counter <= MAX_GIVEN_ID:
                self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                self.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, highest))
                yield f"highest id of {name} set to {highest}"

    def _repair_parts(self) -> Iterator[str]:
        """Delete damaged codes and codes of missing documents. The first remaining code becomes that of the document row; a
        document without codes is left to `_repair_fingerprints`. Yields messages about losses."""
        store, parts = self.store, self.documents.parts
        store.execute("DELETE FROM {index}_part WHERE document_id NOT IN (SELECT id FROM {index}_document)")
        sql = """DELETE FROM {index}_part WHERE id NOT IN (SELECT min(id) FROM {index}_part GROUP BY document_id, part)
                     OR typeof(part) NOT IN ('text', 'integer', 'null') RETURNING document_id"""
        losers = {document_id for (document_id,) in store.rows(sql)}
        sql = """SELECT p.id, p.document_id, d.group_id, p.fingerprint_id, f.group_id, f.value, f.value_hash
                 FROM {index}_part AS p JOIN {index}_document AS d ON d.id = p.document_id
                 LEFT JOIN {index}_fingerprint AS f ON f.id = p.fingerprint_id WHERE p.id > ? ORDER BY p.id LIMIT ?"""
        for number, document_id, group_id, *stored in chain.from_iterable(store.pages(sql, limits.CHECKED_TEXTS)):
            fingerprint_id = self._fingerprint(group_id, *stored) if stored[1] == group_id else None
            if fingerprint_id is None:
                losers.add(document_id)
                parts.remove(number)
            elif fingerprint_id != stored[0]:
                parts.replace(number, fingerprint_id)
        first = "SELECT p.fingerprint_id FROM {index}_part AS p WHERE p.document_id = d.id ORDER BY p.id LIMIT 1"
        sql = "UPDATE {index}_document AS d SET fingerprint_id = ({}) WHERE d.id IN (SELECT document_id FROM {index}_part)"
        store.execute(sql.replace("{}", first))
        keys = [self.documents.key(document_id) for document_id in sorted(losers)]
        yield from with_examples(f"{len(keys)} documents have lost a code, add it again", map(repr, keys))

    def _repair_fingerprints(self) -> tuple[list[str], list[str]]:
        """Give each document its fingerprint, exempt ones too: by the stored value if that is sound, else by the text; without
        either the document loses it. Equal values become one. Returns (messages about repairs, messages about losses)."""
        store, documents = self.store, self.documents
        update = "UPDATE {index}_document SET fingerprint_id = ? WHERE id = ?"
        sql = """SELECT d.id, d.group_id, d.fingerprint_id, f.group_id, {value}, {value_hash} FROM {index}_document AS d
                 LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside}
                 WHERE d.id > ? AND (d.fingerprint_id IS NOT NULL OR {value} IS NOT NULL) ORDER BY d.id LIMIT ?"""
        changed = 0
        lost: list[str] = []
        for document_id, group_id, *stored in chain.from_iterable(store.pages(sql, limits.CHECKED_TEXTS)):
            fingerprint_id = self._fingerprint(group_id, *stored)
            if fingerprint_id is None and (text := documents.text(document_id)) is not None:
                fingerprint_id = documents.fingerprint_of(group_id, store.scheme.values([text], store.rules).split()[0])
            elif fingerprint_id is None:
                lost.append(repr(documents.key(document_id)))
            if fingerprint_id != stored[0]:
                store.execute(update, (fingerprint_id, document_id))
                changed += fingerprint_id is not None and stored[0] is not None
        messages = [f"{changed} documents given a sound fingerprint"] if changed else []
        message = f"{len(lost)} documents have lost their fingerprint and match nothing, add them again"
        return messages, list(with_examples(message, lost))

    def _fingerprint(
        self, group_id: int, fingerprint_id: int | None, own_group: int | None, value: bytes | None, value_hash: int
    ) -> int | None:
        """The fingerprint with a stored value in a group, None if the value is damaged. With dismissed pairs, a fingerprint of
        the group stays as it is: some are unshared."""
        if not self.documents.is_sound(value, value_hash):
            return None
        if self.store.dismisses and own_group == group_id:
            return fingerprint_id
        return self.documents.fingerprint_of(group_id, value)

    def _repair_allowed(self) -> Iterator[str]:
        """Delete damaged allowed texts. No document is exempt until `exempt_unindexed`. Yields messages about losses."""
        store = self.store
        store.execute("DELETE FROM {index}_allowed_document")
        rows = store.rows("SELECT id, value FROM {index}_allowed")
        invalid = [(number,) for number, value in rows if not is_comparable(store.scheme, value)]
        store.execute_many("DELETE FROM {index}_allowed WHERE id = ?", invalid)
        store.new_generation()
        yield from with_examples(f"{len(invalid)} allowed texts are lost, allow them again", (number for (number,) in invalid))
