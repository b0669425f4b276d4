"""Creates, opens or refuses the index of `Index(...)`."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import apsw

from ...clock import now_ms
from ...errors import CorruptIndexError, FormatError, MismatchError, NearDupError, ParameterError
from ...parameters import MEMORY, Durability, check_choice, check_flag, check_index_name, check_kind, check_target, check_timeout
from ...schemes.base import Scheme
from ...text import TextRules
from ..database import checksums, libraries
from ..database.connection import Database
from ..database.errors import system_error, translate
from ..database.files import MODE, is_empty, new_file
from ..database.log import Log
from ..database.open import APPLICATION_ID, Scratch, load, open_file, open_reader
from ..database.standard import Loadable, module_of, standard_connection
from . import definitions, schema
from .state import Store
from .window import Window

Target = str | bytes | os.PathLike[str] | os.PathLike[bytes] | apsw.Connection | Loadable
"""A path, ":memory:", or a connection of the application."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments at opening, or the changes of a rebuild. None accepts the file's value."""

    scheme: Scheme | None = None
    rules: TextRules | None = None
    store_text: bool | None = None
    record_matches: bool | None = None
    checksums: bool | None = None
    window: Window | None = None

    @classmethod
    def checked(cls, scheme: Any, text: Any, *, window: Any = None, **flags: Any) -> Choices:
        """The arguments of a caller. Raises ParameterError for one of another kind."""
        check_kind("scheme", scheme, Scheme, "one of SimHash(), MinHash(), BottomK(), BitSampling(), BinaryCode(), Passages()")
        check_kind("text", text, TextRules, "a TextRules, e.g. TextRules.words(shingle=3)")
        checked = {name: None if value is None else check_flag(name, value) for name, value in flags.items()}
        return cls(scheme, text, **checked, window=None if window is None else Window.from_argument(window))

    def require(self, name: str, settings: dict[str, Any], scheme: Scheme, rules: TextRules) -> None:
        """Raise MismatchError if the file has other settings. name: the index. scheme, rules: those of the settings."""
        problems: list[str] = []
        permanent: list[str] = []  # problems that a rebuild cannot solve
        if self.scheme is not None:
            problems += self.scheme.mismatches(scheme)
        if self.rules is not None:
            problems += self.rules.mismatches(rules)
        for flag, given in (("store_text", self.store_text), ("record_matches", self.record_matches)):
            if given is not None and bool(given) != bool(settings[flag]):
                problems.append(f"{flag}={given}, the file has {bool(settings[flag])}")
        window = Window.from_settings(settings)
        if self.window is not None and self.window != window:
            permanent.append(f"window={self.window}, the file has {window}, and set_window(), not rebuild(), changes that")
        if self.checksums is not None and self.checksums != bool(settings.get("checksums")):
            permanent.append(
                f"checksums={self.checksums}, the file has {not self.checksums}, and that only a new file can change: "
                "add the records to a new index"
            )
        if problems or permanent:
            raise MismatchError(
                f"index {name!r} was made with other parameters: {'; '.join([*problems, *permanent])}. "
                f"Leave them out to use the file's{', or change the file with rebuild()' if problems else ''}"
            )


def open_store(
    target: Target,
    choices: Choices,
    *,
    name: str,
    durability: Durability = "full",
    read_only: bool,
    attach: bool = False,
    timeout: float,
) -> Store:
    """Open an index. A failure closes everything opened before."""
    check_index_name(name)
    check_choice("durability", durability, get_args(Durability))
    check_timeout(timeout)
    read_only, attach = check_flag("read_only", read_only), check_flag("attach", attach)
    is_given = isinstance(target, apsw.Connection) or module_of(target) is not None
    if choices.checksums and (is_given or target == MEMORY):
        raise ParameterError("checksums=True is for a file that is opened by its path: give one, or leave checksums out")
    path = "" if is_given else check_target(target)
    try:
        if is_given:
            return _open_target(target, choices, name, OpenMode(read_only, durability, timeout))
        with libraries.Opening(path) as opening:
            return _open_file(path, choices, name, OpenMode(read_only, durability, timeout), opening, attach=attach)
    except NearDupError:  # some are OSErrors, too
        raise
    except apsw.CantOpenError as error:
        raise ParameterError(f"{path!r} cannot be opened ({error}): check the path and its permissions") from error
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise system_error(error, path, "opened or created") from error


def open_other_reader(path: str, index: Store) -> Store:
    """Open the index of the same name in another file, with the text rules of `index`.

    A writable file is opened for writing: the last connection to close deletes -wal and -shm, as a read-only one cannot.
    """
    writable = os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)
    rules = index.rules if index.rules.custom else None
    try:
        return open_store(path, Choices(rules=rules), name=index.name, read_only=not writable, timeout=index.db.timeout)
    except FormatError as error:
        message = str(error).replace(_NO_SCHEME, "Open the one that you mean with Index(path, name=...)")
        raise FormatError(f"{path!r}: {message}") from error


class OpenMode(NamedTuple):
    read_only: bool
    durability: str
    timeout: float


def _open_target(target: Any, choices: Choices, name: str, mode: OpenMode) -> Store:
    owned = isinstance(target, Scratch)
    connection: Any = target if isinstance(target, apsw.Connection) else standard_connection(target, mode.timeout)
    db = Database(connection, owned=owned, read_only=mode.read_only, timeout=mode.timeout)
    try:
        libraries.register(db)
        return _open_database(db, choices, name, attach=True)
    except BaseException:
        db.abandon()
        raise


def _open_file(path: str, choices: Choices, name: str, mode: OpenMode, opening: libraries.Opening, *, attach: bool) -> Store:
    in_memory = path == MEMORY
    empty = not in_memory and is_empty(path)
    if in_memory or empty:
        if choices.scheme is None or mode.read_only:
            remedy = "give a scheme, e.g. MinHash(threshold=0.8), to create it"
            reason = remedy if choices.scheme is None else "read_only=True cannot create it"
            raise ParameterError(f"{path!r} holds no index yet: {reason}")
        _settings_of_new(choices)
    if empty and not os.path.exists(path):
        _create_file(path, choices, name, mode)
        empty = is_empty(path)  # another process may have created it
    opening.register()
    file = None if in_memory else os.stat(path)
    db = _database(path, mode, sums=empty and bool(choices.checksums))
    try:
        if empty:
            _enable_wal(db)
            if checksums.file_has_checksums(path) != checksums.has_checksums(db.connection):
                # another process has created it with the other choice
                db.connection.close()
                db.connection = open_file(path, **mode._asdict())
                db.undo.watch(db.connection)
        libraries.register(db)
        store = _open_database(db, choices, name, attach=attach)
        if file is not None:
            _enable_readers(db, file)
    except BaseException:
        db.abandon()
        raise
    return store


def _database(path: str, mode: OpenMode, *, sums: bool) -> Database:
    connection = open_file(path, **mode._asdict(), sums=sums)
    try:
        return Database(connection, owned=True, read_only=mode.read_only, timeout=mode.timeout)
    except BaseException:
        connection.close()
        raise


def _create_file(path: str, choices: Choices, name: str, mode: OpenMode) -> None:
    with contextlib.suppress(FileExistsError), new_file(path, MODE) as path_in_progress:
        db = _database(path_in_progress, mode, sums=bool(choices.checksums))
        db.name = path
        try:
            _enable_wal(db)
            _open_database(db, choices, name, attach=False)
            db.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)  # closing would ignore its errors
        finally:
            db.abandon()


def _enable_readers(db: Database, file: os.stat_result) -> None:
    """Set the function that opens further read connections. It raises FormatError if the path now belongs to another file."""
    path, vfs = db.connection.filename, db.connection.open_vfs  # they cannot be read while another thread uses the connection

    def require_file() -> None:
        now = os.stat(path)
        if (now.st_dev, now.st_ino) != (file.st_dev, file.st_ino):
            raise FormatError(f"{path!r} is another file than the one that was opened")

    def reader() -> apsw.Connection:
        require_file()
        connection = open_reader(path, vfs, read_only=db.read_only, timeout=db.timeout)
        try:
            if not db.read_only and connection.pragma("journal_mode") != "wal":
                raise FormatError(f"{path!r} has no write-ahead log: its readers would hold its writers up")
            load(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    require_file()
    db.open_reader = reader
    if not db.read_only:
        db.connection.set_wal_hook(Log(db.timeout).committed)


def _settings_of_new(choices: Choices) -> tuple[Scheme, TextRules]:
    """The scheme and rules of a new index. Raises ParameterError if they do not fit together or cannot be stored."""
    assert choices.scheme is not None
    rules = choices.rules if choices.rules is not None else TextRules()
    rules.settings()
    return choices.scheme.for_index(rules), rules


def _open_database(db: Database, choices: Choices, name: str, *, attach: bool) -> Store:
    load(db.caller_connection)
    store = Store(db, name, [] if choices.rules is None else [choices.rules])
    with db.reading():
        exists = schema.stored_name(db, name) is not None
        if not exists:
            _require_creatable(db, name, choices, attach)
    if not exists:
        _create(store, choices)
    with db.reading():
        store.name = schema.stored_name(db, name) or name
        if db.owned:
            definitions.require_data(db, store.name)
        try:
            store.load()
        except apsw.SQLError as error:
            raise schema.naming_error(db, store.name, error) from error
        choices.require(store.name, store.settings, store.scheme, store.rules)
        _require_checks(store)
        definitions.require_tables(db, store.name, store.definitions)
    return store


def _require_checks(store: Store) -> None:
    if not store.settings.get("checksums") or checksums.has_checksums(store.db.connection):
        return
    if not store.db.owned:
        raise ParameterError(f"index {store.name!r} is in a file with page checksums: open it by its path, not by a connection")
    raise CorruptIndexError("the header of the file, page 1, is damaged: it denies the checksums of its pages; restore a backup")


def _enable_wal(db: Database) -> None:
    """Enable the write-ahead log. Retries, because SQLite does not wait for another process that does the same."""
    deadline = time.monotonic() + db.timeout
    while True:
        try:
            db.connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.005)


_NO_SCHEME = "Give name=, or a scheme to create one"  # the remedy if the index does not exist


def _require_creatable(db: Database, name: str, choices: Choices, attach: bool) -> None:
    names = schema.index_names(db.rows)
    contents = f" It holds: {', '.join(names)}." if names else ""
    foreign = db.owned and not schema.is_empty(db) and db.value("PRAGMA application_id") != APPLICATION_ID
    if foreign and not attach and not names:
        raise FormatError(
            "the file is another program's database: give another path, or attach=True to put an index into it beside its tables"
        )
    if choices.scheme is None:
        raise FormatError(f"the database holds no index named {name!r}.{contents} {_NO_SCHEME}")
    if foreign and not attach:
        raise FormatError(f"the database holds no index named {name!r}.{contents} Give attach=True to create one in it")
    if db.read_only:
        raise ParameterError(f"the database holds no index named {name!r}, and read_only=True cannot create it.{contents}")


def _create(store: Store, choices: Choices) -> None:
    db = store.db
    scheme, rules = _settings_of_new(choices)
    keep_text = bool(choices.store_text)
    has_sums = checksums.has_checksums(db.connection)
    if choices.checksums is not None and choices.checksums != has_sums:
        raise ParameterError(
            f"checksums={choices.checksums}: the database exists {'with' if has_sums else 'without'} page checksums, and they "
            "are decided when a file is created: leave checksums out, or give the path of a new file"
        )
    with db.writing():
        if schema.stored_name(db, store.name) is not None:
            return
        if db.owned and schema.is_empty(db):
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
        record = True if choices.record_matches is None else choices.record_matches
        try:
            store.create(scheme, rules, keep_text, record, now_ms(), choices.window)
        except apsw.SQLError as error:
            raise schema.naming_error(db, store.name, error) from error
