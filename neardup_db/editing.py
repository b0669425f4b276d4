"""The methods of `Index` that change and delete documents, follow a table and record human decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import EllipsisType
from typing import Any, get_args

from . import clock
from .adding import AddMethods
from .errors import ParameterError
from .parameters import (
    Moment,
    Sync,
    WindowSize,
    check_asked_group,
    check_callable,
    check_choice,
    check_expiry,
    check_flag,
    check_group,
    check_integer,
    check_key,
    check_kind,
    check_many,
    check_metadata,
    check_moment,
    check_name,
    check_part,
    check_text,
    quoted,
    storable,
)
from .store.clustering.allowing import allow, disallow, withdraw
from .store.clustering.changes import Token
from .store.clustering.clusters import Clusters
from .store.clustering.dismissing import dismiss, undismiss
from .store.ingest.window import change_window
from .store.layout.following import Following
from .store.layout.window import Window
from .store.query.documents import DocumentRow
from .store.readers import StoreReader
from .values import ANY_GROUP, AnyGroup, Changes, Key, Part, SyncReport


class EditMethods(AddMethods):
    # ---- following a table -----------------------------------------------------------------------------------------

    def follow(
        self,
        table: str,
        key: str = "id",
        text: str = "body",
        group: str | None = None,
        where: str | None = None,
        *,
        sync: Sync | None = None,
    ) -> None:
        """Make the rows of a table in the same database the documents of this index (see docs/reference/following.md).

        key, text, group: column names. The key is the PRIMARY KEY, or UNIQUE and NOT NULL. Rows with a NULL text are no
        documents. where: an SQL condition on the row's own columns with SQLite's own functions; never take it from users. Texts
        are not copied unless the index has store_text.

        Triggers in plain SQL note the keys of changed rows, and `sync` processes them, at first all rows. sync="query": every
        query does this first, unless the index is read_only. Another call changes columns, condition or `sync`. Raises
        ParameterError, and MismatchError if another table is followed or a needed name is taken.

        >>> import apsw
        >>> from neardup_db import Index, MinHash
        >>> application = apsw.Connection(":memory:")
        >>> _ = application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        >>> _ = application.execute("INSERT INTO articles (body) VALUES ('the quick brown fox jumps')")
        >>> index = Index(application, MinHash(threshold=0.5))
        >>> index.follow("articles")
        >>> index.sync().added
        1
        >>> index.query("The quick brown fox jumps!")
        [Match(key=1, similarity=1.0, distance=None)]
        """
        for name, value in (("table", table), ("key", key), ("text", text), ("group", group), ("where", where)):
            if value is not None or name not in ("group", "where"):
                check_name(name, value)
        check_choice("sync", sync, (None, *get_args(Sync)))
        self._store.db.require_open()
        self._follower.follow(Following(table, key, text, group, where, sync))

    def unfollow(self) -> bool:
        """Stop following the table: drop its triggers and keep the documents. False if no table was followed.

        >>> import apsw
        >>> from neardup_db import Index, MinHash
        >>> application = apsw.Connection(":memory:")
        >>> _ = application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        >>> index = Index(application, MinHash())
        >>> index.follow("articles")
        >>> index.unfollow(), index.unfollow()
        (True, False)
        """
        self._store.db.require_open()
        return self._follower.unfollow()

    def sync(
        self,
        limit: int | None = None,
        *,
        full: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> SyncReport:
        """Update the documents from changed rows of the followed table, in its own transaction or the open one.

        limit: process at most this many keys; `complete` of the report tells whether any are left. full=True: also compare all
        rows with their documents, in bounded memory (with a limit, over several calls). commit_every: commit after this many
        keys, so that other writers get their turn. progress: called at times with the number of processed keys.

        All rows are also compared if triggers are missing, which are then recreated, or if the number of rows shows an unnoted
        change, as after REPLACE. Raises MismatchError if the table or a column is gone or a needed name is taken, ParameterError
        if no table is followed, BusyError, ReadOnlyError. Warns as `add_many` does.

        >>> import apsw
        >>> from neardup_db import Index, MinHash
        >>> application = apsw.Connection(":memory:")
        >>> _ = application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
        >>> index = Index(application, MinHash())
        >>> index.follow("articles")
        >>> _ = application.execute("INSERT INTO articles (body) VALUES ('the quick brown fox jumps')")
        >>> report = index.sync()
        >>> report.added, report.complete
        (1, True)
        """
        limit = None if limit is None else check_integer("limit", limit, 1)
        commit_every = None if commit_every is None else check_integer("commit_every", commit_every, 1)
        full = check_flag("full", full)
        check_callable("progress", progress)
        self._store.db.require_open()
        with self._store.db.large_cache():
            report = self._follower.sync(limit, full, commit_every, progress)
        self._checkpoint()
        self._warn(self._follower.warning, 3)
        return report

    # ---- changing and removing --------------------------------------------------------------------------------------

    def update(self, /, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP, **changes: Any) -> None:
        """Change `metadata=` or `expires_at=` of a document; None clears the value.

        ttl: seconds or a timedelta, instead of `expires_at`. To change the text, add the document with if_exists="replace".
        group: as for `get`. Raises KeyNotFoundError, ParameterError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox", metadata={"read": False})
        ...     index.update("a1", metadata={"read": True})
        ...     index.get("a1").metadata
        {'read': True}
        """
        unknown = [name for name in changes if name not in ("metadata", "expires_at", "ttl")]
        if unknown or not changes:
            what = f"{unknown[0]!r} cannot be updated" if unknown else "nothing to update"
            remedy = "give metadata=, expires_at= or ttl=; to change a text, add it with if_exists='replace'"
            raise ParameterError(f"{what}: {remedy}")
        if "ttl" in changes and (changes["ttl"] is None or "expires_at" in changes):
            remedy = "give a time, and no expires_at=; expires_at=None clears the expiry"
            raise ParameterError(f"ttl={quoted(changes['ttl'])}: {remedy}")
        values: dict[str, Any] = {"metadata": check_metadata(changes.pop("metadata"))} if "metadata" in changes else {}
        if changes:  # an expiry
            values["expires_at"] = check_expiry(**changes)
        group = check_asked_group(group)
        with self._writing_documents() as (own, now):
            own.documents.update(own.documents.require(key, now, group).id, values)

    def delete(self, key: Key, *, part: Part | None | EllipsisType = ..., group: Key | AnyGroup | None = ANY_GROUP) -> bool:
        """Delete a document; False if there was none. group: as for `get`.

        part: delete only the code with this part (None: the unnamed code), and the document with its last code. False if there is
        no such code. Raises ParameterError for a part in an index without BinaryCode.

        >>> from neardup_db import BinaryCode, Index
        >>> with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        ...     report = index.add_codes(["cat", "cat"], [0x0F, 0xF000], part=["as it is", "turned"])
        ...     index.delete("cat", part="as it is"), index.query_code(0x0F), list(index.get("cat").codes)
        (True, [], ['turned'])
        """
        if isinstance(part, EllipsisType):
            return self.delete_many([key], group=group) == 1
        key, part, group = check_key(key), check_part(part), check_asked_group(group)
        with self._writing_documents() as (_, now):
            return self._writer.remove_part(key, part, now, group)

    def delete_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> int:
        """Delete documents in one transaction and return their number. Ignores missing and repeated keys. group: as for `get`.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     report = index.add_many((number, f"report number {number} of the day") for number in range(5))
        ...     index.delete_many([0, 1, 7]), list(index)
        (2, [2, 3, 4])
        """
        checked, group = [check_key(key) for key in check_many("keys", keys)], check_asked_group(group)
        with self._writing_documents() as (own, now):
            found = filter(None, map(own.documents.find, dict.fromkeys(checked)))
            rows = [row for row in found if own.documents.is_in_group(row, group)]
            own.clusters.remove([row.id for row in rows], now)
            return sum(row.is_visible(now) for row in rows)

    def delete_group(self, name: Key | None) -> int:
        """Delete all documents of a group (None: without a group) in one transaction and return their number.

        The time is proportional to the deleted documents and to the empty texts of all groups.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     for key, language in (("a", "de"), ("b", "de"), ("c", "fr")):
        ...         matches = index.add(key, f"text number {key} of this language", group=language)
        ...     index.delete_group("de"), index.delete_group("de"), list(index)
        (2, 0, ['c'])
        """
        name = check_group(name)
        with self._writing_documents() as (own, now):
            rows = own.documents.of_group(own.documents.group_id(name), now)
            own.clusters.remove([document_id for document_id, _ in rows], now)
            return sum(is_visible for _, is_visible in rows)

    @property
    def window(self) -> WindowSize | None:
        """How long documents stay, or how many of the latest, as the file stores it; None: all."""
        return self._current_store().window.argument

    def set_window(self, window: WindowSize | None) -> None:
        """Change the window to a time span (a timedelta), a number of the latest documents (an int), or None for all.

        Documents outside the new window are invisible at once, and removed by later adds or `expire`; a wider window does not
        bring them back. Reads every document in one transaction.

        >>> from datetime import timedelta
        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(), window=2) as index:
        ...     for key in "abc":
        ...         matches = index.add(key, f"a text of its own, and its name is {key}")
        ...     print(list(index))
        ...     index.set_window(timedelta(hours=24))
        ...     index.window
        ['b', 'c']
        datetime.timedelta(days=1)
        """
        given = Window.from_argument(window)
        with self._writing_documents() as (own, now):
            change_window(own.documents, given, now)

    def expire(self, now: Moment | None = None) -> int:
        """Delete every document expired at `now` (an aware datetime or Unix seconds; None: the clock) and return their number.

        >>> from datetime import timedelta
        >>> import time
        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     matches = index.add("a1", "the quick brown fox", expires_at=timedelta(hours=1))
        ...     index.expire(), index.expire(time.time() + 7200)
        (0, 1)
        """
        given = check_moment(now, "now")
        with self._writing_documents() as (own, at):
            sql = "SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY id"
            rows = self._store.rows(sql, (at if given is None else given,))
            return own.clusters.remove([row[0] for row in rows], at)

    def keep_newest(self, n: int) -> int:
        """Delete all but the `n` documents added last, and return the number deleted.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     report = index.add_many((number, f"report number {number} of the day") for number in range(5))
        ...     index.keep_newest(2), list(index)
        (3, [3, 4])
        """
        n = check_integer("n", n)
        with self._writing_documents() as (own, now):
            sql = "SELECT id FROM {index}_document WHERE {visible} ORDER BY id DESC LIMIT -1 OFFSET ?"
            return own.clusters.remove([row[0] for row in self._store.rows(sql, (now, n))], now)

    # ---- human review -----------------------------------------------------------------------------------------------

    def dismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Declare that two documents are no duplicates; False if they were dismissed before. With one key: dismiss the document
        with each stored document that it matches, and return the number of these pairs.

        A dismissed pair is in no `matches`, `pairs()` or recorded match, and its cluster is split unless other documents connect
        the two (`explain_match` names them). A dismissal survives `rebuild`, and ends with `undismiss` or when either document is
        deleted or replaced. Documents that do not match may be dismissed too. `query` and `add` still compare texts with both, so
        a later document may connect them again. Raises KeyNotFoundError, and ParameterError for equal keys.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     added = [index.add(key, "chapter one of the report") for key in ("a", "b", "c")]
        ...     index.dismiss("a"), index.matches("a"), index.clusters(), list(index.dismissed())
        (2, [], [Cluster(representative='b', keys=('b', 'c'))], [('a', 'b'), ('a', 'c')])
        """
        return self._decide(dismiss, key_a, key_b)

    def undismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Undo `dismiss` for two documents; False if they were not dismissed. With one key: undo all of its dismissals and return
        their number. Raises KeyNotFoundError, and ParameterError for equal keys.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     for key in ("a", "b"):
        ...         matches = index.add(key, "the weekly report of the harbour")
        ...     index.dismiss("a", "b"), len(index.clusters()), index.undismiss("a"), len(index.clusters())
        (True, 0, 1, 1)
        """
        return self._decide(undismiss, key_a, key_b)

    def allow(self, text: str | bytes | None = None, *, key: Key | None = None, note: str | None = None) -> int:
        """Exempt texts like this one, such as a footer, from matching in all groups. Returns the number of documents now exempt.

        `query` returns nothing for texts similar by the index's rule, `add` and `add_if_new` store them without matches, and
        stored ones are in no `matches`, `pairs()` or cluster. The index keeps the fingerprint until `disallow`, independent of
        documents. key: use the text of a stored document. note: a comment, shown by `allowed()`.

        Compares every stored fingerprint once, and every later text with each allowed text, at most 1,000. Raises
        KeyNotFoundError, and ParameterError in an index of codes and for a text without shingles.

        >>> from neardup_db import Index, MinHash
        >>> reply = "Thanks for your message, we will reply within 24 hours"
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     added = [index.add(number, reply) for number in range(3)]
        ...     index.allow(reply, note="automatic reply"), index.clusters(), index.add(4, reply), index.query(reply + "!")
        (3, [], [], [])
        """
        check_kind("note", note, str, "text, or leave note= out")
        note = None if note is None else storable(note)
        stored = None if text is None else storable(check_text(text))

        def work(clusters: Clusters, value: bytes | None, found: DocumentRow | None, now: int) -> int:
            kept = stored if found is None else clusters.documents.text(found.id)
            return allow(clusters, value, kept, note, now)

        return self._decide_text(work, text, key)

    def disallow(self, text: str | bytes | None = None, *, key: Key | None = None, id: int | None = None) -> int:
        """Undo `allow` for each allowed text like the given one, and return their number. Their stored documents match again.

        key: use the text of a stored document. id: the number of an allowed text, from `allowed()`. Raises KeyNotFoundError.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     added = [index.add(number, "see you later, alligator") for number in range(2)]
        ...     index.allow("see you later, alligator"), index.disallow(key=0), index.disallow(key=0), len(index.clusters())
        (2, 1, 0, 1)
        """
        if id is None:
            return self._decide_text(lambda clusters, value, _, now: disallow(clusters, value, now), text, key)
        if text is not None or key is not None:
            raise ParameterError(f"id={quoted(id)} does not go with text= or key=: give one of the three")
        number = check_integer("id", id)
        with self._deciding() as (own, now):
            return withdraw(own.clusters, [number], now)

    def _decide_text(
        self, decide: Callable[[Clusters, bytes | None, DocumentRow | None, int], int], text: str | bytes | None, key: Key | None
    ) -> int:
        """Call `decide` with the value of a text, or of the stored document of a key."""
        if (text is None) == (key is None):
            raise ParameterError("give either a text or the key= of a stored document")
        if text is not None:
            check_text(text)
        with self._deciding() as (own, now):
            if text is not None:
                return decide(own.clusters, own.store.scheme.values([text], own.store.rules).split()[0], None, now)
            found = own.documents.require(check_key(key), now)
            return decide(own.clusters, own.documents.value_of(found), found, now)

    def changes(self, since: str | None = None, *, limit: int = 1000) -> Changes:
        """Up to `limit` changes after `since`, the token of an earlier call, in one state of the index.

        To follow an index, another system calls this repeatedly with the latest token, which it may store; call again at once if
        `more` is true. Without `since` the result starts from the beginning, with all documents as added. The first call makes
        the index record changes: a row for each document removed, in another cluster or with other codes, the latest million.

        Expired documents count until `expire` removes them. Cluster numbers are those of the view `neardup_clusters`: joined
        clusters take the number of the largest (sizes are compared up to 1,000), the largest part of a split cluster keeps its
        number, and numbers are not reused.

        Raises MismatchError if the changes since the token are lost: after `rebuild`, `check(repair=True)` or `forget_changes`,
        or after more than a million changes. Then start again without `since`. Raises ParameterError for an invalid token,
        ReadOnlyError for the first call with read_only=True.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash(threshold=0.5)) as index:
        ...     begun = index.changes()
        ...     added = index.add("a", "chapter one of the report"), index.add("b", "chapter one of the report")
        ...     changes = index.changes(begun.token)
        >>> changes.added, changes.removed, changes.clusters
        (('a', 'b'), (), (('a', 2), ('b', 2)))
        """
        token = None if since is None else Token.parse(since)
        limit = min(check_integer("limit", limit, 1), 2**62)
        with self._readers.reading() as reader:
            if token is not None or reader.store.notes_changes:
                return reader.clusters.changes.page(token, limit)
        with self._store.writing():
            log = self._readers.own.clusters.changes
            if not self._store.notes_changes:
                log.begin()
            return log.page(None, limit)

    def forget_changes(self) -> bool:
        """Record no changes until `changes` is called without `since`, and invalidate all tokens. False if none were recorded.

        >>> from neardup_db import Index, MinHash
        >>> with Index(":memory:", MinHash()) as index:
        ...     token = index.changes().token
        ...     index.forget_changes(), index.forget_changes()
        (True, False)
        """
        with self._store.writing():
            return self._readers.own.clusters.changes.stop()

    def _decide(self, decide: Callable[..., int], key_a: Key, key_b: Key | None) -> int:
        first, second = check_key(key_a, "key_a"), None if key_b is None else check_key(key_b, "key_b")
        if type(first) is type(second) and first == second:
            raise ParameterError(f"key_b={quoted(key_b)} is key_a too: give the keys of two documents")
        with self._deciding() as (own, now):
            found = [None if key is None else own.documents.require(key, now) for key in (first, second)]
            return decide(own.clusters, *found, now)

    @contextmanager
    def _writing_documents(self) -> Iterator[tuple[StoreReader, int]]:
        """A write transaction for documents, with the connection's objects and the time. Refused if the index follows a table."""
        with self._store.writing():
            self._store.require_own_documents()
            yield self._readers.own, clock.now_ms()

    @contextmanager
    def _deciding(self) -> Iterator[tuple[StoreReader, int]]:
        """A write transaction for decisions about documents, after those of a followed table are up to date."""
        self._follower.catch_up(self._readers)
        with self._store.writing():
            yield self._readers.own, clock.now_ms()
