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
        async def _call_reader(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
        async def _write(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
        async def _load(self, records: Any, **kwargs: Any) -> Any: ...

    def __init__(
        self, target: str | bytes | os.PathLike[str] | os.PathLike[bytes], scheme: Scheme | None = None, *,
        text: TextRules | None = None, name: str = DEFAULT_NAME, store_text: bool | None = None,
        record_matches: bool | None = None, checksums: bool | None = None, window: WindowSize | None = None,
        durability: Durability = "full", read_only: bool = False, attach: bool = False, timeout: float = 30.0,
        readers: int | None = None, on_late_result: Callable[[Any], Any] | None = None,
    ) -> None:
        self._target = target
        self._options: dict[str, Any] = dict(
            scheme=scheme, text=text, name=name, store_text=store_text, record_matches=record_matches, checksums=checksums,
            window=window, durability=durability, read_only=read_only, attach=attach, timeout=timeout,
        )
        self._readers = readers
        self._on_late_result = on_late_result
        self._begin()

    async def add(
        self, key: Key, text: str | bytes, *, metadata: Any = None, group: Key | None = None, expires_at: Expiry | None = None,
        ttl: Ttl | None = None, if_exists: IfExists = "error", limit: int = 10,
    ) -> list[Match]:
        """Store a document; returns its matches among the earlier ones, best first, at most `limit`."""
        answer: list[Match] = await self._write(
            "add", key, text, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, if_exists=if_exists, limit=limit
        )
        return answer

    async def add_code(
        self, key: Key, code: Code, *, metadata: Any = None, group: Key | None = None, expires_at: Expiry | None = None,
        ttl: Ttl | None = None, part: Part | None = None, if_exists: IfExists = "error", limit: int = 10,
    ) -> list[Match]:
        """`add` for a code of bits that the application brings (BinaryCode and the other Hamming schemes)."""
        answer: list[Match] = await self._write(
            "add_code", key, code, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, part=part, if_exists=if_exists,
            limit=limit,
        )
        return answer

    async def add_if_new(
        self, key: Key, text: str | bytes, *, metadata: Any = None, group: Key | None = None, expires_at: Expiry | None = None,
        ttl: Ttl | None = None, if_exists: IfExists = "error", limit: int = 10, on_match: OnMatch | None = None,
    ) -> list[Match]:
        """Store a document unless something matches it, in one transaction."""
        answer: list[Match] = await self._write(
            "add_if_new", key, text, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, if_exists=if_exists,
            limit=limit, on_match=on_match,
        )
        return answer

    async def add_code_if_new(
        self, key: Key, code: Code, *, metadata: Any = None, group: Key | None = None, expires_at: Expiry | None = None,
        ttl: Ttl | None = None, part: Part | None = None, if_exists: IfExists = "error", limit: int = 10,
        on_match: OnMatch | None = None,
    ) -> list[Match]:
        """`add_if_new` for a code of bits; part: as of `add_code`. Codes of the same key are no match."""
        answer: list[Match] = await self._write(
            "add_code_if_new", key, code, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, part=part,
            if_exists=if_exists, limit=limit, on_match=on_match,
        )
        return answer

    async def add_many(
        self,
        records: Iterable[tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]] | AsyncIterable[tuple[Key, str | bytes]
        | list[Any] | Mapping[str, Any]] | ArrowStream | ArrowArray, *, key: str | None = None, text: str | None = None,
        group: str | None = None, metadata: Sequence[str] | None = None, if_exists: IfExists = "error",
        on_error: OnError = "raise", only_new: bool = False, commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None, on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """Store many documents: (key, text) pairs or mappings, from any iterable; or the rows of a data frame.

        records may be an asynchronous iterable, too: this task reads it, and its calls of the index come between two records;
        with `commit_every` other tasks write between two commits. Any other iterable, and a generator, runs in the thread that
        writes. If this task is cancelled, an asynchronous iterable ends, and what was not committed before is not stored; any
        other load goes on. `progress` and `on_outcome` are called on the loop, and awaited if they can be.
        """
        answer: AddReport = await self._load(
            records, key=key, text=text, group=group, metadata=metadata, if_exists=if_exists, on_error=on_error,
            only_new=only_new, commit_every=commit_every, progress=progress, on_outcome=on_outcome,
        )
        return answer

    async def add_codes(
        self, keys: Iterable[Key], codes: Iterable[Code], *, metadata: Any = None,
        group: Key | Iterable[Key | None] | None = None, expires_at: Expiry | Iterable[Expiry | None] | None = None,
        ttl: Ttl | Iterable[Ttl | None] | None = None, part: Part | Iterable[Part | None] | None = None,
        if_exists: IfExists = "error", on_error: OnError = "raise", only_new: bool = False, commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None, on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for codes: keys and codes (for example the rows of a `uint8[n, bits // 8]`) of the same length.

        keys and codes are read in the thread that writes; `progress` and `on_outcome` are called on the loop, and awaited if they
        can be.
        """
        answer: AddReport = await self._write(
            "add_codes", keys, codes, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, part=part,
            if_exists=if_exists, on_error=on_error, only_new=only_new, commit_every=commit_every, progress=progress,
            on_outcome=on_outcome,
        )
        return answer

    async def import_fingerprints(
        self, paths: Any, *, if_exists: IfExists = "error", on_error: OnError = "raise", commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None, on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`add_many` for documents whose fingerprints were computed elsewhere: by `export_fingerprints` of another index, by
        `neardup_db.spark`, or by `neardup_db.fingerprint_files.fingerprint_table`.

        `progress` and `on_outcome` are called on the loop, and awaited if they can be.
        """
        answer: AddReport = await self._write(
            "import_fingerprints", paths, if_exists=if_exists, on_error=on_error, commit_every=commit_every, progress=progress,
            on_outcome=on_outcome,
        )
        return answer

    async def merge(
        self, other: Methods | Reader | str | bytes | os.PathLike[str], *, if_exists: IfExists = "error",
        commit_every: int | None = None, progress: Callable[[int], Any] | None = None,
    ) -> AddReport:
        """`add_many` of the documents of another index, with the fingerprints, and texts where both store them, that it has.

        other may be an AsyncIndex, too. `progress` is called on the loop, and awaited if it can be.
        """
        answer: AddReport = await self._write("merge", other, if_exists=if_exists, commit_every=commit_every, progress=progress)
        return answer

    async def follow(
        self, table: str, key: str = "id", text: str = "body", group: str | None = None, where: str | None = None, *,
        sync: Sync | None = None,
    ) -> None:
        """Make the rows of a table of the same database the documents of this index, which has none of its own from now on."""
        await self._write("follow", table, key, text, group, where, sync=sync)

    async def unfollow(self) -> bool:
        """Follow the table no more: its triggers go, and the documents stay as they are. False where none was followed."""
        answer: bool = await self._write("unfollow")
        return answer

    async def sync(
        self, limit: int | None = None, *, full: bool = False, commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> SyncReport:
        """Take over the rows of the followed table that have changed, in a transaction of its own or in the one that is open.

        `progress` is called on the loop, and awaited if it can be.
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
        """Remove a document; False if there was none. group: as of `get`."""
        answer: bool = await self._write("delete", key, part=part, group=group)
        return answer

    async def delete_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> int:
        """Remove documents in one transaction; returns how many there were. A key that is not there, or comes twice, is no error.
        group: as of `get`.
        """
        answer: int = await self._write("delete_many", keys, group=group)
        return answer

    async def delete_group(self, name: Key | None) -> int:
        """Remove all documents of a group in one transaction, None = those without a group; returns how many there were."""
        answer: int = await self._write("delete_group", name)
        return answer

    async def set_window(self, window: WindowSize | None) -> None:
        """Let documents stay for another time (a timedelta), or another number of the last ones (an int), None = all of them."""
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
        """
        answer: int = await self._write("allow", text, key=key, note=note)
        return answer

    async def disallow(self, text: str | bytes | None = None, *, key: Key | None = None, id: int | None = None) -> int:
        """Withdraw each allowed text that a text is like; returns how many there were. Stored documents that are like no other
        allowed text match again.
        """
        answer: int = await self._write("disallow", text, key=key, id=id)
        return answer

    async def changes(self, since: str | None = None, *, limit: int = 1000) -> Changes:
        """What changed since an earlier call, whose `token` is given as `since`; at most `limit` changes, all of one state."""
        answer: Changes = await self._write("changes", since, limit=limit)
        return answer

    async def forget_changes(self) -> bool:
        """Note changes no more, until `changes` is called without `since` again; earlier tokens are of no use then. False if no
        changes were noted.
        """
        answer: bool = await self._write("forget_changes")
        return answer

    async def rebuild(
        self, scheme: Scheme | None = None, text: TextRules | None = None, *, store_text: bool | None = None,
        record_matches: bool | None = None, progress: Callable[[int], Any] | None = None,
    ) -> None:
        """Build tables, matches and clusters anew, changing what is given; one transaction.

        `progress` is called on the loop, and awaited if it can be.
        """
        await self._write("rebuild", scheme, text, store_text=store_text, record_matches=record_matches, progress=progress)

    async def check(self, repair: bool = False) -> CheckReport:
        """Look at every invariant of the file."""
        answer: CheckReport = await self._write("check", repair)
        return answer

    async def compact(self) -> int:
        """Give unused space of the file back (VACUUM); returns the bytes by which the file shrank."""
        answer: int = await self._write("compact")
        return answer

    async def backup(self, path: str | bytes | os.PathLike[str]) -> None:
        """Write a consistent copy of the whole database to a new file, which appears when it is complete. Others may write to the
        index meanwhile. Raises ParameterError if the file exists, NearDupError inside a transaction, DiskFullError.
        """
        await self._write("backup", path)

    async def query(
        self, text: str | bytes, *, threshold: float | None = None, max_distance: int | None = None,
        measure: Measure | None = None, limit: int | None = None, any: bool = False, group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """Documents that are near-duplicates of a text, best first; ties in the order of insertion."""
        answer: list[Match] = await self._call_reader(
            "query", text, threshold=threshold, max_distance=max_distance, measure=measure, limit=limit, any=any, group=group
        )
        return answer

    async def query_code(
        self, code: Code, *, threshold: float | None = None, max_distance: int | None = None, limit: int | None = None,
        any: bool = False, group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """`query` for a code of bits, in an index of BinaryCode, SimHash or BitSampling; others raise ParameterError."""
        answer: list[Match] = await self._call_reader(
            "query_code", code, threshold=threshold, max_distance=max_distance, limit=limit, any=any, group=group
        )
        return answer

    async def query_many(
        self, texts: Iterable[str | bytes] | ArrowStream | ArrowArray, *, text: str | None = None, threshold: float | None = None,
        max_distance: int | None = None, measure: Measure | None = None, limit: int | None = None, any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query` for each of many texts, all in one consistent state; one list of matches each, in the order of the texts."""
        answer: list[list[Match]] = await self._call_reader(
            "query_many", texts, text=text, threshold=threshold, max_distance=max_distance, measure=measure, limit=limit, any=any,
            group=group,
        )
        return answer

    async def query_codes(
        self, codes: Iterable[Code], *, threshold: float | None = None, max_distance: int | None = None, limit: int | None = None,
        any: bool = False, group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query_code` for each of many codes, all in one consistent state; one list of matches each, in the order of the codes.
        """
        answer: list[list[Match]] = await self._call_reader(
            "query_codes", codes, threshold=threshold, max_distance=max_distance, limit=limit, any=any, group=group
        )
        return answer

    async def nearest(self, wanted: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """The `n` documents most similar to a text or a code, best first, beyond the threshold or distance of the index too; ties
        in the order of insertion.
        """
        answer: list[Match] = await self._call_reader("nearest", wanted, n, group=group)
        return answer

    async def nearest_code(self, code: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """`nearest` for a code, in any index that takes codes; hexadecimal digits and bytes are a code, too."""
        answer: list[Match] = await self._call_reader("nearest_code", code, n, group=group)
        return answer

    async def count(
        self, text: str | bytes, *, since: Moment | timedelta | None = None, threshold: float | None = None,
        max_distance: int | None = None, measure: Measure | None = None, group: Key | AnyGroup | None = None,
    ) -> Count:
        """How many documents `query` would give, and since when they are there, without making a list of them."""
        answer: Count = await self._call_reader(
            "count", text, since=since, threshold=threshold, max_distance=max_distance, measure=measure, group=group
        )
        return answer

    async def count_code(
        self, code: Code, *, since: Moment | timedelta | None = None, threshold: float | None = None,
        max_distance: int | None = None, group: Key | AnyGroup | None = None,
    ) -> Count:
        """`count` for a code of bits."""
        answer: Count = await self._call_reader(
            "count_code", code, since=since, threshold=threshold, max_distance=max_distance, group=group
        )
        return answer

    async def matches(
        self, key: Key, *, threshold: float | None = None, measure: Measure | None = None, limit: int | None = None,
        group: AnyGroup | None = None,
    ) -> list[Match]:
        """Near-duplicates of a stored document, by its stored fingerprint, without itself and without those that were dismissed
        as its duplicates (`Index.dismiss`). Raises KeyNotFoundError.
        """
        answer: list[Match] = await self._call_reader(
            "matches", key, threshold=threshold, measure=measure, limit=limit, group=group
        )
        return answer

    async def clusters(self, min_size: int = 2, *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Cluster]:
        """Connected components of the graph of pairs, largest first; without `record_matches` they are computed now."""
        answer: list[Cluster] = await self._call_reader("clusters", min_size, group=group)
        return answer

    async def allowed(self) -> list[AllowedText]:
        """The allowed texts (`Index.allow`), in the order in which they were allowed."""
        answer: list[AllowedText] = await self._call_reader("allowed")
        return answer

    async def get(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP) -> Document:
        """A stored document. Raises KeyNotFoundError."""
        answer: Document = await self._call_reader("get", key, group=group)
        return answer

    async def get_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Document | None]:
        """Stored documents in the order of the keys; None for a key that is not there. group: as of `get`."""
        answer: list[Document | None] = await self._call_reader("get_many", keys, group=group)
        return answer

    async def export_fingerprints(self, path: str | bytes | os.PathLike[str]) -> int:
        """Write the visible documents with their fingerprints to a new Parquet file, in the order of insertion; returns how many.
        """
        answer: int = await self._call_reader("export_fingerprints", path)
        return answer

    async def explain(
        self, text: str | bytes, *, threshold: float | None = None, measure: Measure | None = None, group: Key | None = None
    ) -> Explanation:
        """How a query for this text runs: plan, probes, candidates, verified, matches, and the time of each step."""
        answer: Explanation = await self._call_reader("explain", text, threshold=threshold, measure=measure, group=group)
        return answer

    async def explain_match(
        self, key_a: Key, key_b: Key, *, text_a: str | bytes | None = None, text_b: str | bytes | None = None
    ) -> MatchExplanation:
        """Why two stored documents match, or do not: similarity as stored and exactly, where they met, what their texts share.
        """
        answer: MatchExplanation = await self._call_reader("explain_match", key_a, key_b, text_a=text_a, text_b=text_b)
        return answer

    async def stats(self) -> Stats:
        """Counts, sizes in bytes, settings, versions and the tier of CPU instructions in use."""
        answer: Stats = await self._call_reader("stats")
        return answer
