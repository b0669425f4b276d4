"""Commands that look after the file of an index: backup, compact."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ParameterError
from ..parameters import check_path
from .command import command
from .inputs.files import STDOUT, is_stream
from .options import index_argument, json_option, name_option, open_index, parts_of
from .output import counted, emit, emit_json
from .outputs import check_kind, check_output, replacing, room_for


@command()
@index_argument
@click.argument("out", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@name_option
@json_option
def backup(index_path: Path, out: Path, force: bool, name: str, as_json: bool) -> None:
    """Write a copy of INDEX to FILE, while others may write to INDEX.

    The copy is of one state of the whole database, and FILE appears when it is complete.

    \b
    neardup backup articles.db backups/articles.db
    """
    if out == STDOUT or is_stream(out):
        raise ParameterError(f"{out}: an index cannot be written to a stream; name a file")
    check_kind(out, folder=False)
    check_path(str(out))
    check_output(out, force, parts_of(index_path))
    _refuse_log(out)
    with open_index(index_path, name) as index, room_for(out), replacing(out) as (new,):
        index.backup(new)
        _refuse_log(out)
        size = new.stat().st_size
    if as_json:
        emit_json({"bytes": size})
    else:
        emit(f"{counted(size, 'byte')} written")


def _refuse_log(out: Path) -> None:
    """Refuses to put a file beside the log of another one, which would be taken for its own."""
    log = parts_of(out.resolve())[1]
    if log.exists():
        raise ParameterError(
            f"{out} is in use, or was left by a crash: its log {log} is there, and would damage the copy; close what uses it, "
            "open and close it once, or name another output"
        )


@command()
@index_argument
@name_option
@json_option
def compact(index_path: Path, name: str, as_json: bool) -> None:
    """Give unused space of INDEX back to the file system.

    Deleted texts go from unused space and from the log, too. Needs the size of the new file twice meanwhile: once for
    temporary files, once beside INDEX.

    \b
    neardup compact articles.db
    """
    with open_index(index_path, name, write=True) as index:
        freed = index.compact()
    size = index_path.stat().st_size
    if as_json:
        emit_json({"freed_bytes": freed, "bytes": size})
    else:
        emit(f"{counted(freed, 'byte')} given back; the file has {size:,} bytes now")
