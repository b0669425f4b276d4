"""From the arguments of `Index(...)` to an open store: create, open, refuse."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from ..errors import CorruptIndexError, FormatError, NearDupError, ParameterError
from ..parameters import index_name
from ..records import check_choice, now_ms
from ..schemes.base import Scheme
from ..text import TextRules
from . import checksums, definitions, schema
from .connection import APPLICATION_ID, Database, load, open_file, open_reader, system_error, translate
from .state import Common, Given, Store

MEMORY = ":memory:"
"""The target that is no file. A Path of this name, or one with a folder before it, is a file."""

_LONGEST_SUFFIX = len("-journal")
"""Of the names that SQLite gives to the files beside a database."""

_LONGEST_NAME, _LONGEST_PATH = 255, 512
"""Bytes of a name, in a folder that is not there, and of a path that SQLite opens."""

MODE = 0o644
"""Permissions of a new file, less those that the umask takes: what SQLite gives."""


def open_store(
    target: Any,
    scheme: Scheme | None,
    *,
    text: TextRules | None,
    name: str,
    store_text: bool | None,
    record_matches: bool | None,
    sums: bool | None,
    durability: str,
    read_only: bool,
    attach: bool,
    timeout: float,
    memory_map: bool,
) -> Store:
    """An open index. What was opened on the way is closed again if this fails."""
    given = _check(scheme, text, name, store_text, record_matches, sums, durability, timeout)
    for label, value in (("read_only", read_only), ("attach", attach), ("memory_map", memory_map)):
        _check_flag(label, value)
    if given.checksums and (isinstance(target, apsw.Connection) or target == MEMORY):
        raise ParameterError("checksums=True is for a file that is opened by its path: give one, or leave checksums out")
    if isinstance(target, apsw.Connection) and memory_map:
        raise ParameterError("memory_map=True is for files that are opened here: set PRAGMA mmap_size on your own connection")
    if given.checksums and memory_map:
        raise ParameterError("memory_map=True: a map would pass the checksums of the pages by; leave memory_map out")
    path = "" if isinstance(target, apsw.Connection) else _path(target)
    try:
        if isinstance(target, apsw.Connection):
            return _open_in(Database(target, owned=False, read_only=read_only, timeout=timeout), given, name, attach=True)
        return _open(path, given, name, _How(read_only, durability, timeout, memory_map), attach=attach)
    except NearDupError:  # some are an OSError too
        raise
    except apsw.CantOpenError as error:
        raise ParameterError(f"{path!r} cannot be opened ({error}): check the path and its permissions") from error
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise system_error(error, path, "opened or created") from error


class _How(NamedTuple):
    """How a file is opened."""

    read_only: bool
    durability: str
    timeout: float
    memory_map: bool


def _open(path: str, given: Given, name: str, how: _How, *, attach: bool) -> Store:
    in_memory = path == MEMORY
    is_empty = not in_memory and _is_empty(path)
    if in_memory or is_empty:
        if given.scheme is None or how.read_only:
            remedy = "give a scheme, e.g. MinHash(threshold=0.8), to create it"
            why = remedy if given.scheme is None else "read_only=True cannot create it"
            raise ParameterError(f"{path!r} holds no index yet: {why}")
        _settings_of_new(given)
    if is_empty and not os.path.exists(path):
        _create_file(path, given, name, how)
        is_empty = _is_empty(path)  # it may be another's
    file = None if in_memory else os.stat(path)
    db = _database(path, how, sums=is_empty and bool(given.checksums))
    try:
        if is_empty:
            _use_log(db)
            if checksums.are_in(path) != checksums.has(db.connection):  # another process has created it, with the other choice
                db.connection.close()
                db.connection = open_file(path, **how._asdict())
                db.undo.watch(db.connection)
        store = _open_in(db, given, name, attach=attach)
        if file is not None:
            _let_open_again(db, file, how.memory_map)
    except BaseException:
        db.abandon()
        raise
    return store


def _database(path: str, how: _How, *, sums: bool) -> Database:
    connection = open_file(path, **how._asdict(), sums=sums)
    try:
        return Database(connection, owned=True, read_only=how.read_only, timeout=how.timeout)
    except BaseException:
        connection.close()
        raise


def _is_empty(path: str) -> bool:
    try:
        return os.stat(path).st_size == 0
    except FileNotFoundError:
        return True


def _create_file(path: str, given: Given, name: str, how: _How) -> None:
    """Create the file with its index, whole, unless somebody else does so meanwhile."""
    with contextlib.suppress(FileExistsError), new_file(path, MODE) as beside:
        db = _database(beside, how, sums=bool(given.checksums))
        db.name = path
        try:
            _use_log(db)
            _open_in(db, given, name, attach=False)
            db.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)  # closing would pass over its errors
        finally:
            db.abandon()


@contextlib.contextmanager
def new_file(path: str, mode: int) -> Iterator[str]:
    """Yields the path of an empty file in the same folder, which gets the name `path` at the end: whoever sees that name has all
    of it, and nothing is ever removed from there. Raises FileExistsError where there is something of that name."""
    beside = os.path.join(os.path.dirname(path), f".neardup-{secrets.token_hex(8)}")
    try:
        _make(beside, mode)
        yield beside
        try:
            os.link(beside, path)
        except FileExistsError:
            raise
        except OSError:  # the file system has no links, or has no room
            _make(path, mode)
            os.replace(beside, path)
    finally:
        try:
            _remove(beside)
        except BaseException:  # Ctrl-C just then
            _remove(beside)
            raise


def _remove(beside: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(beside + suffix).unlink(missing_ok=True)


def _make(path: str, mode: int) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))


def _let_open_again(db: Database, file: os.stat_result, memory_map: bool) -> None:
    """Tell the database how to open more connections to its file, to read. FormatError, now or from these, where the name belongs
    to another file than the one that was opened."""
    path, vfs = db.connection.filename, db.connection.open_vfs  # now: they cannot be asked for while another thread is at work

    def require_file() -> None:
        now = os.stat(path)
        if (now.st_dev, now.st_ino) != (file.st_dev, file.st_ino):
            raise FormatError(f"{path!r} is another file than the one that was opened")

    def reader() -> apsw.Connection:
        require_file()
        connection = open_reader(path, vfs, read_only=db.read_only, timeout=db.timeout, memory_map=memory_map)
        try:
            if not db.read_only and connection.pragma("journal_mode") != "wal":
                raise FormatError(f"{path!r} has no write-ahead log: its readers would hold its writers up")
            load(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    require_file()
    db.another = reader
    if not db.read_only:
        db.keep_log_short()


def _check(
    scheme: Any, text: Any, name: str, store_text: Any, record_matches: Any, sums: Any, durability: str, timeout: float
) -> Given:
    index_name(name)
    check_choice("durability", durability, ("full", "normal"))
    if scheme is not None and not isinstance(scheme, Scheme):
        raise ParameterError(f"scheme={scheme!r}: it is one of SimHash(), MinHash(), BottomK(), BitSampling(), BinaryCode()")
    if text is not None and not isinstance(text, TextRules):
        raise ParameterError(f"text={text!r}: it is a TextRules, e.g. TextRules.words(shingle=3)")
    for label, value in (("store_text", store_text), ("record_matches", record_matches), ("checksums", sums)):
        if value is not None:
            _check_flag(label, value)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout <= 2_000_000:
        raise ParameterError(f"timeout={timeout!r}: it is a number of seconds from 0 to 2,000,000")
    return Given(scheme, text, store_text, record_matches, sums)


def _check_flag(label: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ParameterError(f"{label}={value!r}: it is True or False")


def _settings_of_new(given: Given) -> tuple[Scheme, TextRules]:
    """Scheme and rules of an index to create. ParameterError where they do not go together, or cannot be stored."""
    assert given.scheme is not None
    rules = given.rules if given.rules is not None else TextRules()
    rules.settings()
    return given.scheme.for_index(rules, bool(given.store_text)), rules


def _path(target: Any) -> str:
    if isinstance(target, sqlite3.Connection):
        raise ParameterError(
            "target is a sqlite3.Connection, but one file must not be opened through two SQLite libraries in one process: "
            "give the path, or an apsw.Connection (neardup_db.load(connection) adds the SQL functions to a sqlite3.Connection)"
        )
    try:
        path: str | bytes = os.fspath(target)
    except TypeError as error:
        raise ParameterError(f"target={target!r}: it is a path, ':memory:' or an apsw.Connection") from error
    return MEMORY if path == MEMORY and isinstance(target, str) else file_path(path)


def file_path(given: str | bytes) -> str:
    """The absolute path of a file, without symbolic links: SQLite takes it for nothing else, finds the log where it finds it, and
    goes on to do so when the current folder has changed. ParameterError where SQLite cannot have a file there."""
    path = os.fsdecode(given)
    if not path or "\0" in path:
        raise ParameterError(f"target={path!r} is no path")
    require_unicode(path)
    path = os.path.realpath(path)
    if os.path.isdir(path):
        raise ParameterError(f"{path!r} is a folder: give the path of a file in it")
    folder, name = os.path.split(os.fsencode(path))
    longest = os.pathconf(folder, "PC_NAME_MAX") if os.path.isdir(folder) else _LONGEST_NAME
    for what, size, most in (("name", len(name), longest), ("path", len(os.fsencode(path)), _LONGEST_PATH)):
        if size > most - _LONGEST_SUFFIX:
            raise ParameterError(
                f"{path!r}: its {what} has {size} bytes, and with what SQLite adds to it only {most - _LONGEST_SUFFIX} are "
                f"possible: give a shorter {what}"
            )
    return path


def require_unicode(path: str) -> None:
    """ParameterError for a path that SQLite cannot be given."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParameterError(f"the path {path!r} is no UTF-8, as SQLite needs it: rename the file or its folder") from error


def _open_in(db: Database, given: Given, name: str, *, attach: bool) -> Store:
    load(db.connection)
    store = Store(db, name, Common((given,)))
    with db.reading():
        found = schema.stored_name(db, name) is not None
        if not found:
            _require_room(db, name, given, attach)
    if not found:
        _create(store, given)
    with db.reading():
        store.name = schema.stored_name(db, name) or name
        if db.owned:
            definitions.require_data(db, store.name)
        store.load()
        _require_checks(store)
        outdated = store.settings["schema_version"] < schema.SCHEMA_VERSION
    if outdated and not db.read_only:
        with db.writing():
            if schema.migrate(db, name, schema.read_settings(db, name), store.scheme.table):
                store.load()
    elif outdated:
        raise FormatError(f"index {name!r} has an older schema version: open it once without read_only, to migrate it")
    with store.reading():  # with the tables that it has now: it may have been rebuilt meanwhile
        definitions.require_tables(db, store.name, store.scheme.table)
    return store


def _require_checks(store: Store) -> None:
    """Pages that have checksums are read, and written, by nothing that does not know them."""
    if not store.settings.get("checksums") or checksums.has(store.db.connection):
        return
    if not store.db.owned:
        raise ParameterError(f"index {store.name!r} is in a file with page checksums: open it by its path, not by a connection")
    raise CorruptIndexError("the header of the file, page 1, is damaged: it denies the checksums of its pages; restore a backup")


def _use_log(db: Database) -> None:
    """Turn the write-ahead log on. SQLite does not wait here for another process that does the same, so this does."""
    deadline = time.monotonic() + db.timeout
    while True:
        try:
            db.connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.005)


def _require_room(db: Database, name: str, given: Given, attach: bool) -> None:
    """Whether an index may be created in this database."""
    names = schema.index_names(db)
    there = f" It holds: {', '.join(names)}." if names else ""
    foreign = db.owned and not schema.is_empty(db) and db.value("PRAGMA application_id") != APPLICATION_ID
    if foreign and not attach and not names:
        raise FormatError(
            "the file is another program's database: give another path, or attach=True to put an index into it beside its tables"
        )
    if given.scheme is None:
        raise FormatError(f"the database holds no index named {name!r}.{there} Give name=, or a scheme to create one")
    if foreign and not attach:
        raise FormatError(f"the database holds no index named {name!r}.{there} Give attach=True to create one in it")
    if db.read_only:
        raise ParameterError(f"the database holds no index named {name!r}, and read_only=True cannot create it.{there}")


def _create(store: Store, given: Given) -> None:
    """Create the index, unless another process has done so meanwhile."""
    db = store.db
    scheme, rules = _settings_of_new(given)
    keep_text = bool(given.store_text)
    has_sums = checksums.has(db.connection)
    if given.checksums is not None and given.checksums != has_sums:
        raise ParameterError(
            f"checksums={given.checksums}: the database exists {'with' if has_sums else 'without'} page checksums, and they are "
            "decided when a file is created: leave checksums out, or give the path of a new file"
        )
    with db.writing():
        if schema.stored_name(db, store.name) is not None:
            return
        if db.owned and schema.is_empty(db):
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
        record = True if given.record_matches is None else given.record_matches
        store.create(scheme, rules, keep_text, record, now_ms())
