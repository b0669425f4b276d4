"""The cached settings of an open index, and SQL texts with its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import apsw

from ... import limits
from ...arrays import np
from ...errors import MismatchError, NearDupError, ParameterError
from ...native import lib
from ...parameters import quoted
from ...schemes import scheme_from_settings
from ...schemes.base import Scheme
from ...text import TextRules
from ..database import checksums
from ..database.connection import Database, Statements
from ..database.errors import translate
from ..database.statements import Statement
from . import definitions, schema
from .candidates import CandidateTable, candidate_table
from .following import Following, read_following
from .sketcher import Sketcher
from .sketches import Allowed, StoredValue, is_comparable
from .window import Window

Answer = TypeVar("Answer")

_CANDIDATES = re.compile(r"neardup_candidates\([^)]*\)")  # the call that returns a group's candidates, in the texts of sql/
_OUTLINED = count(1)  # numbers for `Store.outlined`

_STORED = {"{value}": "f.value", "{value_hash}": "f.value_hash", "{aside}": ""}
_STORED_ASIDE = {
    "{value}": "ifnull(f.value, z.value)",
    "{value_hash}": "ifnull(f.value_hash, z.value_hash)",
    "{aside}": "LEFT JOIN {index}_allowed_document AS z ON z.document_id = d.id",
}
"""SQL expressions for the value of a document d with fingerprint f. {aside} joins the values of exempt documents."""


class CompiledStatement(NamedTuple):
    """An SQL text, and a function that orders its parameters: positional binding takes a third of the time of named binding."""

    sql: str
    values: Callable[[dict[str, Any]], tuple[Any, ...]]
    statement: Statement | None  # the prepared statement, if the connection can prepare it


class Store(Statements):
    """An index on one database connection. Methods that read or write run inside `reading` or `writing`.

    `load` sets everything cached from the file. The file stores a random generation number, which `new_generation` replaces.
    Settings are read again (`refresh`) if it differs: at the start of each transaction, after a query without one
    (`without_transaction`), and before a light change whose transaction has not compared it yet (`change`). So data of a
    rolled back transaction is never used again.
    """

    scheme: Scheme
    table: CandidateTable
    rules: TextRules
    sketcher: Sketcher  # scheme, rules and epoch, replaced together: other threads compute sketches at any time
    settings: dict[str, Any]
    store_text: bool
    record_matches: bool
    window: Window
    has_large_clusters: bool  # True if some large clusters have separate rows in the candidate table
    optional: tuple[str, ...]  # the tables of `schema.OPTIONAL` that the index has
    dismisses: bool
    notes_changes: bool
    keeps_ends: bool
    has_parts: bool
    allows: bool  # True if these include tables of dismissed pairs, changes, own expiries, codes of documents, allowed texts
    generation: int  # the file's generation when the settings were read; -1 forces a reload
    outlined: int  # the fingerprint set of the cached prefilters (csrc/sqlite/bucket_prefilter.c); None: without a cache
    following: Following | None  # the followed table of the application, or None
    settled: int  # fingerprints up to this id are committed or deleted, so their prefilter data may be cached
    epoch: int  # the version of scheme, rules and fingerprint set, never reused. Identifies sketches and paged listings

    verification: str  # the sql/verify_*.sql for queries by the scheme's rule
    default_parameters: dict[str, Any] | None  # the parameters of queries with default bounds; None until computed

    def __init__(self, db: Database, name: str, given_rules: list[TextRules]) -> None:
        self.db = db
        self.name = name
        self.given_rules = given_rules
        """Text rules given at opening and by rebuilds, the latest first, because the file has no functions. Other connections
        share the list; they may see the file before a rebuild, or after its rollback."""
        self.generation = -1
        self._schema_version: int = -1
        self._schema_checked_at = -1
        self._reset_prefilters()
        self._compared_at = -1  # the data version at which the file's generation was last equal to `generation`; -1 if unknown
        self.has_parts = self.allows = False
        self._statements: dict[str, str] = {}
        self._composed: dict[tuple[str, ...], CompiledStatement] = {}
        self._current_settings: tuple[object | None, int] = None, 0
        """The transaction in which the generation was compared, and the connection's change count at that time."""
        self._loaded_in: object | None = None  # the transaction in which the settings were read: it may be rolled back to others

    @property
    def definitions(self) -> definitions.Definitions:
        return definitions.expected(self.name, "index", self.scheme.table, *self.optional)

    # ---- settings ----------------------------------------------------------------------------------------------------

    def create(
        self, scheme: Scheme, rules: TextRules, store_text: bool, record_matches: bool, now: int, window: Window | None = None
    ) -> None:
        schema.create_tables(self.db, self.name, "index", scheme.table)
        settings = {
            "schema_version": schema.SCHEMA_VERSION,
            "algorithm_version": lib.ND_ALGORITHM_VERSION,
            "generation": schema.random_number(),
            "fingerprints": schema.random_number(),
            "created_at": now,
            "next_cluster": -1,
            "crowds": 0,
            "store_text": int(store_text),
            "record_matches": int(record_matches),
            **scheme.settings(),
            **rules.settings(),
        }
        if checksums.has_checksums(self.db.connection):
            settings["checksums"] = 1
        schema.write_settings(self.db, self.name, settings)
        self.optional = ()
        self.set_window(window or Window())

    def set_window(self, window: Window) -> None:
        """Write the settings of a window, and create the table that a time window needs."""
        if window.duration_ms is not None and "own_end" not in self.optional:
            schema.create_tables(self.db, self.name, "own_end")
        for name, value in window.settings().items():
            if value is None:
                self.execute("DELETE FROM {index}_setting WHERE name = ?", (name,))
            else:
                self.set(**{name: value})

    def load(self) -> None:
        """Read the settings. Sets all data cached for a generation."""
        settings = schema.read_settings(self.db, self.name)
        scheme, rules = scheme_from_settings(settings), self._rules(settings)
        self.generation = -1  # an interrupt causes a reload
        self.store_text = bool(settings["store_text"])
        self.record_matches = bool(settings["record_matches"])
        self.window = Window.from_settings(settings)
        scheme = scheme.for_index(rules)
        self.table = candidate_table(self.db, self.name, scheme.table)
        self.has_large_clusters = self.table.separates_large_clusters and bool(settings["crowds"])
        self.optional = definitions.optional_tables(self.db, self.name)
        self.dismisses = "dismissed" in self.optional
        self.notes_changes = "change" in self.optional
        self.keeps_ends = "own_end" in self.optional
        kinds = "part" in self.optional, "allowed" in self.optional
        if (self.has_parts, self.allows) != kinds:
            self.has_parts, self.allows = kinds
            self._composed.clear()
            self._statements.clear()
        identity = {**scheme.settings(), **rules.settings(), "store_text": self.store_text}
        epoch = hash((settings.get("fingerprints"), settings.get("allowed"), *identity.items()))
        self.sketcher = Sketcher(epoch, scheme, rules, self._allowed(scheme) if self.allows else None)
        self.epoch, self.scheme, self.rules = epoch, scheme, rules
        self.settings = settings
        self.following = read_following(self.name, settings)
        self.verification = scheme.verification()
        self.default_parameters = None
        self.generation = settings["generation"]
        self._compared_at = -1
        self._loaded_in = self.db.transaction
        self._reset_prefilters()
        self._read_schema_version()

    def _rules(self, settings: dict[str, Any]) -> TextRules:
        """The text rules of the file. Raises MismatchError if no given rules have the functions that it names."""
        latest, *earlier = (*self.given_rules, None)
        try:
            return TextRules.from_settings(settings, latest)
        except MismatchError:
            for given in earlier:
                with suppress(MismatchError):
                    return TextRules.from_settings(settings, given)
            raise

    def _allowed(self, scheme: Scheme) -> Allowed | None:
        """The allowed texts, without damaged ones."""
        rows = self.rows("SELECT value FROM {index}_allowed ORDER BY id")
        values = [value for (value,) in rows if is_comparable(scheme, value)]
        return Allowed(scheme, values) if values else None

    def require_own_documents(self) -> None:
        """Raise ParameterError if the index follows a table. Runs inside `writing`."""
        if self.following is not None:
            raise ParameterError(
                f"index {self.name!r} follows the table {self.following.table!r}, and its documents are the rows of that: write "
                "to the table and call sync(), or call unfollow() first"
            )

    def set(self, **settings: Any) -> None:
        schema.write_settings(self.db, self.name, settings)

    def add_table(self, part: str) -> None:
        schema.create_tables(self.db, self.name, part)
        self.new_generation()

    def setting(self, name: str) -> Any:
        return self.value("SELECT value FROM {index}_setting WHERE name = ?", (name,))

    def new_generation(self, *, fingerprints: bool = False) -> None:
        """Make every open index of this file reload its settings. fingerprints: values or ids change, so listings end."""
        self.set(generation=schema.random_number(), **({"fingerprints": schema.random_number()} if fingerprints else {}))
        self.load()

    def refresh(self) -> None:
        """Reload the settings if another connection changed them."""
        try:
            is_changed = self.setting("generation") != self.generation
        except apsw.SQLError as error:
            raise schema.naming_error(self.db, self.name, error) from error
        if is_changed:
            self.load()
        else:
            self._detect_restore()

    def _detect_restore(self) -> bool:
        """Detect a file restored through the backup API: the schema version differs, and ids may belong to other fingerprints.
        The caller has an open read transaction."""
        if self.db.connection.data_version() == self._schema_checked_at:
            return False
        previous = self._schema_version
        self._read_schema_version()
        if previous != self._schema_version:
            self._reset_prefilters()
        return previous != self._schema_version

    def _read_schema_version(self) -> None:
        self._schema_checked_at = self.db.connection.data_version()
        self._schema_version = self.db.value("PRAGMA schema_version")

    def _reset_prefilters(self) -> None:
        self.outlined, self.settled, self._begun = next(_OUTLINED), 0, count()

    # ---- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        self.db.require_open()
        with self.db.reading():
            self.refresh()
            yield

    @contextmanager
    def writing(self, *, light: bool = False, is_block: bool = False) -> Iterator[None]:
        """A write transaction with current settings; light, is_block: see `Database.writing`."""
        self.db.require_open()
        with self.db.writing(light=light, is_block=is_block) as began:
            self.refresh()
            if began and next(self._begun) % limits.SETTLED_EVERY == 0:
                last = self.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"{self.name}_fingerprint",))
                self.settled = last or 0
            yield
            self.db.require_open()  # not in a forked child: the connection may be in use in the parent
            transaction = self.db.current_transaction()
            compared_in = None if transaction is self._loaded_in else transaction
            self._current_settings = compared_in, self.db.connection.total_changes()

    def change(self, work: Callable[[], Answer], *, light: bool) -> Answer:
        """The result of `work`, run as inside `writing`; light: see `Database.writing`.

        Only this connection can write during its own transaction, so settings compared by an earlier change remain current,
        unless SQL of the application has changed rows since. If the transaction reloaded settings, a savepoint of the
        application can return to older ones, so each change compares them.
        """
        if light:
            transaction = self.db.current_transaction()
            if transaction is not None and self._current_settings == (transaction, self.db.connection.total_changes()):
                answer = self.db.change(work)
                self._current_settings = transaction, self.db.connection.total_changes()
                return answer
        with self.writing(light=light):
            return work()

    def without_transaction(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        """The result of `ask(*arguments)` on one state, with that state's settings. The caller holds the lock.

        A single statement, or several while one is open, sees one state without a transaction. Afterwards the settings are
        verified. If they changed, or `ask` fails, it runs again inside `reading`.
        """
        if self.db.is_idle():
            try:
                result = ask(*arguments)
                if self._settings_hold():
                    return result
            except (apsw.SQLError, NearDupError):
                pass  # possibly because of outdated settings; otherwise it fails again
            except apsw.Error as error:  # busy or interrupted: a retry does not help
                raise translate(error, self.db.name) from error
        with self.reading():
            return ask(*arguments)

    def _settings_hold(self) -> bool:
        """True if the settings belong to the state read last: nothing was written since they were compared, or they are equal."""
        if self.db.connection.data_version() == self._compared_at:
            return True
        if self.setting("generation") != self.generation or self._detect_restore():
            return False
        self._compared_at = self.db.connection.data_version()
        return True

    # ---- SQL ---------------------------------------------------------------------------------------------------------

    # Statements are templates that `sql` expands.

    def execute(self, template: str, bindings: Any = None) -> apsw.Cursor:
        return self.db.execute(self._statements.get(template) or self.sql(template), bindings)

    def execute_many(self, template: str, bindings: Iterable[Any]) -> list[tuple[Any, ...]]:
        return self.db.execute_many(self.sql(template), bindings)

    def rows_of_numbers(self, template: str, numbers: Iterable[int], *more: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement whose first parameter is a table of these numbers, sorted; none without numbers."""
        ordered = np.sort(np.fromiter(numbers, np.int64))
        distinct = ordered[np.diff(ordered, prepend=~ordered[:1]) != 0]  # np.unique takes longer and imports numpy.ma
        return self.rows(template, (self.db.carried(distinct), *more)) if len(distinct) else []

    def pages(self, template: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """All rows in pages. The statement's parameters are the id of the last row read and `size`."""
        last_id = 0
        while page := self.page(template, last_id, size):
            yield page
            last_id = page[-1][0]

    def sql(self, template: str) -> str:
        """A statement with the index's name and the fragments of sql/ that it names."""
        text = self._statements.get(template)
        if text is None:
            text = self._statements[template] = self._expand(template)
        return text

    def _expand(self, text: str) -> str:
        codes = schema.SEVERAL_CODES if self.has_parts else schema.ONE_CODE
        for name, meant in {**(_STORED_ASIDE if self.allows else _STORED), **codes}.items():
            text = text.replace(name, meant)
        text = schema.with_fragments(text).replace("{index}", self.name)
        return text.replace("{alone}", str(schema.ALONE)).replace("{carray}", self.db.carray)

    def frame(self, name: str) -> str:
        """A file of sql/, or its variant for indexes with parts."""
        return schema.sql_text(f"{name}_parts" if self.has_parts and name in schema.WITH_PARTS else name)

    def query(self, frame: str, verify: str, crowd: str = "", limit: str = "", source: str = "") -> CompiledStatement:
        """A query of sql/: a frame ('matches', 'neighbours', ...) around a plan's verification ('bands', ...).

        crowd: a further argument of neardup_candidates, such as ", 0" or ", :crowd", that selects one large cluster; "" reads
        all rows. limit: " LIMIT +:limit" or "": with a limit SQLite keeps only the best rows instead of sorting all. source: a
        subquery to use instead of neardup_candidates.
        """
        compiled = self._composed.get((frame, verify, crowd, limit, source))
        if compiled is None:
            verified = schema.sql_text(f"verify_{verify}").replace("{crowd}", crowd)
            verified = _CANDIDATES.sub(lambda _: source, verified) if source else verified
            text = self._expand(self.frame(frame).replace("{verified}", verified).replace("{limit}", limit))
            compiled = CompiledStatement(text, itemgetter(*schema.parameters(text)), self.db.prepared(text))
            self._composed[frame, verify, crowd, limit, source] = compiled
        return compiled

    def checked_value(self, value: StoredValue) -> StoredValue:
        """The same value, computed elsewhere. Raises ParameterError if it does not fit the scheme."""
        if value.value is not None and not self.scheme.is_value(value.value):
            raise ParameterError(
                f"{len(value.value)} bytes are no fingerprint of {self.scheme!r}: the file is damaged, make it anew"
            )
        count = value.token_count
        if count is not None and not (type(count) is int and 0 <= count < 1 << 62):
            raise ParameterError(f"token_count={quoted(count)}: give an integer, 0 or more, or null")
        return value
