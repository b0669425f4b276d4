"""The change log: documents added, removed, moved to another cluster or given other codes since a token.

Document ids ascend and are never reused, so additions need no log; a table holds the latest other change of each document. A
row with a key means that the document was removed or, if it exists, that its codes changed; a later label change keeps the
key. The first call of `changes` creates the table (`Store.notes_changes`).

Rebuilds and repairs assign new labels, so they start a new log. A token names the log, the last change and the last document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ... import limits
from ...errors import MismatchError, ParameterError
from ...parameters import quoted
from ...values import Changes, Key
from ..database.errors import damaged
from ..layout import schema
from ..query.documents import Documents

ALL = 2**63 - 1  # above every document id


class Token(NamedTuple):
    log: int
    number: int
    document_id: int

    def __str__(self) -> str:
        return f"{self.log:016x}-{self.number}-{self.document_id}"

    @classmethod
    def parse(cls, text: object) -> Token:
        parsed = re.fullmatch(r"([0-9a-f]{16})-([0-9]{1,18})-([0-9]{1,19})", text) if isinstance(text, str) else None
        if parsed is None:
            raise ParameterError(f"since={quoted(text)}: give the token of an earlier call of changes(), or leave since= out")
        return cls(int(parsed[1], 16), int(parsed[2]), int(parsed[3]))


class ChangeLog:
    def __init__(self, documents: Documents) -> None:
        self.store, self.documents = documents.store, documents

    def note_keys(self, documents: Iterable[tuple[int, Key]]) -> None:
        """Note documents that were removed, or whose codes changed."""
        self.store.execute_many("INSERT OR REPLACE INTO {index}_change (document_id, key) VALUES (?, ?)", list(documents))
        self._trim()

    def note_moved(self, document_ids: Iterable[int]) -> None:
        sql = """INSERT OR REPLACE INTO {index}_change (document_id, key)
                 VALUES (?1, (SELECT key FROM {index}_change WHERE document_id = ?1))"""
        self.store.execute_many(sql, [(document_id,) for document_id in document_ids])
        self._trim()

    def _trim(self) -> None:
        oldest = self.documents.last_change() - limits.CHANGES_KEPT
        if oldest <= 0:
            return
        self.store.execute("DELETE FROM {index}_change WHERE number <= ?", (oldest,))
        if self.store.db.connection.changes():
            self.store.set(changes_trimmed=oldest)

    def begin(self) -> None:
        self.store.set(change_log=schema.random_number(), changes_trimmed=0)
        self.store.add_table("change")

    def restart(self) -> None:
        """Start a new log, which invalidates earlier tokens."""
        if self.store.notes_changes:
            self.store.execute("DELETE FROM {index}_change")
            self.store.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (f"{self.store.name}_change",))
            self.store.set(change_log=schema.random_number(), changes_trimmed=0)

    def stop(self) -> bool:
        """Returns False if nothing was recording."""
        if not self.store.notes_changes:
            return False
        self.store.execute("DROP TABLE {index}_change")
        self.store.new_generation()
        return True

    def page(self, since: Token | None, limit: int) -> Changes:
        """Up to `limit` changes after a token, or all changes for None, of one state."""
        log = self._setting("change_log", 1) if self.store.notes_changes else -1
        token = Token(log, self.documents.last_change(), 0) if since is None else since
        self._require_known(token, log)
        sql = """SELECT c.number, c.document_id, c.key, d.key, d.cluster_id, d.id FROM {index}_change AS c
                 LEFT JOIN {index}_document AS d ON d.id = c.document_id WHERE c.number > ? ORDER BY c.number LIMIT ?"""
        rows = self.store.rows(sql, (token.number, limit + 1))
        more = len(rows) > limit
        rows = rows[:limit]
        existing_changes = [row for row in rows if row[1] <= token.document_id]  # documents added later are in `added`
        removed = [row[2] for row in existing_changes if row[2] is not None and row[5] is None]
        clusters = [(row[3], row[4]) for row in existing_changes if row[5] is not None]
        number, document_id = rows[-1][0] if rows else token.number, token.document_id
        added: list[tuple[int, Key, int | None]] = []
        if not more:
            sql = "SELECT id, key, cluster_id FROM {index}_document WHERE id > ? ORDER BY id LIMIT ?"
            added = self.store.rows(sql, (document_id, limit - len(rows) + 1))
            more = len(added) > limit - len(rows)
            added = added[: limit - len(rows)]
            clusters += [(key, label) for _, key, label in added if label is not None]
            document_id = added[-1][0] if added else document_id
        return Changes(
            token=str(Token(log, number, document_id)),
            removed=tuple(removed),
            added=tuple(key for _, key, _ in added),
            clusters=tuple(clusters),
            more=more,
            codes=tuple(row[3] for row in existing_changes if row[2] is not None and row[5] is not None),
        )

    def _setting(self, name: str, minimum: int) -> int:
        number = self.store.setting(name)
        if type(number) is not int or number < minimum:
            raise damaged(f"the setting {name}", self.store.name, f"it is {number!r}")
        return number

    def _require_known(self, token: Token, log: int) -> None:
        if token.log != log:
            reason = "the index was rebuilt or repaired since, which gives clusters other numbers, or its changes were forgotten"
        elif token.number < self._setting("changes_trimmed", 0):
            reason = f"only the latest {limits.CHANGES_KEPT:,} changes are kept"
        elif token.number > self.documents.last_change() or token.document_id >= self.documents.next_id():
            reason = "the token is of a later state than the file, perhaps because a backup was restored"
        else:
            return
        raise MismatchError(
            f"what changed since {str(token)!r} is not known: {reason}. "
            "Begin again: changes() without since= tells everything anew"
        )
