"""`neardup sql`: SQL on an index file, with the extension's functions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import apsw
import click

from ..errors import NearDupError, ReadOnlyError
from ..index import Index
from . import common
from .common import Results
from .output import GuardedStream, escape_unprintable, escaped


@common.index_command()
@click.argument("statement", required=False)
@click.option("--write", is_flag=True, help="Allow statements that change the file.")
def sql(index: Index, statement: str | None, write: bool) -> Results:
    """The functions of the extension are loaded: neardup_search, neardup_simhash, neardup_jaccard and the rest. Start with the
    views NAME_documents, NAME_matches, NAME_clusters and NAME_settings. The file is read-only unless --write is given. With
    --json each line is one row.

    \b
    neardup sql articles.db "SELECT * FROM neardup_clusters LIMIT 20"
    neardup sql articles.db "SELECT key, similarity FROM neardup_search('neardup', 'some text', 0.8, 10)"
    """
    connection = index.connection
    try:
        with contextlib.nullcontext() if write else _reading_only(connection):
            if statement is not None:
                run = _table if sys.stdout.isatty() and not common.is_json() else _rows
                yield from run(connection, statement)
            elif common.is_json():
                raise click.UsageError("--json needs a STATEMENT; in the shell, use .mode json")
            else:
                _shell(connection)
    except (apsw.ReadOnlyError, apsw.AuthError) as error:
        raise ReadOnlyError("the file is open for reading only; add --write to let the statement change it") from error
    except UnicodeDecodeError as error:
        told = f"a value is text that is not UTF-8 ({error.object[:40]!r}): ask for hex(value), or CAST(value AS BLOB)"
        raise NearDupError(told) from error
    return 0


def _shell(connection: Any) -> None:
    import apsw.shell  # on demand: slow to import

    streams: list[Any] = [GuardedStream(stream) if stream.isatty() else stream for stream in (sys.stdout, sys.stderr)]
    shell: Any = apsw.shell.Shell(stdin=sys.stdin, stdout=streams[0], stderr=streams[1], db=connection)
    shell.command_colour(["off"])  # no colours that a stored value could imitate
    shell.cmdloop()


_READING = {
    apsw.SQLITE_FUNCTION, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_SELECT,
    apsw.SQLITE_TRANSACTION,
}  # fmt: skip
"""Authorizer actions of read-only statements."""

_ACTING_PRAGMAS = {"incremental_vacuum", "optimize", "shrink_memory", "wal_checkpoint"}
"""Pragmas that have an effect without a value."""

_ASKING_PRAGMAS = ("_check", "_info", "_list", "_xinfo")
"""The ends of pragmas whose value is the subject of a report, as in table_info."""


@contextlib.contextmanager
def _reading_only(connection: Any) -> Iterator[None]:
    """Refuses statements that change a file, and pragmas that would allow this or change the journal mode."""

    def allow(action: int, name: str | None, value: str | None, database: str | None, inner: str | None) -> int:
        if action == apsw.SQLITE_PRAGMA:
            pragma = (name or "").lower()
            allowed = pragma.endswith(_ASKING_PRAGMAS) or (value is None and pragma not in _ACTING_PRAGMAS)
        else:
            allowed = action in _READING
        return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY

    connection.execute("PRAGMA query_only = 1").fetchall()
    connection.authorizer = allow
    try:
        yield
    finally:
        connection.authorizer = None


def _rows(connection: Any, statement: str) -> Results:
    """A repeated name gets a number, because JSON object keys must differ."""
    cursor, last = connection.cursor(), None
    for row in cursor.execute(statement):
        names: list[str] = []
        for name, *_ in cursor.get_description():
            names.append(name if name not in names else f"{name}:{len(names)}")
        lines = [] if names == last else ["\t".join(map(escaped, names))]
        last = names
        lines.append("\t".join("" if value is None else escaped(value) for value in row))
        yield dict(zip(names, row, strict=True)), lines


def _table(connection: Any, statement: str) -> Results:
    import apsw.ext

    clean = partial(escape_unprintable, keep="\n\t")
    table = apsw.ext.format_query_table(
        connection, statement, colour=False, string_sanitize=clean, text_width=100, use_unicode=True
    )
    yield None, table.rstrip().split("\n")
    return 0
