"""An index's documents, with their fingerprints, as one Parquet file."""

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


def export(store: Store, documents: Documents, given: str | bytes, now: int) -> int:
    """Write the visible documents to a new file, in the order of insertion; returns how many. Inside `reading`."""
    if store.settings.get("evidence") == "text":
        raise ParameterError(
            "an exact index that stores its texts keeps no fingerprints to export, since it compares the texts: export "
            "these, or rebuild(store_text=False) a copy of it first"
        )
    if documents.parts.are_there():
        raise ParameterError(
            "a file of fingerprints has one for each key, and documents of this index have several codes: give Document.codes of "
            "get_many to add_codes of another index, or back the file up"
        )
    pa = fingerprint_files.pyarrow()
    path = check_path(given)
    key, group = (_kind(documents, name, now) for name in ("key", "group"))
    schema = fingerprint_files.schema(key or "string", group, fingerprint_files.settings_of(store.scheme, store.rules))
    count = 0
    try:
        if os.path.lexists(path):
            raise FileExistsError
        with (
            new_file(path, MODE) as beside,
            pa.parquet.ParquetWriter(beside, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for part in _parts(documents.stored(now)):
                writer.write_table(pa.Table.from_pydict(_columns(store, part, group is not None), schema), len(part))
                count += len(part)
            writer.close()
    except FileExistsError as error:
        raise ParameterError(f"{path!r} exists: give the path of a new file") from error
    except OSError as error:
        raise system_error(error, path, "created") from error
    return count


def _kind(documents: Documents, name: str, now: int) -> str | None:
    """The type of all keys, or of all groups; None where there are none."""
    kinds = [_KINDS[kind] for kind in documents.kinds(name, now)]
    if len(kinds) > 1:
        raise ParameterError(
            f"the {name}s of this index are of the types {' and '.join(sorted(kinds))}, and a column of Parquet has one: export "
            f"an index of documents with {name}s of one type"
        )
    return kinds[0] if kinds else None


def _parts(rows: Iterator[StoredDocument]) -> Iterator[list[StoredDocument]]:
    """Rows by the number and the bytes that a row group has at most."""
    part: list[StoredDocument] = []
    size = 0
    for row in rows:
        if part and (size >= limits.EXPORTED_BYTES or len(part) >= limits.EXPORTED_ROWS):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row.value or b"")
    if part:
        yield part


def _columns(store: Store, part: list[StoredDocument], has_groups: bool) -> dict[str, list[Any]]:
    values = [row.value for row in part]
    columns: dict[str, list[Any]] = {"key": [row.key for row in part], "group": [row.group for row in part]}
    if not has_groups:
        del columns["group"]
    counts = [row.token_count for row in part]
    return {**columns, **fingerprint_files.columns_of(store.scheme, Values.joined(values)), "token_count": counts}
