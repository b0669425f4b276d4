"""Stored documents as JSON: `neardup get`, and the lines of `neardup export -o`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .. import clock
from ..errors import CorruptIndexError
from ..index import Index
from ..store.database.connection import undecodable
from ..values import Key
from .inputs.files import packing_of
from .options import find_group, group_option, index_command, keys_options, open_index, parse_keys
from .output import as_json_value, emit_json, escaped, json_line, print_note
from .outputs import open_output, replacing, room_for
from .progress import Meter

_ROWS_AT_ONCE = 1000
"""Lines between updates of the progress bar."""


@index_command()
@keys_options
@group_option
def get(index_path: Path, keys: tuple[str, ...], file: Any, name: str, key_type: str, group: str | None, as_json: bool) -> int:
    """Print documents by their keys, as JSON.

    Prints one object a line, with and without --json: key, group, metadata, text if INDEX stores texts, code if it holds codes,
    codes with their parts if a document has several, token_count, added_at, last_seen, times_seen, expires_at, cluster. Times are
    seconds since 1970. With --group a document of another group counts as missing. Exit code 1 if none exists.

    \b
    neardup get articles.db a1 a2
    """
    wanted = parse_keys(keys, file, key_type)
    found = 0
    with open_index(index_path, name) as index:
        condition, more = ("d.key = ?", ()) if group is None else ("d.key = ? AND g.name = ?", (find_group(index, group),))
        for key in wanted:
            document = next(_documents(index, condition, (key, *more)), None)
            if document is None:
                print_note(f"no document{'' if group is None else ' of the group'} has the key {escaped(key) or repr(key)}")
            else:
                emit_json(document)
                found += 1
    return 0 if found else 1


def write_lines(index: Index, out: Path, size_bytes: int) -> int:
    count, total = 0, max(len(index), 1)
    with replacing(out) as (new,), room_for(out), open_output(new, packing_of(out)) as file, Meter("Export", size_bytes) as meter:
        for document in _documents(index, "true", ()):
            file.write(f"{json_line(document)}\n".encode())
            count += 1
            if count % _ROWS_AT_ONCE == 0:
                meter.advance(size_bytes * min(count, total) // total, _ROWS_AT_ONCE)
    return count


_NAMES = (
    "key", "group", "metadata", "text", "code", "codes", "token_count", "added_at", "last_seen", "times_seen", "expires_at",
    "cluster",
)  # fmt: skip
_WHERE_THERE = ("text", "code", "codes")


def _documents(index: Index, condition: str, parameters: Iterable[Key]) -> Iterator[dict[str, Any]]:
    sql = f"""SELECT d.key, g.name, d.metadata, d.text, {"f.value" if index.scheme.takes_codes else "NULL"}, {_codes(index)},
                  d.token_count, d.added_at / 1000.0, d.last_seen / 1000.0, d.times_seen, d.expires_at / 1000.0, d.cluster_id
              FROM {index.name}_document AS d LEFT JOIN {index.name}_group AS g ON g.id = d.group_id
                  LEFT JOIN {index.name}_fingerprint AS f ON f.id = d.fingerprint_id
              WHERE {condition} AND (d.expires_at IS NULL OR d.expires_at > ?) ORDER BY d.id"""
    try:
        for row in index.connection.execute(sql, (*parameters, clock.now_ms())):
            document = dict(zip(_NAMES, row, strict=True))
            if document["metadata"] is not None:
                document["metadata"] = _parsed(document["key"], document["metadata"])
            if document["code"] is not None:
                document["code"] = document["code"].hex()
            if document["codes"] is not None:
                document["codes"] = json.loads(document["codes"])
            shown = {name: value for name, value in document.items() if value is not None or name not in _WHERE_THERE}
            yield {name: as_json_value(value) for name, value in shown.items()}
    except UnicodeDecodeError as error:
        raise undecodable(error) from error


_CODES = """(SELECT json_group_array(json_object('part', c.part, 'code', c.code)) FROM (
    SELECT p.part, lower(hex(x.value)) AS code FROM {name}_part AS p JOIN {name}_fingerprint AS x ON x.id = p.fingerprint_id
    WHERE p.document_id = d.id ORDER BY p.id) AS c HAVING count(*) > 0)"""


def _codes(index: Index) -> str:
    """NULL for documents with one unnamed code."""
    table = f"SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '{index.name}_part'"
    return _CODES.replace("{name}", index.name) if index.connection.execute(table).fetchone() else "NULL"


def _parsed(key: Key, metadata: str) -> Any:
    try:
        return json.loads(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        what = f"the metadata of the document {escaped(key)} is damaged ({error})"
        raise CorruptIndexError(f"{what}: run neardup check --repair, or restore a backup") from error
