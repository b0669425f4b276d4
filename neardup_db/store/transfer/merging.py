"""Merges the documents of another index into this one."""

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
from ..clustering.dismissing import adopt
from ..database.connection import Database
from ..database.files import is_empty
from ..database.libraries import File, file_of
from ..ingest.batch_writer import IngestOptions
from ..ingest.ingest import Ingest
from ..ingest.stored import Stored
from ..ingest.writer import Writer
from ..layout.opening import open_other_reader
from ..layout.state import Store
from ..query.documents import DocumentRow
from ..readers import StoreReader, StoreReaders


def merge(mine: StoreReader, writer: Writer, given: Any, options: IngestOptions) -> AddReport:
    """`add_many` of the documents of another index, given as its readers or a path, read from one state."""
    store = mine.store
    with _opened(given, store) as others:
        other = others.own.store
        other.db.require_open()
        if _same_index(store, other):
            raise _self_merge_error()
        shared = other.db.connection is store.db.connection
        if shared and options.commit_every is not None:
            raise ParameterError(
                f"commit_every={options.commit_every}: both indexes are on one connection, where one state of the other is that "
                "of one transaction: leave commit_every out"
            )
        # A read transaction cannot become a write transaction on the same connection. Dismissed pairs follow the documents.
        with others.reading() as reader:  # on any free connection: no reason to wait for a transaction
            in_one_transaction = shared or (reader.store.dismisses and options.commit_every is None)
        with store.writing() if in_one_transaction else nullcontext(), others.separate_reader() as theirs, store.db.large_cache():
            with store.reading():
                _require_compatible(store, theirs.store)
                with_texts, window = store.store_text, store.window

            def require(scheme: Scheme, rules: TextRules) -> None:
                _require_compatible(store, theirs.store)
                if store.store_text and not with_texts:
                    raise MismatchError("the index was rebuilt to store texts while another was merged into it: call merge again")
                if store.window != window:
                    raise MismatchError("the index was given another window while another was merged into it: call merge again")

            ingest = Ingest(writer, replace(options, require=require))
            before = ingest.flush_pending if shared else None  # no thread may write while this one reads from the same connection
            report = ingest.run(Stored(theirs.documents, clock.now_ms(), window, with_texts=with_texts, before=before))
            if theirs.store.dismisses:
                with store.writing():
                    adopt(mine.clusters, _dismissed(mine, theirs, clock.now_ms()), clock.now_ms())
            return report


def _dismissed(mine: StoreReader, theirs: StoreReader, now: int) -> Iterator[tuple[DocumentRow, DocumentRow]]:
    after = (0, 0)
    while page := theirs.search.dismissed.page(after, now, limits.LISTED_PAGE):
        for _, _, *keys in page:
            a, b = (_equal_document(mine, theirs, key, now) for key in keys)
            if a is not None and b is not None:
                yield a, b
        after = page[-1][0], page[-1][1]


def _equal_document(mine: StoreReader, theirs: StoreReader, key: Key, now: int) -> DocumentRow | None:
    """The document here; None if it differs from the other index's."""
    own_document, their_document = (_described(reader, key, now) for reader in (mine, theirs))
    return None if own_document is None or their_document is None or own_document[1:] != their_document[1:] else own_document[0]


def _described(reader: StoreReader, key: Key, now: int) -> tuple[DocumentRow, Key | None, dict[Part | None, bytes]] | None:
    """(row, group name, values by part) of a visible document."""
    row, documents = reader.documents.visible(key, now), reader.documents
    return None if row is None else (row, documents.read_document(row.id).group, documents.codes(row.id, row.fingerprint_id))


@contextmanager
def _opened(given: Any, store: Store) -> Iterator[StoreReaders]:
    """The readers of the other index. Readers of a file given by path are closed at the end."""
    if isinstance(given, StoreReaders):
        yield given
        return
    if not isinstance(given, (str, bytes, os.PathLike)) or given == MEMORY:
        raise ParameterError(f"other={quoted(given)}: give another Index, or the path of the file that holds one")
    path = check_path(given)
    if is_empty(path):
        raise ParameterError(f"other={path!r} holds no index: give another Index, or the path of the file that holds one")
    own = _file(store.db)
    if own is not None and file_of(path) == own:  # before it is opened: closing it would drop another library's locks
        raise _self_merge_error()
    readers = StoreReaders(open_other_reader(path, store))
    try:
        yield readers
    finally:
        readers.close()


def _self_merge_error() -> ParameterError:
    return ParameterError("other is this index itself: give another one")


def _same_index(mine: Store, other: Store) -> bool:
    if mine.db.connection is other.db.connection:
        return mine.name == other.name
    file = _file(mine.db)
    return mine.name == other.name and file is not None and file == _file(other.db)


def _file(db: Database) -> File | None:
    path = db.name
    if not db.owned:
        with db.lock():  # not readable while another thread uses the connection
            path = db.connection.filename
    return file_of(path)


def _require_compatible(mine: Store, theirs: Store) -> None:
    """Raise MismatchError if documents of the other index cannot be stored here unchanged."""
    source = repr(theirs.db.name) if theirs.db.name else "the other index"
    if mine.store_text and not theirs.store_text:
        raise MismatchError(
            f"this index stores texts, and {source} has none: merge it into an index without store_text, as rebuild("
            "store_text=False) makes this one"
        )
    settings = fingerprint_files.settings_of(theirs.scheme, theirs.rules)
    fingerprint_files.require_values(settings, mine.scheme, mine.rules, source)
