"""Repairs an index: each step recomputes damaged data from sound data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..layout import definitions
from ..layout.allowed import is_comparable
from ..layout.candidates import MAX_GIVEN_ID
from ..layout.state import Store
from ..linking.allowing import exempt_unindexed, restore
from ..linking.clusters import Clusters
from ..linking.integrity import IntegrityChecks, with_examples
from ..writing.window import require_window
from .rebuild import reindex


class Repair:
    """The caller holds a write transaction of the store."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.clusters = clusters
        self.documents = clusters.documents

    def run(self, now: int, damaged: Sequence[int]) -> tuple[list[str], list[str]]:
        """Recompute fingerprints if texts are stored, then candidate rows, matches and clusters.

        damaged: ids of fingerprints whose values must not be read. Returns (messages about repairs, messages about losses).
        Nothing changes if a row has an id that is never assigned.
        """
        if list(IntegrityChecks(self.store).ids()):
            return [], []
        self.clusters.changes.restart()  # its counter may be damaged, too
        if not -MAX_GIVEN_ID <= self.store.setting("next_cluster") < 0:
            self.store.set(next_cluster=-1)
        messages = list(self._set_counters())
        if expired := require_window(self.store, self.documents):
            messages.append(f"{expired} documents outside of the window expire as it says")
        lost_codes = self._drop_lost_parts(set(damaged)) if self.store.has_parts else []
        repaired, lost = self._repair_fingerprints(set(damaged))
        messages += repaired
        lost += lost_codes
        lost += self._restore_allowed()
        messages.append(f"{self._drop_orphans()} fingerprints without a document removed")
        if self.store.dismisses and (dropped := self.clusters.dismissed.drop_damaged()):
            messages.append(f"{dropped} dismissed pairs without two documents removed")
        self.db.execute(f"DELETE FROM {self.store.table.name}")
        messages.append(f"{self.store.table.name} rebuilt from the fingerprints")
        exempt_unindexed(self.store, self.documents)
        reindex(self.store, self.clusters, now, lambda _: None)
        if self.store.record_matches:
            messages.append("matches and clusters computed again")
        self.store.new_generation(fingerprints=True)
        return messages, lost

    def indexes(self) -> list[str]:
        """Recreate SQLite indexes and views, which all other steps need. Returns messages about repairs."""
        store = self.store
        restored = definitions.restore(self.db, store.name, store.scheme.table, store.optional)
        messages = [f"{name} made again" for name in restored]
        if any(message != "ok" for (message,) in self.db.rows("PRAGMA integrity_check(1)")):
            for table in ("document", "fingerprint", "match", "group", *self.store.optional):
                self.db.execute(self.store.sql(f"REINDEX {{index}}_{table}"))
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

    def _repair_fingerprints(self, damaged: set[int]) -> tuple[list[str], list[str]]:
        """Give each document with a damaged or missing fingerprint, or one of another group, a sound one.

        The value comes from the document's text, else from the old fingerprint; without either the document loses its
        fingerprint. Returns (messages about repairs, messages about losses).
        """
        unset = self.store.sql("UPDATE {index}_document SET fingerprint_id = NULL WHERE fingerprint_id = ?")
        sql = self.store.sql(
            """SELECT d.id, d.key, d.group_id, d.fingerprint_id, f.value FROM {index}_document AS d
               LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id WHERE d.fingerprint_id IS NOT NULL
               AND (f.id IS NULL OR f.group_id <> d.group_id OR f.id IN (SELECT value FROM json_each(:damaged)))"""
        )
        rows = self.db.rows(sql, {"damaged": json.dumps(sorted(damaged))})
        for number in damaged:
            self.db.execute(unset, (number,))
            self.db.execute(self.store.sql("DELETE FROM {index}_fingerprint WHERE id = ?"), (number,))
        lost = []
        for document_id, key, group_id, fingerprint_id, value in rows:
            text = self.documents.text(document_id)
            if text is not None:
                value = self.store.scheme.values([text], self.store.rules).values[0]
            elif fingerprint_id in damaged or value is None:
                value = None
                lost.append(key)
            self.db.execute(
                self.store.sql("UPDATE {index}_document SET fingerprint_id = ? WHERE id = ?"),
                (self.documents.fingerprint_of(group_id, value), document_id),
            )
        self._merge_duplicates()
        messages = [f"{len(rows) - len(lost)} documents given a sound fingerprint"] if len(rows) > len(lost) else []
        message = f"{len(lost)} documents have lost their fingerprint and match nothing, add them again"
        return messages, list(with_examples(message, map(repr, lost)))

    def _drop_lost_parts(self, damaged: set[int]) -> list[str]:
        """Delete damaged codes and codes of missing documents. The first remaining code becomes that of the document row; a
        document without codes is left to `_repair_fingerprints`. Returns messages about losses."""
        orphaned = "document_id NOT IN (SELECT id FROM {index}_document)"
        self.db.execute(self.store.sql(f"DELETE FROM {{index}}_part WHERE {orphaned}"))
        sql = """DELETE FROM {index}_part WHERE id IN (
                     SELECT p.id FROM {index}_part AS p JOIN {index}_document AS d ON d.id = p.document_id
                     LEFT JOIN {index}_fingerprint AS f ON f.id = p.fingerprint_id
                     WHERE f.id IS NULL OR f.group_id <> d.group_id OR f.id IN (SELECT value FROM json_each(?))
                         OR p.id NOT IN (SELECT min(id) FROM {index}_part GROUP BY document_id, part)
                         OR typeof(p.part) NOT IN ('text', 'integer', 'null'))
                 RETURNING document_id"""
        numbers = {row[0] for row in self.db.rows(self.store.sql(sql), (json.dumps(sorted(damaged)),))}
        sql = """UPDATE {index}_document AS d SET fingerprint_id = (
                     SELECT p.fingerprint_id FROM {index}_part AS p WHERE p.document_id = d.id ORDER BY p.id LIMIT 1)
                 WHERE d.id IN (SELECT document_id FROM {index}_part)"""
        self.db.execute(self.store.sql(sql))
        keys = [self.documents.key(number) for number in sorted(numbers)]
        return list(with_examples(f"{len(keys)} documents have lost a code, add it again", map(repr, keys)))

    def _restore_allowed(self) -> list[str]:
        """Give exempt documents temporary fingerprints and delete damaged data: allowed texts, and values of exempt documents,
        which are recomputed from texts. Returns messages about losses."""
        store = self.store
        if not store.allows:
            return []
        orphaned = "document_id NOT IN (SELECT id FROM {index}_document WHERE fingerprint_id IS NULL)"
        self.db.execute(store.sql(f"DELETE FROM {{index}}_allowed_document WHERE {orphaned}"))
        lost = []
        sql = """SELECT d.id, d.text, z.value, z.value_hash FROM {index}_allowed_document AS z
                 JOIN {index}_document AS d ON d.id = z.document_id"""
        for number, text, value, value_hash in self.db.rows(store.sql(sql)):
            if not self.documents.is_sound(value, value_hash):
                self.db.execute(store.sql("DELETE FROM {index}_allowed_document WHERE document_id = ?"), (number,))
                value_from_text = None if text is None else store.scheme.values([text], store.rules).values[0]
                if value_from_text is None:
                    lost.append(repr(self.documents.key(number)))
                else:
                    self.documents.store_exempt_values({number: value_from_text})
        restore(store, self.documents, None)
        rows = self.db.rows(store.sql("SELECT id, value FROM {index}_allowed"))
        invalid = [number for number, value in rows if not is_comparable(store.scheme, value)]
        self.db.execute_many(store.sql("DELETE FROM {index}_allowed WHERE id = ?"), [(number,) for number in invalid])
        store.new_generation()
        messages = list(
            with_examples(f"{len(lost)} documents have lost their fingerprint and match nothing, add them again", lost)
        )
        messages += with_examples(f"{len(invalid)} allowed texts are lost, allow them again", invalid)
        return messages

    def _merge_duplicates(self) -> None:
        """Merge equal fingerprints into the one with the lowest id; the others become unused."""
        for table in ("document", *(["part"] if self.store.has_parts else [])):
            sql = f"""UPDATE {{index}}_{table} SET fingerprint_id = (
                          SELECT min(b.id) FROM {{index}}_fingerprint AS a JOIN {{index}}_fingerprint AS b
                          ON b.group_id = a.group_id AND b.value_hash = a.value_hash AND b.value = a.value
                          WHERE a.id = {{index}}_{table}.fingerprint_id)
                      WHERE fingerprint_id IN (
                          SELECT a.id FROM {{index}}_fingerprint AS a JOIN {{index}}_fingerprint AS b
                          ON b.group_id = a.group_id AND b.value_hash = a.value_hash AND b.value = a.value AND b.id < a.id)"""
            self.db.execute(self.store.sql(sql))

    def _drop_orphans(self) -> int:
        self.db.execute(self.store.sql(f"DELETE FROM {{index}}_fingerprint WHERE id IN ({self.store.frame('unused')})"))
        return self.db.connection.changes()
