"""Writes the documents of an index with their fingerprints to a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ... import fingerprint_files, limits
from ...errors import ParameterError
from ...native import Values
from ...parameters import check_path
from ..asking.documents import Documents, StoredDocument
from ..database.errors import system_error
from ..database.files import MODE, new_file
from ..layout.state import Store

_KINDS = {"text": "string", "integer": "int64", "blob": "binary"}


def export(store: Store, documents: Documents, argument: str | bytes, now: int) -> int:
    """Write the visible documents to a new Parquet file in insertion order, one row for each code. Returns the number of
    documents. Runs inside `reading`."""
    pa = fingerprint_files.pyarrow()
    path = check_path(argument)
    key, group = (_kind(documents, name, now) for name in ("key", "group"))
    part_kind = _kind(documents, "part", now) if store.has_parts else None
    settings = fingerprint_files.settings_of(store.scheme, store.rules)
    schema = fingerprint_files.schema(key or "string", group, settings, part_kind)
    count = 0
    last: Any = object()
    try:
        if os.path.lexists(path):
            raise FileExistsError
        with (
            new_file(path, MODE) as temporary_path,
            pa.parquet.ParquetWriter(temporary_path, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for page in _pages(documents.stored(now)):
                columns = _columns(store, page)
                writer.write_table(pa.Table.from_pydict({name: columns[name] for name in schema.names}, schema), len(page))
                for row in page:
                    count += row.key != last  # the codes of a key are adjacent
                    last = row.key
            writer.close()
    except FileExistsError as error:
        raise ParameterError(f"{path!r} exists: give the path of a new file") from error
    except OSError as error:
        raise system_error(error, path, "created") from error
    return count


def _kind(documents: Documents, name: str, now: int) -> str | None:
    """The Parquet type of all keys or groups; None if there are none."""
    kinds = [_KINDS[kind] for kind in documents.kinds(name, now)]
    if len(kinds) > 1:
        raise ParameterError(
            f"the {name}s of this index are of the types {' and '.join(sorted(kinds))}, and a column of Parquet has one: export "
            f"an index of documents with {name}s of one type"
        )
    return kinds[0] if kinds else None


def _pages(rows: Iterator[StoredDocument]) -> Iterator[list[StoredDocument]]:
    page: list[StoredDocument] = []
    size = 0
    for row in rows:
        if page and (size >= limits.EXPORTED_BYTES or len(page) >= limits.EXPORTED_ROWS):
            yield page
            page, size = [], 0
        page.append(row)
        size += len(row.value or b"")
    if page:
        yield page


def _columns(store: Store, page: list[StoredDocument]) -> dict[str, list[Any]]:
    values = [row.value for row in page]
    columns = {name: [getattr(row, name) for row in page] for name in ("key", "group", "part")}
    counts = [row.token_count for row in page]
    return {**columns, **fingerprint_files.columns_of(store.scheme, Values.joined(values)), "token_count": counts}
