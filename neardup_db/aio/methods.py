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
    CommonPassage,
    Count,
    Document,
    Explanation,
    Key,
    Match,
    MatchExplanation,
    Part,
    Passage,
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
        """Store a document and return at most `limit` of its earlier matches, best first."""
        answer: list[Match] = await self._write(
            "add", key, text, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, if_exists=if_exists, limit=limit
        )
        return answer

    async def add_code(
        self, key: Key, code: Code, *, metadata: Any = None, group: Key | None = None, expires_at: Expiry | None = None,
        ttl: Ttl | None = None, part: Part | None = None, if_exists: IfExists = "error", limit: int = 10,
    ) -> list[Match]:
        """`add` for a bit code of the application (BinaryCode, SimHash, BitSampling)."""
        answer: list[Match] = await self._write(
            "add_code", key, code, metadata=metadata, group=group, expires_at=expires_at, ttl=ttl, part=part, if_exists=if_exists,
            limit=limit,
        )
        return answer

    async def add_if_new(
        self, key: Key, text: str | bytes, *, metadata: Any = None, group: Key | None = None, expires_at: Expiry | None = None,
        ttl: Ttl | None = None, if_exists: IfExists = "error", limit: int = 10, on_match: OnMatch | None = None,
    ) -> list[Match]:
        """Store a document unless it has matches, in one transaction."""
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
        """`add_if_new` for a bit code. part: as for `add_code`. Codes of the same key do not match each other."""
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
        """Store many documents from an iterable of (key, text) pairs or mappings, or from a data frame, with bounded memory.

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
        """`add_many` for codes, with keys and codes of equal length.

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
        """`add_many` for fingerprints from `export_fingerprints`, `neardup_db.spark` or
        `neardup_db.fingerprint_files.fingerprint_table`.

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
        """Add the documents of another index with their fingerprints, and their texts if both indexes store texts.

        other may be an AsyncIndex, too. `progress` is called on the loop, and awaited if it can be.
        """
        answer: AddReport = await self._write("merge", other, if_exists=if_exists, commit_every=commit_every, progress=progress)
        return answer

    async def follow(
        self, table: str, key: str = "id", text: str = "body", group: str | None = None, where: str | None = None, *,
        sync: Sync | None = None,
    ) -> None:
        """Make the rows of a table in the same database the documents of this index (see docs/reference/following.md)."""
        await self._write("follow", table, key, text, group, where, sync=sync)

    async def unfollow(self) -> bool:
        """Stop following the table: drop its triggers and keep the documents. False if no table was followed."""
        answer: bool = await self._write("unfollow")
        return answer

    async def sync(
        self, limit: int | None = None, *, full: bool = False, commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> SyncReport:
        """Update the documents from changed rows of the followed table, in its own transaction or the open one.

        `progress` is called on the loop, and awaited if it can be.
        """
        answer: SyncReport = await self._write("sync", limit, full=full, commit_every=commit_every, progress=progress)
        return answer

    async def update(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP, **changes: Any) -> None:
        """Change `metadata=` or `expires_at=` of a document; None clears the value."""
        await self._write("update", key, group=group, **changes)

    async def delete(self, key: Key, *, part: Part | None | EllipsisType = ..., group: Key | AnyGroup | None = ANY_GROUP) -> bool:
        """Delete a document; False if there was none. group: as for `get`."""
        answer: bool = await self._write("delete", key, part=part, group=group)
        return answer

    async def delete_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> int:
        """Delete documents in one transaction and return their number. Missing and repeated keys are ignored. group: as for
        `get`.
        """
        answer: int = await self._write("delete_many", keys, group=group)
        return answer

    async def delete_group(self, name: Key | None) -> int:
        """Delete all documents of a group (None: without a group) in one transaction and return their number."""
        answer: int = await self._write("delete_group", name)
        return answer

    async def set_window(self, window: WindowSize | None) -> None:
        """Change the window to a time span (a timedelta), a number of the latest documents (an int), or None for all."""
        await self._write("set_window", window)

    async def expire(self, now: Moment | None = None) -> int:
        """Delete every document expired at `now` (an aware datetime or Unix seconds; None: the clock) and return their number.
        """
        answer: int = await self._write("expire", now)
        return answer

    async def keep_newest(self, n: int) -> int:
        """Delete all but the `n` documents added last, and return the number deleted."""
        answer: int = await self._write("keep_newest", n)
        return answer

    async def dismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Declare that two documents are no duplicates; False if they were dismissed before. With one key: dismiss the document
        with each stored document that it matches, and return the number of these pairs.
        """
        answer: int = await self._write("dismiss", key_a, key_b)
        return answer

    async def undismiss(self, key_a: Key, key_b: Key | None = None) -> int:
        """Undo `dismiss` for two documents; False if they were not dismissed. With one key: undo all of its dismissals and return
        their number. Raises KeyNotFoundError, and ParameterError for equal keys.
        """
        answer: int = await self._write("undismiss", key_a, key_b)
        return answer

    async def allow(self, text: str | bytes | None = None, *, key: Key | None = None, note: str | None = None) -> int:
        """Exempt texts like this one, such as a greeting or a footer, from matching in all groups. Returns the number of stored
        documents that are exempt now.
        """
        answer: int = await self._write("allow", text, key=key, note=note)
        return answer

    async def disallow(self, text: str | bytes | None = None, *, key: Key | None = None, id: int | None = None) -> int:
        """Undo `allow` for each allowed text like the given one, and return their number. Stored documents that are like no other
        allowed text match again.
        """
        answer: int = await self._write("disallow", text, key=key, id=id)
        return answer

    async def changes(self, since: str | None = None, *, limit: int = 1000) -> Changes:
        """Up to `limit` changes after `since`, the token of an earlier call, in one state of the index."""
        answer: Changes = await self._write("changes", since, limit=limit)
        return answer

    async def forget_changes(self) -> bool:
        """Stop recording changes until `changes` is called without `since`, and invalidate all tokens. False if no changes were
        recorded.
        """
        answer: bool = await self._write("forget_changes")
        return answer

    async def rebuild(
        self, scheme: Scheme | None = None, text: TextRules | None = None, *, store_text: bool | None = None,
        record_matches: bool | None = None, progress: Callable[[int], Any] | None = None,
    ) -> None:
        """Recompute candidate rows, matches and clusters with changed settings, in one transaction.

        `progress` is called on the loop, and awaited if it can be.
        """
        await self._write("rebuild", scheme, text, store_text=store_text, record_matches=record_matches, progress=progress)

    async def check(self, repair: bool = False) -> CheckReport:
        """Verify every invariant of the file."""
        answer: CheckReport = await self._write("check", repair)
        return answer

    async def compact(self) -> int:
        """Release unused space (VACUUM) and return the number of bytes by which the file shrank."""
        answer: int = await self._write("compact")
        return answer

    async def backup(self, path: str | bytes | os.PathLike[str]) -> None:
        """Copy the whole database to a new file in one consistent state, while others may write. The file appears when complete.
        """
        await self._write("backup", path)

    async def query(
        self, text: str | bytes, *, threshold: float | None = None, max_distance: int | None = None,
        measure: Measure | None = None, limit: int | None = None, any: bool = False, group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """All near-duplicates of a text, best first; ties in insertion order."""
        answer: list[Match] = await self._call_reader(
            "query", text, threshold=threshold, max_distance=max_distance, measure=measure, limit=limit, any=any, group=group
        )
        return answer

    async def query_code(
        self, code: Code, *, threshold: float | None = None, max_distance: int | None = None, limit: int | None = None,
        any: bool = False, group: Key | AnyGroup | None = None,
    ) -> list[Match]:
        """`query` for a bit code, in an index of BinaryCode, SimHash or BitSampling. Other schemes raise ParameterError."""
        answer: list[Match] = await self._call_reader(
            "query_code", code, threshold=threshold, max_distance=max_distance, limit=limit, any=any, group=group
        )
        return answer

    async def query_many(
        self, texts: Iterable[str | bytes] | ArrowStream | ArrowArray, *, text: str | None = None, threshold: float | None = None,
        max_distance: int | None = None, measure: Measure | None = None, limit: int | None = None, any: bool = False,
        group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query` for each of many texts, all in one state of the index. Returns a list of matches for each text."""
        answer: list[list[Match]] = await self._call_reader(
            "query_many", texts, text=text, threshold=threshold, max_distance=max_distance, measure=measure, limit=limit, any=any,
            group=group,
        )
        return answer

    async def query_codes(
        self, codes: Iterable[Code], *, threshold: float | None = None, max_distance: int | None = None, limit: int | None = None,
        any: bool = False, group: Key | AnyGroup | None = None,
    ) -> list[list[Match]]:
        """`query_code` for each of many codes, all in one state of the index. Returns a list of matches for each code."""
        answer: list[list[Match]] = await self._call_reader(
            "query_codes", codes, threshold=threshold, max_distance=max_distance, limit=limit, any=any, group=group
        )
        return answer

    async def nearest(self, wanted: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """The `n` documents most similar to a text or code, best first, also beyond the index's threshold or distance; ties in
        insertion order.
        """
        answer: list[Match] = await self._call_reader("nearest", wanted, n, group=group)
        return answer

    async def nearest_code(self, code: Code, n: int, *, group: Key | AnyGroup | None = None) -> list[Match]:
        """`nearest` for a code, also in hexadecimal digits or bytes, in any index of codes."""
        answer: list[Match] = await self._call_reader("nearest_code", code, n, group=group)
        return answer

    async def count(
        self, text: str | bytes, *, since: Moment | timedelta | None = None, threshold: float | None = None,
        max_distance: int | None = None, measure: Measure | None = None, group: Key | AnyGroup | None = None,
    ) -> Count:
        """The number of documents that `query` would return, with their times, without listing them."""
        answer: Count = await self._call_reader(
            "count", text, since=since, threshold=threshold, max_distance=max_distance, measure=measure, group=group
        )
        return answer

    async def count_code(
        self, code: Code, *, since: Moment | timedelta | None = None, threshold: float | None = None,
        max_distance: int | None = None, group: Key | AnyGroup | None = None,
    ) -> Count:
        """`count` for a bit code."""
        answer: Count = await self._call_reader(
            "count_code", code, since=since, threshold=threshold, max_distance=max_distance, group=group
        )
        return answer

    async def matches(
        self, key: Key, *, threshold: float | None = None, measure: Measure | None = None, limit: int | None = None,
        group: AnyGroup | None = None,
    ) -> list[Match]:
        """The near-duplicates of a stored document, except dismissed ones (`Index.dismiss`). Raises KeyNotFoundError."""
        answer: list[Match] = await self._call_reader(
            "matches", key, threshold=threshold, measure=measure, limit=limit, group=group
        )
        return answer

    async def passages(
        self, text: str | bytes, key: Key | None = None, *, shortest: int | None = None, limit: int | None = None,
        group: Key | None = None,
    ) -> list[Passage]:
        """The passages that a text shares with stored documents, the longest first; equally long ones in insertion order."""
        answer: list[Passage] = await self._call_reader("passages", text, key, shortest=shortest, limit=limit, group=group)
        return answer

    async def passages_of(self, key_a: Key, key_b: Key, *, shortest: int | None = None) -> list[Passage]:
        """The passages of document `key_a` that document `key_b` has, the longest first: `start` and `end` are in the first text.
        """
        answer: list[Passage] = await self._call_reader("passages_of", key_a, key_b, shortest=shortest)
        return answer

    async def common_passages(self, at_least: int = 100, limit: int | None = None) -> list[CommonPassage]:
        """The passages that at least so many different texts share, such as footers and licences, the most frequent first."""
        answer: list[CommonPassage] = await self._call_reader("common_passages", at_least, limit)
        return answer

    async def clusters(self, min_size: int = 2, *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Cluster]:
        """The clusters, largest first: connected components of the graph of pairs. Without `record_matches` this computes them.
        """
        answer: list[Cluster] = await self._call_reader("clusters", min_size, group=group)
        return answer

    async def allowed(self) -> list[AllowedText]:
        """The allowed texts (`Index.allow`), in order."""
        answer: list[AllowedText] = await self._call_reader("allowed")
        return answer

    async def get(self, key: Key, *, group: Key | AnyGroup | None = ANY_GROUP) -> Document:
        """A stored document. Raises KeyNotFoundError."""
        answer: Document = await self._call_reader("get", key, group=group)
        return answer

    async def get_many(self, keys: Iterable[Key], *, group: Key | AnyGroup | None = ANY_GROUP) -> list[Document | None]:
        """Stored documents in the order of the keys, None for a missing key. group: as for `get`."""
        answer: list[Document | None] = await self._call_reader("get_many", keys, group=group)
        return answer

    async def export_fingerprints(self, path: str | bytes | os.PathLike[str]) -> int:
        """Write keys and fingerprints of the visible documents to a new Parquet file, in insertion order. Returns their number.
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
        """Why two stored documents match or do not match: stored and exact similarity, shared candidate rows and shingles."""
        answer: MatchExplanation = await self._call_reader("explain_match", key_a, key_b, text_a=text_a, text_b=text_b)
        return answer

    async def stats(self) -> Stats:
        """Counts, sizes in bytes, settings, versions and the CPU instruction set in use."""
        answer: Stats = await self._call_reader("stats")
        return answer
