"""The documents of another index into this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from ... import clock, fingerprint_files, limits
from ...errors import MismatchError, ParameterError
from ...parameters import MEMORY, check_path, quoted
from ...schemes.base import Scheme
from ...text import TextRules
from ...values import AddReport, Key, Part
from ..asking.documents import DocumentRow
from ..database.connection import Database
from ..database.files import is_empty
from ..database.libraries import File, file_of
from ..layout.opening import open_other_reader
from ..layout.state import Store
from ..linking.dismissing import adopt
from ..readers import StoreReader, StoreReaders
from ..writing.ingest import Ingest, IngestOptions
from ..writing.stored import Stored
from ..writing.writer import Writer


def merge(mine: StoreReader, writer: Writer, given: Any, options: IngestOptions) -> AddReport:
    """`add_many` of the documents of another index: of its readers, or of the file at a path. All are of one state of it."""
    store = mine.store
    with _opened(given, store) as others:
        other = others.own.store
        other.db.require_open()
        if _same_index(store, other):
            raise _self_merge_error()
        shared = other.db.connection is store.db.connection
        if not shared and _are_of_one_file(store, other):
            _require_no_wait(store, other)
        if shared and options.commit_every is not None:
            raise ParameterError(
                f"commit_every={options.commit_every}: both indexes are on one connection, where one state of the other is that "
                "of one transaction: leave commit_every out"
            )
        # a reading transaction could not go on to write on the same connection; dismissed pairs come after the documents
        with others.reading() as reader:  # by whichever connection is free: a transaction there is no reason to wait
            in_one = shared or (reader.store.dismisses and options.commit_every is None)
        with store.writing() if in_one else nullcontext(), others.separate_reader() as theirs, store.db.large_cache():
            with store.reading():
                _require_alike(store, theirs.store)
                with_texts, window = store.store_text, store.window

            def require(scheme: Scheme, rules: TextRules) -> None:
                _require_alike(store, theirs.store)
                if store.store_text and not with_texts:
                    raise MismatchError("the index was rebuilt to store texts while another was merged into it: call merge again")
                if store.window != window:
                    raise MismatchError("the index was given another window while another was merged into it: call merge again")

            ingest = Ingest(store, mine.documents, writer, replace(options, require=require))
            before = ingest.flush_pending if shared else None  # no thread writes while this one reads there
            report = ingest.run(Stored(theirs.documents, clock.now_ms(), window, with_texts=with_texts, before=before))
            if theirs.store.dismisses:
                with store.writing():
                    adopt(mine.clusters, _dismissed(mine, theirs, clock.now_ms()), clock.now_ms())
            return report


def _dismissed(mine: StoreReader, theirs: StoreReader, now: int) -> Iterator[tuple[DocumentRow, DocumentRow]]:
    """The pairs that a person has dismissed there, of documents that are here as they are there."""
    after = (0, 0)
    while page := theirs.search.dismissed.page(after, now, limits.LISTED_PAGE):
        for _, _, *keys in page:
            a, b = (_equal_document(mine, theirs, key, now) for key in keys)
            if a is not None and b is not None:
                yield a, b
        after = page[-1][0], page[-1][1]


def _equal_document(mine: StoreReader, theirs: StoreReader, key: Key, now: int) -> DocumentRow | None:
    """The document here, None where it is another one, as with if_exists="ignore"."""
    here, there = (_described(reader, key, now) for reader in (mine, theirs))
    return None if here is None or there is None or here[1:] != there[1:] else here[0]


def _described(reader: StoreReader, key: Key, now: int) -> tuple[DocumentRow, Key | None, dict[Part | None, bytes]] | None:
    """A visible document, with the name of its group and its values by part."""
    found, documents = reader.documents.visible(key, now), reader.documents
    return (
        None
        if found is None
        else (found, documents.read_document(found.id).group, documents.codes(found.id, found.fingerprint_id))
    )


@contextmanager
def _opened(given: Any, store: Store) -> Iterator[StoreReaders]:
    """The readers of the other index; those of a file at a path are closed at the end."""
    if isinstance(given, StoreReaders):
        yield given
        return
    if not isinstance(given, (str, bytes, os.PathLike)) or given == MEMORY:
        raise ParameterError(f"other={quoted(given)}: give another Index, or the path of the file that holds one")
    path = check_path(os.fspath(given))
    if is_empty(path):
        raise ParameterError(f"other={path!r} holds no index: give another Index, or the path of the file that holds one")
    own = _file(store.db)
    if own is not None and file_of(path) == own:  # before it is opened: to close it drops the locks of another library
        raise _self_merge_error()
    readers = StoreReaders(open_other_reader(path, store))
    try:
        yield readers
    finally:
        readers.close()


def _self_merge_error() -> ParameterError:
    return ParameterError("other is this index itself: give another one")


def _same_index(mine: Store, other: Store) -> bool:
    if mine.name != other.name:
        return False
    return mine.db.connection is other.db.connection or _are_of_one_file(mine, other)


def _are_of_one_file(mine: Store, other: Store) -> bool:
    files = [_file(store.db) for store in (mine, other)]
    return None not in files and files[0] == files[1]


def _require_no_wait(store: Store, other: Store) -> None:
    """ParameterError where a merge between two indexes of one file would wait for this thread, which is the one that merges."""
    if other.db.depth:
        raise ParameterError(
            "the other index is in the same file, and this thread has a transaction() of it open, for whose end a merge would "
            "wait: end it first, or open both indexes on one connection"
        )
    with store.db.reading():
        mode = store.db.value("PRAGMA journal_mode")
    if mode != "wal":
        raise ParameterError(
            f"the other index is in the same file, whose journal_mode is {mode!r}, where a merge would wait for its own reader: "
            "open both indexes on one connection, or run PRAGMA journal_mode = WAL first"
        )


def _file(db: Database) -> File | None:
    """What tells the file of a database from others, whatever its name; None where it has none."""
    path = db.name
    if not db.owned:
        with db.lock():  # it cannot be asked for while another thread is at work
            path = db.connection.filename
    return file_of(path)


def _require_alike(mine: Store, theirs: Store) -> None:
    """MismatchError where documents of the other index cannot be stored here as they are."""
    source = repr(theirs.db.name) if theirs.db.name else "the other index"
    if mine.store_text and not theirs.store_text:
        raise MismatchError(
            f"this index stores texts, and {source} has none: merge it into an index without store_text, as rebuild("
            "store_text=False) makes this one"
        )
    settings = fingerprint_files.settings_of(theirs.scheme, theirs.rules)
    fingerprint_files.require_values(settings, mine.scheme, mine.rules, source)
