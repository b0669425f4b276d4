"""The methods of `Index` as coroutines. Written by docs/write_aio.py: change it, or `Index`, and run it again."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from ..arrow import ArrowArray, ArrowStream
from ..index import DEFAULT_NAME
from ..parameters import Durability, Expiry, IfExists, Measure, Moment, OnError, OnMatch, Sync, Ttl, WindowSize
from ..reader import Reader
from ..schemes.base import Scheme
from ..schemes.codes import Code
from ..store.writing.outcomes import OnOutcome
from ..text import TextRules
from ..values import (
    ANY_GROUP,
    AddReport,
    AllowedText,
    AnyGroup,
    Changes,
    CheckReport,
    Cluster,
    Count,
    Document,
    Explanation,
    Key,
    Match,
    MatchExplanation,
    Part,
    Stats,
    SyncReport,
)


class Methods:
    """What AsyncIndex has of `Index` as it stands there."""

    if TYPE_CHECKING:

        def _begin(self) -> None: ...
        async def _read(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
        async def _write(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
        async def _load(self, records: Any, **kwargs: Any) -> Any: ...

    def __init__(
        self,
        target: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        scheme: Scheme | None = None,
        *,
        text: TextRules | None = None,
        name: str = DEFAULT_NAME,
        store_text: bool | None = None,
        record_matches: bool | None = None,
        checksums: bool | None = None,
        window: WindowSize | None = None,
        durability: Durability = "full",
        read_only: bool = False,
        attach: bool = False,
        timeout: float = 30.0,
        readers: int | None = None,
        on_late_result: Callable[[Any], Any] | None = None,
    ) -> None:
        self._target = target
        self._options: dict[str, Any] = dict(
            scheme=scheme,
            text=text,
            name=name,
            store_text=store_text,
            record_matches=record_matches,
            checksums=checksums,
            window=window,
            durability=durability,
            read_only=read_only,
            attach=attach,
            timeout=timeout,
        )
        self._readers = readers
        self._on_late_result = on_late_result
        self._begin()

    async def add(
        self,
        key: Key,
        text: str | bytes,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        ttl: Ttl | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
    ) -> list[Match]:
        """Store a document; returns its matches among the earlier ones, best first, at most `limit`.

        metadata: anything JSON can hold. group: duplicates are sought within it only; keys are unique in the whole index.
        expires_at: when the document expires, an aware datetime, Unix seconds, or a timedelta from now on, between the years 2000
        and 2200. ttl: after how many seconds, or which timedelta, in place of `expires_at`. if_exists: "error", "replace" (the
        document becomes the newest) or "ignore"; a key of another group is a DuplicateKeyError in any case. With a window
        what falls out now is still compared. Without `record_matches` nothing is looked for. Raises DuplicateKeyError,
        ParameterError, BusyError, ReadOnlyError.
        """
        answer: list[Match] = await self._write(
            "add", key, text, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, if_exists=if_exists, limit=limit
        )
        return answer

    async def add_code(
        self,
        key: Key,
        code: Code,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        ttl: Ttl | None = None,
        part: Part | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
    ) -> list[Match]:
        """`add` for a code of bits that the application brings (BinaryCode and the other Hamming schemes).

        part: a name, text or an integer, of this code among several of the key (BinaryCode only): rotations of a picture, frames
        of a film. The first code of a key brings the document; a further one, with another part, is added to it. `if_exists`
        looks at key and part: "replace" replaces that code only. metadata and expiry of a further code, where given, become
        those of the document; its group has to be the same. An answer has a key once, with its best code.
        """
        answer: list[Match] = await self._write(
            "add_code",
            key,
            code,
            metadata=metadata,
            group=group,
            expires_at=expires_at,
            ttl=ttl,
            part=part,
            if_exists=if_exists,
            limit=limit,
        )
        return answer

    async def add_if_new(
        self,
        key: Key,
        text: str | bytes,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        ttl: Ttl | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
        on_match: OnMatch | None = None,
    ) -> list[Match]:
        """Store a document unless something matches it, in one transaction.

        Returns the matches, best first, at most `limit`; an empty list means that it was new and is stored. on_match="touch":
        the best match counts as seen again (last_seen, times_seen) and takes over the expiry where one is given. The other
        arguments and the errors are those of `add`. A key that exists is an error also where the text has matches.
        """
        answer: list[Match] = await self._write(
            "add_if_new",
            key,
            text,
            metadata=metadata,
            group=group,
            expires_at=expires_at,
            ttl=ttl,
            if_exists=if_exists,
            limit=limit,
            on_match=on_match,
        )
        return answer

    async def add_code_if_new(
        self,
        key: Key,
        code: Code,
        *,
        metadata: Any = None,
        group: Key | None = None,
        expires_at: Expiry | None = None,
        ttl: Ttl | None = None,
        part: Part | None = None,
        if_exists: IfExists = "error",
        limit: int = 10,
        on_match: OnMatch | None = None,
    ) -> list[Match]:
        """`add_if_new` for a code of bits; part: as of `add_code`. Codes of the same key are no match."""
        answer: list[Match] = await self._write(
            "add_code_if_new",
            key,
            code,
            metadata=metadata,
            group=group,
            expires_at=expires_at,
            ttl=ttl,
            part=part,
            if_exists=if_exists,
            limit=limit,
            on_match=on_match,
        )
        return answer

    async def add_many(
        self,
        records: Iterable[tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]]
        | AsyncIterable[tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]]
        | ArrowStream | ArrowArray,
        *,
        key: str | None = None,
        text: str | None = None,
        group: str | None = None,
        metadata: Sequence[str] | None = None,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """Store many documents: (key, text) pairs or mappings, from any iterable; or the rows of a data frame.

        The fields of a mapping have the names of `add`'s arguments; any other field makes a wrong record. Or key, text, group and
        metadata name the fields, as they name columns: then each record must have the named fields, and others are ignored.

        A data frame is whatever Arrow reads: a pyarrow Table, RecordBatch or RecordBatchReader, a DataFrame of pandas (2.2 and
        later) or polars, a DuckDB relation. key, text, group: the names of its columns. metadata: those that make up each row's
        metadata, {name: value}. Texts are read where they stand, in any layout of Arrow's strings. Keys and groups are strings,
        integers or binary. A null key or text makes a wrong record; a null group is none.

        Large batches, sorted table writes, bounded memory. commit_every: a transaction for every so many records; None = one for
        all. on_error="skip": a wrong record is counted and left out. only_new: as `add_if_new` one by one, in order.
        progress: called now and then with the number of records taken so far, in the end with that of all.

        on_outcome: called as `f(key, outcome, match)` for each record, in order, once the transaction that it belongs to is
        committed. "added", "replaced": stored, with its best match among the earlier documents, None where it has none or
        the index records no matches. "duplicate": refused by only_new, with the Match that it was refused for. "ignored":
        if_exists="ignore", and the key was there; None. "skipped": wrong, with a Skipped instead of a match; the key is None
        where there is none. In a transaction of the caller's the calls come at the end of each part, and hold if that
        transaction commits. They wait in memory for the commit, so give commit_every for millions. The function may use the
        index. What it raises ends `add_many`, and what was committed stays.

        The iterable, and `progress`, may use the index: a question sees every record yielded before, a write stands between two
        records. The report names the first records that were left out.

        Warns once (ShortTextsWarning) where most texts have fewer than 20 words and shingles have three or more.

        records may be an asynchronous iterable, too: this task reads it, and its calls of the index come between two records. Any
        other iterable, and a generator, runs in the thread that writes. If this task is cancelled, an asynchronous iterable ends,
        and what was not committed before is not stored; any other load goes on. `progress` and `on_outcome` are called on the
        loop.
        """
        answer: AddReport = await self._load(
            records,
            key=key,
            text=text,
            group=group,
            metadata=metadata,
            if_exists=if_exists,
            on_error=on_error,
            only_new=only_new,
            commit_every=commit_every,
            progress=progress,
            on_outcome=on_outcome,
        )
        return answer

    async def add_codes(
        self,
        keys: Iterable[Key],
        codes: Iterable[Code],
        *,
        metadata: Any = None,
        group: Key | Iterable[Key | None] | None = None,
        expires_at: Expiry | Iterable[Expiry | None] | None = None,
        ttl: Ttl | Iterable[Ttl | None] | None = None,
        part: Part | Iterable[Part | None] | None = None,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for codes: keys and codes (for example the rows of a `uint8[n, bits // 8]`) of the same length.

        codes: any iterable of what `add_code` takes, or an array: `uint8[n, bits // 8]`, `bool[n, bits]`, for 64 bits `uint64[n]`
        or `int64[n]`. metadata, group, expires_at, ttl, part: a list (an array, a Series) with one for each record, or one value
        for all. So metadata that is itself a list stands in a list for each record.

        part: as of `add_code`: a key comes once for each of its codes. The report counts codes then. Raises ParameterError with
        only_new, which cannot tell what becomes of a key that is new by some codes only.

        keys and codes are read in the thread that writes; `progress` and `on_outcome` are called on the loop.
        """
        answer: AddReport = await self._write(
            "add_codes",
            keys,
            codes,
            metadata=metadata,
            group=group,
            expires_at=expires_at,
            ttl=ttl,
            part=part,
            if_exists=if_exists,
            on_error=on_error,
            only_new=only_new,
            commit_every=commit_every,
            progress=progress,
            on_outcome=on_outcome,
        )
        return answer

    async def import_fingerprints(
        self,
        paths: Any,
        *,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for documents whose fingerprints were computed elsewhere: by `export_fingerprints` of another index, by
        `neardup_db.spark`, or by `neardup_db.fingerprint_files.fingerprint_table`.

        paths: a Parquet file, a folder of them, or a list of these. Files are read in the order of their names, so that the first
        rows are the earliest documents. The settings that the files were made with are compared with those of the index before
        anything is stored: other text rules, another scheme or other parameters that decide a fingerprint are a MismatchError.
        Bands and threshold are the index's own. The other arguments are those of `add_many`. Needs pyarrow (the extra "arrow").
        Raises FormatError, ParameterError for an index that stores texts.

        `progress` and `on_outcome` are called on the loop.
        """
        answer: AddReport = await self._write(
            "import_fingerprints",
            paths,
            if_exists=if_exists,
            on_error=on_error,
            commit_every=commit_every,
            progress=progress,
            on_outcome=on_outcome,
        )
        return answer

    async def merge(
        self,
        other: Methods | Reader | str | bytes | os.PathLike[str],
        *,
        if_exists: IfExists = "error",
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> AddReport:
        """`add_many` of the documents of another index, with the fingerprints, and texts where both store them, that it has.

        other: an Index, or the path of a file that holds one of the same name. It is read in one state, while others may write to
        it. Text rules, scheme and all that decides a fingerprint have to be the same, else MismatchError; bands, threshold and
        whether matches are recorded are this index's own.

        Of a document with several codes each is taken by itself, by its key and part, as `add_codes` takes it. The documents come
        after those that are there, in their own order, with their groups (by name), metadata, expiry and
        times (added_at, last_seen, times_seen). What has expired stays behind, and so does what is too old for this index's
        window. With if_exists="ignore" a document that is here already stays as it is; one of another group is a
        DuplicateKeyError in any case. Matches and clusters are those of one index to which all were added; recorded matches have
        the time of the merge. The other arguments, and the report, are those of `add_many`. Raises CorruptIndexError for a
        damaged document of the other, ParameterError for the index itself, by whatever name.

        other may be an AsyncIndex, too. `progress` is called on the loop.
        """
        answer: AddReport = await self._write("merge", other, if_exists=if_exists, commit_every=commit_every, progress=progress)
        return answer

    async def follow(
        self,
        table: str,
        key: str = "id",
        text: str = "body",
        group: str | None = None,
        where: str | None = None,
        *,
        sync: Sync | None = None,
    ) -> None:
        """Make the rows of a table of the same database the documents of this index, which has none of its own from now on.

        key, text, group: names of columns. The key is the PRIMARY KEY, or UNIQUE and NOT NULL. A NULL text is no document.
        where: SQL that a row has to meet, of its own columns and SQLite's own functions; it is part of statements as it stands,
        so it has to come from the application and not from its users. Texts are not copied, unless the index has store_text.

        Triggers on the table, plain SQL that any client fires, note the keys of rows that change; `sync` takes them over, the
        first time all rows. sync="query": every question does so first, unless the index is opened with read_only. Called again,
        it changes columns, condition or `sync`. Raises ParameterError, MismatchError where another table is followed or where the
        application has a table or trigger with a name that is needed.
        """
        await self._write("follow", table, key, text, group, where, sync=sync)

    async def unfollow(self) -> bool:
        """Follow the table no more: its triggers go, and the documents stay as they are. False where none was followed."""
        answer: bool = await self._write("unfollow")
        return answer

    async def sync(
        self,
        limit: int | None = None,
        *,
        full: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> SyncReport:
        """Take over the rows of the followed table that have changed, in a transaction of its own or in the one that is open.

        limit: look at so many keys at most; the report's `complete` says whether some are left. full=True: compare all rows with
        their documents too, in bounded memory, and mend what no trigger saw; with a limit, in as many calls as it takes.
        commit_every: a transaction for every so many keys, so that the application's writes come in between. progress: called
        now and then with the number of keys looked at so far.

        All rows are compared where the triggers are missing, which are made again, and where the number of rows says that a
        change was not noted, as after REPLACE. Raises MismatchError where the table, or one of its columns, is no longer there,
        or the application has taken a name that is needed; ParameterError where no table is followed, BusyError, ReadOnlyError.

        Warns once (ShortTextsWarning) as `add_many` does.

        `progress` is called on the loop.
        """
        answer: SyncReport = await self._write("sync", limit, full=full, commit_every=commit_every, progress=progress)
        return answer

    async def update(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP, **changes: Any) -> None:
        """Change `metadata=` or `expires_at=` of a document; None clears. `ttl=` in place of `expires_at`: seconds or a timedelta
        until it expires. The text stays: to change it, add the document again with
        if_exists="replace". group: as of `get`. Raises KeyNotFoundError, ParameterError.
        """
        await self._write("update", key, group=group, **changes)

    async def delete(self, key: Key, *, part: Part | None | EllipsisType = ..., group: Key | AnyGroup | None = ANY_GROUP) -> bool:
        """Remove a document; False if there was none. group: as of `get`.

        part: of several codes remove only the one with this part, None = the one without. The others stay, the first of them in
        its place if it was the first; with its last code the document goes. False if the key has no such code. Raises
        ParameterError for a part where the index is not one of BinaryCode.
        """
        answer: bool = await self._write("delete", key, part=part, group=group)
        return answer

    async def delete_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> int:
        """Remove documents in one transaction; returns how many there were. A key that is not there, or comes twice, is no error.
        group: as of `get`.
        """
        answer: int = await self._write("delete_many", keys, group=group)
        return answer

    async def delete_group(self, name: Key | None) -> int:
        """Remove all documents of a group in one transaction, None = those without a group; returns how many there were.

        The time is in proportion to the documents removed, and to the empty texts of all groups.
        """
        answer: int = await self._write("delete_group", name)
        return answer

    async def set_window(self, window: WindowSize | None) -> None:
        """Let documents stay for another time (a timedelta), or another number of the last ones (an int), None = all of them.

        What is outside of it is invisible at once, and removed a few at a time with the documents that are added from now on, or
        by `expire`. What has fallen out already does not come back. One transaction, which looks at every document.
        """
        await self._write("set_window", window)

    async def expire(self, now: Moment | None = None) -> int:
        """Remove every document whose time has come by `now` (aware datetime or Unix seconds; None = the clock); returns how
        many.
        """
        answer: int = await self._write("expire", now)
        return answer

    async def keep_newest(self, n: int) -> int:
        """Remove all but the newest `n` documents, those that were added last; returns how many were removed."""
        answer: int = await self._write("keep_newest", n)
        return answer

    async def dismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Declare that two documents are not duplicates; False if they were dismissed already. With one key: that the document is
        no duplicate of any stored document; returns how many pairs are dismissed now, one with each document that it matches.

        A dismissed pair is in no `matches`, `pairs()` or recorded match, and its cluster is split unless other documents connect
        the two (`explain_match` names these). A dismissal survives `rebuild` and ends with `undismiss`, or when one of the two
        documents is deleted or replaced. Two documents that do not match may be dismissed too, in case they will under other
        settings. `query` and `add` compare a text with both as before, so a later document may connect them again. Raises
        KeyNotFoundError, ParameterError for one key twice.
        """
        answer: int = await self._write("dismiss", key_a, key_b)
        return answer

    async def undismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Withdraw a `dismiss`: the two documents match again if they are alike; False if they were not dismissed. With one key:
        withdraw all dismissed pairs of the document; returns how many there were. Raises KeyNotFoundError, ParameterError for one
        key twice.
        """
        answer: int = await self._write("undismiss", key_a, key_b)
        return answer

    async def allow(self, text: str | bytes | None = None, *, key: Key | None = None, note: str | None = None) -> int:
        """Let texts like this one match nothing, in all groups: a greeting, a footer, an automatic reply. Returns how many stored
        documents match nothing from now on.

        Like means similar by the index's own rule. `query` returns nothing for such a text, `add` returns nothing and stores it,
        `add_if_new` stores it, and stored documents like it are in no `matches`, `pairs()` or cluster. The fingerprint of the
        text is kept, so the text stays allowed when its documents are deleted, until `disallow`. key: the text of a stored
        document. note: words for the list, `allowed()`.

        Every stored fingerprint is compared once, and every later text with each allowed one, of which there may be 1,000. In an
        index of codes, and for a text without shingles, ParameterError; raises KeyNotFoundError.
        """
        answer: int = await self._write("allow", text, key=key, note=note)
        return answer

    async def disallow(self, text: str | bytes | None = None, *, key: Key | None = None, id: int | None = None) -> int:
        """Withdraw each allowed text that a text is like; returns how many there were. Stored documents that are like no other
        allowed text match again.

        key: a stored document in place of a text. id: the number of one allowed text, from `allowed()`. Raises KeyNotFoundError.
        """
        answer: int = await self._write("disallow", text, key=key, id=id)
        return answer

    async def changes(self, since: str | None = None, *, limit: int = 1000) -> Changes:
        """What changed since an earlier call, whose `token` is given as `since`; at most `limit` changes, all of one state.

        Another system follows the index by asking again and again with the latest token, which it may store: tokens outlive
        processes. Without `since` everything is told from the beginning, all documents as added. The first call makes the index
        note changes from then on, in the same transactions. A document that is removed, that comes into another cluster, or that
        gets or loses one of several codes costs a row, an added one nothing. The latest million rows are kept. Where `more` is
        true, ask on.

        Documents that have expired are told as long as `expire` has not removed them. Clusters are numbered as in the view
        `neardup_clusters`: where clusters join, the number of the largest stays (sizes are compared up to 1,000); where one is
        split, its largest part keeps the number; a number that is gone does not come again.

        Raises MismatchError where the changes since the token are not known any more: after `rebuild`, `check(repair=True)` and
        `forget_changes`, and where more than a million came after it. Then begin again without `since`. Raises ParameterError for
        what is no token, ReadOnlyError for the first call with read_only=True.
        """
        answer: Changes = await self._write("changes", since, limit=limit)
        return answer

    async def forget_changes(self) -> bool:
        """Note changes no more, until `changes` is called without `since` again; earlier tokens are of no use then. False if no
        changes were noted.
        """
        answer: bool = await self._write("forget_changes")
        return answer

    async def rebuild(
        self,
        scheme: Scheme | None = None,
        text: TextRules | None = None,
        *,
        store_text: bool | None = None,
        record_matches: bool | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> None:
        """Build tables, matches and clusters anew, changing what is given; one transaction.

        scheme, text: other ones. store_text=False drops the stored texts; True is possible where no text is lacking, so in an
        empty index. record_matches: seek and record matches from now on, among the stored documents too, or drop them.
        progress: called now and then with the number of documents done. Raises ParameterError where new fingerprints are
        needed, or texts, and the texts are not stored.

        `progress` is called on the loop.
        """
        await self._write("rebuild", scheme, text, store_text=store_text, record_matches=record_matches, progress=progress)

    async def check(self, repair: bool = False) -> CheckReport:
        """Look at every invariant of the file.

        repair=True rebuilds what follows from the documents: fingerprints from stored texts, table rows, matches and clusters.
        What could not be brought back stays among the `problems` of the report. In a file with checksums all pages are looked at
        first; where one is damaged, its number is the report, and nothing is repaired.
        """
        answer: CheckReport = await self._write("check", repair)
        return answer

    async def compact(self) -> int:
        """Give unused space of the file back (VACUUM); returns the bytes by which the file shrank.

        Names of groups in which no document is left, and that are there still, go as well. So do the bytes of deleted documents,
        which unused space and the log keep until then. Raises NearDupError inside a transaction, DiskFullError.
        """
        answer: int = await self._write("compact")
        return answer

    async def backup(self, path: str | bytes | os.PathLike[str]) -> None:
        """Write a consistent copy of the whole database to a new file, which appears when it is complete. Others may write to the
        index meanwhile. Raises ParameterError if the file exists, NearDupError inside a transaction, DiskFullError.
        """
        await self._write("backup", path)

    async def query(
        self,
        text: str | bytes,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """Documents that are near-duplicates of a text, best first; ties in the order of insertion.

        threshold, max_distance: stricter than the index's own, else ParameterError. limit: at most so many (None: all).
        any=True with a limit: any `limit` matches, best first, without looking at the rest. group: the one that is asked;
        ANY_GROUP: all groups, and documents of none.

        measure="containment": documents that contain the text, however long they are. Similarity is then the share of the text's
        shingles that are in the document, and threshold the least share, above 0 and at most 1, 0.8 unless given. An index of
        `MinHash(exact=True)` computes it for every document of the group; one of `BottomK(containment=True)` looks up and
        estimates it, see there. Others raise ParameterError.
        """
        answer: list[Match] = await self._read(
            "query", text, threshold=threshold, max_distance=max_distance, measure=measure, limit=limit, any=any, group=group
        )
        return answer

    async def query_code(
        self,
        code: Code,
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """`query` for a code of bits, in an index of BinaryCode, SimHash or BitSampling; others raise ParameterError."""
        answer: list[Match] = await self._read(
            "query_code", code, threshold=threshold, max_distance=max_distance, limit=limit, any=any, group=group
        )
        return answer

    async def query_many(
        self,
        texts: Iterable[str | bytes] | ArrowStream | ArrowArray,
        *,
        text: str | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query` for each of many texts, all in one consistent state; one list of matches each, in the order of the texts.

        From some dozens of texts on they are looked up together, several times as fast as one by one. More than
        a thousand are fingerprinted in pieces, in a second thread while the piece before is looked up.

        texts: any iterable, an array of strings that Arrow reads (of pyarrow, pandas, polars), or a data frame, and then `text`
        is the name of its column. None and null are refused. The other arguments and the errors are those of `query`.
        """
        answer: list[list[Match]] = await self._read(
            "query_many",
            texts,
            text=text,
            threshold=threshold,
            max_distance=max_distance,
            measure=measure,
            limit=limit,
            any=any,
            group=group,
        )
        return answer

    async def query_codes(
        self,
        codes: Iterable[Code],
        *,
        threshold: float | None = None,
        max_distance: int | None = None,
        limit: int | None = None,
        any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query_code` for each of many codes, all in one consistent state; one list of matches each, in the order of the codes.

        codes: as `add_codes` takes them, a list of bytes, ints or hex digits, `uint64[n]` for 64 bits, or `uint8[n, bits // 8]`.
        From some dozens of codes on they are looked up together. Raises ParameterError as `query_code`.
        """
        answer: list[list[Match]] = await self._read(
            "query_codes", codes, threshold=threshold, max_distance=max_distance, limit=limit, any=any, group=group
        )
        return answer

    async def nearest(self, wanted: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """The `n` documents most similar to a text or a code, best first, beyond the threshold or distance of the index too; ties
        in the order of insertion.

        wanted: a text, or a code in an index that takes codes; there str and bytes are a code only where the scheme has no texts
        (`BinaryCode`): else give `nearest_code` a code in hexadecimal or bytes. The answer is exact. Where `n` documents match by
        the rule of the index, codes and `BottomK` cost a query. Else all fingerprints are looked at: a million codes in tens of
        milliseconds, sets of a million texts (`MinHash(exact=True)`, `BottomK`) in seconds; sets that have nothing in common with
        the text are left out. `MinHash()` without exact=True raises ParameterError: estimates are not in the order of the texts.
        """
        answer: list[Match] = await self._read("nearest", wanted, n, group=group)
        return answer

    async def nearest_code(self, code: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """`nearest` for a code, in any index that takes codes; hexadecimal digits and bytes are a code, too."""
        answer: list[Match] = await self._read("nearest_code", code, n, group=group)
        return answer

    async def count(
        self,
        text: str | bytes,
        *,
        since: Moment | timedelta | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        measure: Measure | None = None,
        group: Key | AnyGroup | None = None,
    ) -> Count:
        """How many documents `query` would give, and since when they are there, without making a list of them.

        since: only documents that were added then or later: an aware datetime, Unix seconds, or a timedelta back from now. The
        others are as of `query`.
        """
        answer: Count = await self._read(
            "count", text, since=since, threshold=threshold, max_distance=max_distance, measure=measure, group=group
        )
        return answer

    async def count_code(
        self,
        code: Code,
        *,
        since: Moment | timedelta | None = None,
        threshold: float | None = None,
        max_distance: int | None = None,
        group: Key | AnyGroup | None = None,
    ) -> Count:
        """`count` for a code of bits."""
        answer: Count = await self._read(
            "count_code", code, since=since, threshold=threshold, max_distance=max_distance, group=group
        )
        return answer

    async def matches(
        self,
        key: Key,
        *,
        threshold: float | None = None,
        measure: Measure | None = None,
        limit: int | None = None,
        group: AnyGroup | None = None,
    ) -> list[Match]:
        """Near-duplicates of a stored document, by its stored fingerprint, without itself and without those that were dismissed
        as its duplicates (`Index.dismiss`). Raises KeyNotFoundError.

        threshold, measure: as of `query`. group: None for that of the document, or ANY_GROUP.
        """
        answer: list[Match] = await self._read("matches", key, threshold=threshold, measure=measure, limit=limit, group=group)
        return answer

    async def clusters(self, min_size: int = 2, *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Cluster]:
        """Connected components of the graph of pairs, largest first; without `record_matches` they are computed now.

        min_size: leave out those of fewer documents; with 1 documents that are alone come too. group: only clusters of this
        group; a cluster is always of one group. The representative, and first key, is the earliest document.
        """
        answer: list[Cluster] = await self._read("clusters", min_size, group=group)
        return answer

    async def allowed(self) -> list[AllowedText]:
        """The allowed texts (`Index.allow`), in the order in which they were allowed."""
        answer: list[AllowedText] = await self._read("allowed")
        return answer

    async def get(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP) -> Document:
        """A stored document. Raises KeyNotFoundError.

        group: a condition, None = no group. A document of another group counts as absent.
        """
        answer: Document = await self._read("get", key, group=group)
        return answer

    async def get_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Document | None]:
        """Stored documents in the order of the keys; None for a key that is not there. group: as of `get`."""
        answer: list[Document | None] = await self._read("get_many", keys, group=group)
        return answer

    async def export_fingerprints(self, path: str | bytes | os.PathLike[str]) -> int:
        """Write the visible documents with their fingerprints to a new Parquet file, in the order of insertion; returns how many.

        Columns: key, group (where there are groups), value, token_count, buckets, digest; docs/reference/spark.md says what they
        hold. Keys have to be of one type. Metadata, expiry and texts stay behind. `import_fingerprints` and `neardup_db.spark`
        read the file. One state of the index is written, while others may write. Needs pyarrow (the extra "arrow"). Raises
        ParameterError where the file exists.
        """
        answer: int = await self._read("export_fingerprints", path)
        return answer

    async def explain(
        self, text: str | bytes, *, threshold: float | None = None, measure: Measure | None = None, group: Key | None = None
    ) -> Explanation:
        """How a query for this text runs: plan, probes, candidates, verified, matches, and the time of each step.

        threshold, measure: as of `query`.
        """
        answer: Explanation = await self._read("explain", text, threshold=threshold, measure=measure, group=group)
        return answer

    async def explain_match(
        self, key_a: Key, key_b: Key, *, text_a: str | bytes | None = None, text_b: str | bytes | None = None
    ) -> MatchExplanation:
        """Why two stored documents match, or do not: similarity as stored and exactly, where they met, what their texts share.

        text_a, text_b: their texts, where the index does not store them; one with another fingerprint than the document's is a
        ParameterError. Raises KeyNotFoundError. The result's `html()` is a page with the texts side by side. Of a pair that was
        dismissed it says so, and which other documents still connect the two in one cluster.
        """
        answer: MatchExplanation = await self._read("explain_match", key_a, key_b, text_a=text_a, text_b=text_b)
        return answer

    async def stats(self) -> Stats:
        """Counts, sizes in bytes, settings, versions and the tier of CPU instructions in use."""
        answer: Stats = await self._read("stats")
        return answer
