"""Writes the documents of an index with their fingerprints to a Parquet file."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

from ... import fingerprint_files
from ...errors import ParameterError
from ...native import Values
from ...parameters import check_path
from ..database.files import result_file
from ..ingest.stored import Stored
from ..layout.state import Store
from ..layout.window import Window
from ..query.documents import Documents

_KINDS = {"text": "string", "integer": "int64", "blob": "binary"}


def export(store: Store, documents: Documents, argument: str | bytes | os.PathLike[str], now: int) -> int:
    """Write the visible documents to a new Parquet file, a row for each code, and return their number. Runs inside `reading`."""
    pa = fingerprint_files.pyarrow()
    path = check_path(argument)
    key, group = (_kind(documents, name, now) for name in ("key", "group"))
    part_kind = _kind(documents, "part", now) if store.has_parts else None
    settings = fingerprint_files.settings_of(store.scheme, store.rules)
    schema = fingerprint_files.schema(key or "string", group, settings, part_kind)
    count = 0
    last: Any = object()
    with (
        result_file(path) as temporary_path,
        pa.parquet.ParquetWriter(temporary_path, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for page in Stored(documents, now, Window(), with_texts=False).rows():
            keys, _, _, groups, _, _, parts, _ = zip(*page.records, strict=True)
            columns = fingerprint_files.columns_of(store.scheme, Values.joined([stored.value for stored in page.contents]))
            columns |= {"key": keys, "group": groups, "part": parts, "token_count": [one.token_count for one in page.contents]}
            writer.write_table(pa.Table.from_pydict({name: columns[name] for name in schema.names}, schema), len(keys))
            count += sum(key != before for before, key in pairwise((last, *keys)))  # the codes of a key are adjacent
            last = keys[-1]
        writer.close()
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
