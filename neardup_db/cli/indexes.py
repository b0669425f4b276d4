"""The index that a command works on: opened, or created, and its groups."""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import click

from ..errors import DiskFullError, ParameterError, ShortTextsWarning
from ..index import Index
from ..parameters import check_key
from ..schemes import MinHash, Scheme
from ..store.database.open import open_scratch, remove_unused
from ..system import reachable, real_path
from ..text import TextRules
from ..values import ANY_GROUP, AnyGroup, Key
from .output import print_note
from .wording import in_command_terms, told_as


def is_new(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def index_files() -> list[Path]:
    """The paths of INDEX and its log."""
    path: Path = click.get_current_context().params["index_path"]
    return [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))]


def open_existing(path: Path, name: str) -> Index:
    """Where it can be written it is opened for writing even to read it, because only a writable last connection removes -wal and
    -shm."""
    if not path.exists():
        raise ParameterError(f"{path}: no such file; create an index with: neardup add {path} RECORDS")
    writable = os.access(path, os.W_OK) and os.access(path.resolve().parent, os.W_OK)
    with told_as(path):
        return Index(path, name=name, read_only=not writable)


@contextlib.contextmanager
def open_index(path: Path, name: str) -> Iterator[Index]:
    """An existing index, whose errors name the file."""
    with open_existing(path, name) as index, told_as(path):
        yield index


@contextlib.contextmanager
def open_or_create(path: Path, scheme: Scheme | None = None, **settings: Any) -> Iterator[Index]:
    """The index at a path, created if it is missing; then an error leaves no file. Warnings are printed at the end."""
    was_there = path.exists()
    if scheme is None and is_new(path):
        scheme = MinHash()
    with told_as(path), warnings_as_notes():
        try:
            with Index(path, scheme, **settings) as index:
                yield index
        except BaseException:
            if not was_there:
                remove_unused(reachable(real_path(path)))
            raise


@contextlib.contextmanager
def scratch_index(folder: Path, scheme: Scheme, rules: TextRules | None, **settings: Any) -> Iterator[Index]:
    """A temporary index in a folder, without the safety of a stored one. A full disk raises OSError, as other files do."""
    with (
        contextlib.closing(open_scratch(str(folder / "index.db"))) as connection,
        Index(connection, scheme, text=rules, record_matches=False, **settings) as index,
    ):
        try:
            yield index
        except (DiskFullError, apsw.FullError) as error:
            raise OSError(errno.ENOSPC, str(error)) from error


def new_index_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The settings for --store-text and --no-record-matches, which are removed, if they were given."""
    given = {"store_text": options.pop("store_text", False), "record_matches": options.pop("no_record_matches", False)}
    return {name: name == "store_text" for name, is_given in given.items() if is_given}


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", ShortTextsWarning)
        warnings.showwarning = lambda message, *_, **__: told.append(str(message))
        yield
    for message in told:
        print_note(in_command_terms(message))


def find_group(index: Index, given: str) -> Key:
    """The group for --group: the group with this text as its name, else the one with this integer. Groups named by bytes are not
    supported."""
    sql = f"SELECT 1 FROM {index.name}_group WHERE name = ?"
    if index.connection.execute(sql, (given,)).fetchone() is None:
        with contextlib.suppress(ValueError, ParameterError):
            number = check_key(int(given), "group")
            if index.connection.execute(sql, (number,)).fetchone() is not None:
                return number
    return given


def group_to_query(index: Index, group: str | None, all_groups: bool) -> Key | AnyGroup | None:
    if all_groups and group is not None:
        raise click.UsageError("--group and --all-groups cannot be combined")
    return ANY_GROUP if all_groups else group_or_none(index, group, "give --group NAME, or --all-groups")


def group_or_none(index: Index, group: str | None, remedy: str) -> Key | None:
    """Without the option, a note with the remedy says that groups are not searched."""
    if group is not None:
        return find_group(index, group)
    if index.connection.execute(f"SELECT 1 FROM {index.name}_fingerprint WHERE group_id > 0 LIMIT 1").fetchone() is not None:
        print_note(f"the index has groups, and only documents without a group were searched: {remedy}")
    return None


def group_listed(index: Index, group: str | None) -> Key | AnyGroup:
    return ANY_GROUP if group is None else find_group(index, group)
