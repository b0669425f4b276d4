"""Repairs an index. Each step computes what is damaged from what is sound: SQLite's indexes from the tables, fingerprints from
stored texts, candidate rows and clusters from fingerprints."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..layout import candidates, definitions, schema
from ..layout.allowed import is_comparable
from ..layout.state import Store
from ..linking.allowing import exempt_unindexed, restore
from ..linking.clusters import Clusters
from ..linking.integrity import with_examples
from ..writing.window import require_window
from .rebuild import fingerprint_of, refile

_REFERENCES: dict[str, list[tuple[str, str]]] = {
    "document": [
        *((part, "document_id") for part in ("part", "allowed_document", "dismissed", "own_end")),
        ("dismissed", "other_id"),
    ],
    "fingerprint": [("document", "fingerprint_id"), ("part", "fingerprint_id")],
    "allowed": [],
}
"""Tables whose rows have ids, with the columns that name them. Matches, and fingerprints of dismissed pairs, are written anew."""


class Repair:
    """Repairs what can be computed again. The caller holds a write transaction of the store."""

    def __init__(self, store: Store, clusters: Clusters) -> None:
        self.store = store
        self.db = store.db
        self.clusters = clusters
        self.documents = clusters.documents

    def run(self, now: int, damaged: Sequence[int]) -> tuple[list[str], list[str]]:
        """Compute again what the documents determine: fingerprints if texts are stored, candidate rows, matches and clusters.

        damaged: ids of fingerprints whose values must not be read. Returns messages of what was done, and of what is lost."""
        self.clusters.changes.restart()  # its counter too may be damaged
        if not -candidates.MAX_GIVEN_ID <= self.store.setting("next_cluster") < 0:
            self.store.set(next_cluster=-1)
        done: list[str] = []
        for table in ("document", "fingerprint", *(["allowed"] if self.store.allows else [])):
            others = self._mend_ids(table, done)
            if table == "fingerprint":
                damaged = [others.get(number, number) for number in damaged]
        if renamed := self.documents.parts.name_again():
            done.append(f"{renamed} codes whose part could not be read given another one")
        if numbered := self.documents.parts.number_again():
            done.append(f"{numbered} codes of documents with several numbered again")
        if left := require_window(self.store, self.documents):
            done.append(f"{left} documents outside of the window expire as it says")
        lost_codes = self._drop_lost_parts(set(damaged)) if self.store.has_parts else []
        mended, lost = self._repair_fingerprints(set(damaged))
        done += mended
        lost += lost_codes
        lost += self._restore_allowed()
        done.append(f"{self._drop_orphans()} fingerprints without a document removed")
        if self.store.dismisses and (dropped := self.clusters.dismissed.drop_lost()):
            done.append(f"{dropped} dismissed pairs without two documents removed")
        self.db.execute(f"DELETE FROM {self.store.table.name}")
        done.append(f"{self.store.table.name} rebuilt from the fingerprints")
        exempt_unindexed(self.store, self.documents)
        refile(self.store, self.clusters, now, lambda _: None)
        if self.store.record_matches:
            done.append("matches and clusters computed again")
        self.store.new_generation(fingerprints=True)
        return done, lost

    def indexes(self) -> list[str]:
        """Make SQLite's indexes and the views again. Every other step relies on them. Returns messages of what was done."""
        unlisted = self.store.unlisted
        if unlisted:
            self.store.set(**{f"table.{part}": 1 for part in unlisted})
            self.store.new_generation()
        renewed = {f"{self.store.name}_{part}" for part in schema.RENEWABLE}
        done = [f"the setting table.{part} written again" for part in unlisted]
        done += [f"{name} made again{', empty' * (name in renewed)}" for name in self._restored()]
        if any(message != "ok" for (message,) in self.db.rows("PRAGMA integrity_check(1)")):
            for table in ("document", "fingerprint", "match", "group", *self.store.optional):
                self.db.execute(self.store.sql(f"REINDEX {{index}}_{table}"))
            done.append("indexes of all tables built again")
        return done

    def _restored(self) -> list[str]:
        return definitions.restore(self.db, self.store.name, self.store.scheme.table, self.store.optional)

    def _mend_ids(self, table: str, done: list[str]) -> dict[int, int]:
        """Give rows with an id that no table gives the next ones, and set the counter of ids, so that none is given again. Adds
        messages of what was done; returns the other ids."""
        name, most = f"{self.store.name}_{table}", candidates.MAX_GIVEN_ID
        rows = self.db.rows(f"SELECT id FROM {name} WHERE id NOT BETWEEN 1 AND ? ORDER BY id", (most,))
        highest = self.db.value(f"SELECT max(id) FROM {name} WHERE id BETWEEN 1 AND ?", (most,)) or 0
        counter = stored = self.db.value("SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (name,))
        if not isinstance(counter, int) or not highest <= counter <= most:
            counter = highest
        others = {number: counter + place for place, (number,) in enumerate(rows, 1)}
        if others:
            self.db.execute("PRAGMA defer_foreign_keys = ON")  # until the transaction ends
            for part, column in ((table, "id"), *_REFERENCES[table]):
                if part.removesuffix("_document") in (table, "document", *self.store.optional):
                    sql = self.store.sql(f"UPDATE {{index}}_{part} SET {column} = ? WHERE {column} = ?")
                    self.db.execute_many(sql, [(other, number) for number, other in others.items()])
            if table == "document" and self.store.dismisses:  # they are later than the other document of their pair now
                sql = """UPDATE OR REPLACE {index}_dismissed SET document_id = other_id, other_id = document_id
                         WHERE document_id < other_id AND other_id > ?"""
                self.db.execute(self.store.sql(sql), (counter,))
            done.append(f"{len(others)} rows of {name} given other ids")
        if stored != counter + len(others):
            self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            self.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, counter + len(others)))
            done.append(f"highest id of {name} set to {counter + len(others)}")
        return others

    def _repair_fingerprints(self, damaged: set[int]) -> tuple[list[str], list[str]]:
        """Give each document with a damaged or missing fingerprint, or one of another group, a sound one.

        The value comes from the document's text, else from the old fingerprint. Without either the document has no fingerprint.
        Returns messages of what was done, and of what is lost."""
        unpoint = self.store.sql("UPDATE {index}_document SET fingerprint_id = NULL WHERE fingerprint_id = ?")
        sql = self.store.sql(
            """SELECT d.id, d.key, d.group_id, d.fingerprint_id, f.value FROM {index}_document AS d
               LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id WHERE d.fingerprint_id IS NOT NULL
               AND (f.id IS NULL OR f.group_id <> d.group_id OR f.id IN (SELECT value FROM json_each(:damaged)))"""
        )
        rows = self.db.rows(sql, {"damaged": json.dumps(sorted(damaged))})
        for number in damaged:
            self.db.execute(unpoint, (number,))
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
                (fingerprint_of(self.documents, group_id, value), document_id),
            )
        self._merge_doubles()
        done = [f"{len(rows) - len(lost)} documents given a sound fingerprint"] if len(rows) > len(lost) else []
        message = f"{len(lost)} documents have lost their fingerprint and match nothing, add them again"
        return done, list(with_examples(message, map(repr, lost)))

    def _drop_lost_parts(self, damaged: set[int]) -> list[str]:
        """Forget the codes of documents that are gone, and codes that are lost. The first one left is that of the document's own
        row; where none is left, that row tells `_repair_fingerprints`. Returns a message of what is lost."""
        gone = "document_id NOT IN (SELECT id FROM {index}_document)"
        self.db.execute(self.store.sql(f"DELETE FROM {{index}}_part WHERE {gone}"))
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
        """Give documents that are set aside their fingerprints for now, and drop what is damaged: an allowed text, the value of a
        document, which then comes from its text. Returns messages of what is lost."""
        store = self.store
        if not store.allows:
            return []
        gone = "document_id NOT IN (SELECT id FROM {index}_document WHERE fingerprint_id IS NULL)"
        self.db.execute(store.sql(f"DELETE FROM {{index}}_allowed_document WHERE {gone}"))
        lost = []
        for number, text, value, value_hash in self.db.rows(
            store.sql(
                """SELECT d.id, d.text, z.value, z.value_hash FROM {index}_allowed_document AS z
                   JOIN {index}_document AS d ON d.id = z.document_id"""
            )
        ):
            if not self.documents.is_sound(value, value_hash):
                self.db.execute(store.sql("DELETE FROM {index}_allowed_document WHERE document_id = ?"), (number,))
                made = None if text is None else store.scheme.values([text], store.rules).values[0]
                if made is None:
                    lost.append(repr(self.documents.key(number)))
                else:
                    self.documents.store_exempt_values({number: made})
        restore(store, self.documents, None)
        rows = self.db.rows(store.sql("SELECT id, value FROM {index}_allowed"))
        wrong = [number for number, value in rows if not is_comparable(store.scheme, value)]
        self.db.execute_many(store.sql("DELETE FROM {index}_allowed WHERE id = ?"), [(number,) for number in wrong])
        store.new_generation()
        messages = list(
            with_examples(f"{len(lost)} documents have lost their fingerprint and match nothing, add them again", lost)
        )
        messages += with_examples(f"{len(wrong)} allowed texts are lost, allow them again", wrong)
        return messages

    def _merge_doubles(self) -> None:
        """Let documents with equal values share the fingerprint with the lowest id. The others become orphans."""
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
