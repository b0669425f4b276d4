"""All that an open index remembers of its file, each thing with its lifetime; and the SQL with the index's name in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import apsw

from ... import limits
from ...errors import MismatchError, NearDupError, ParameterError
from ...native import Values, lib
from ...parameters import quoted
from ...schemes import scheme_from_settings
from ...schemes.base import Scheme
from ...schemes.codes import CodeRows
from ...text import TextRules
from ..database import checksums
from ..database.connection import Database
from ..database.errors import damaged, translate
from ..database.statements import Statement
from . import definitions, schema
from .allowed import Allowed, is_compared
from .candidates import CandidateTable, candidate_table
from .following import Following, read_following
from .sketches import Sketch, Sketches, StoredValue, plain_sketch
from .window import Window

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Choices:
    """The caller's choices when opening, or the changes that a rebuild makes; None = left to the file. Only choices are compared
    with the file."""

    scheme: Scheme | None = None
    rules: TextRules | None = None
    store_text: bool | None = None
    record_matches: bool | None = None
    checksums: bool | None = None
    window: Window | None = None


@dataclass(slots=True)
class Shared:
    """The state that all connections of one open index share."""

    choices: tuple[Choices, ...]
    """The choices that bind, the latest first: a rebuild through this index changes them. Earlier ones are kept, since a
    connection may still see the file as it was before a rebuild, or after one that was taken back."""
    _epochs: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def epoch(self, settings: tuple[Any, ...]) -> int:
        """A number for settings: the same for the same ones, whichever connection has read them."""
        if len(self._epochs) >= _KEPT and settings not in self._epochs:
            self._epochs.clear()  # the numbers go on: what was made under an older one is made again
        return self._epochs.setdefault(settings, next(self._numbers))

    def now_binds(self, choices: Choices) -> Callable[[], None]:
        """These choices bind from now on. Returns the call that takes this back."""
        before = self.choices
        self.choices = (choices, *(earlier for earlier in before if earlier != choices))[:_KEPT]
        return partial(setattr, self, "choices", before)


_KEPT = 64
"""Rebuilds, here or elsewhere, that are remembered."""


class SketchRules(NamedTuple):
    """The scheme and the text rules by which sketches are made, the allowed texts (None: there are none), and their number."""

    epoch: int
    scheme: Scheme
    rules: TextRules
    allowed: Allowed | None = None


_CANDIDATES = re.compile(r"neardup_candidates\([^)]*\)")
"""The candidates of a group, in the texts of sql/."""

_OUTLINED = count(1)
"""Numbers for `Store.outlined`."""


_STORED = {"{value}": "f.value", "{value_hash}": "f.value_hash", "{aside}": ""}
_STORED_ASIDE = {
    "{value}": "ifnull(f.value, z.value)",
    "{value_hash}": "ifnull(f.value_hash, z.value_hash)",
    "{aside}": "LEFT JOIN {index}_allowed_document AS z ON z.document_id = d.id",
}
"""The value of a document d with the fingerprint f, in SQL, that of one that is set aside too; {aside} is joined for it."""


class CompiledStatement(NamedTuple):
    """A statement, and what takes its values from parameters by name: by place they are bound in a third of the time."""

    sql: str
    values: Callable[[dict[str, Any]], tuple[Any, ...]]
    statement: Statement | None
    """The same, prepared, where it can be."""


class Store:
    """The index inside its database, by one connection. Methods that read or write run inside `reading` or `writing`.

    All that is remembered of the file is here, so that nothing contradicts the file:

    - for ever: the name, and the SQL made with it;
    - for a generation: what `load` sets. The file has a number for it, which every rebuild, repair and migration draws anew.
      `refresh` compares it inside each transaction, so what was learned in one that was rolled back is never used again;
    """

    scheme: Scheme
    table: CandidateTable
    rules: TextRules
    sketch_rules: SketchRules
    """The two with their epoch, replaced together: other threads make sketches with them at any time."""
    settings: dict[str, Any]
    store_text: bool
    record_matches: bool
    window: Window
    has_large_clusters: bool
    """Whether the rows of some large clusters stand apart in the candidate table."""
    optional: tuple[str, ...]
    """Those of `schema.OPTIONAL` that the index has."""
    unlisted: list[str]
    """Those of which the setting is lost, so that they are not among these; see `tolerates_loss`."""
    dismisses: bool
    """Whether pairs of documents may be dismissed (see `asking/dismissed.py`)."""
    notes_changes: bool
    """Whether changes are noted (see `linking/changes.py`)."""
    has_parts: bool
    """Whether documents may have several codes (see `asking/parts.py`)."""
    allows: bool
    """Whether texts may be allowed, and documents set aside (see `linking/allowing.py`)."""
    generation: int
    """As in the file when the settings were read; -1 = read them again."""
    tolerates_loss = True
    """Whether tables of `schema.RENEWABLE`, and settings that name a table, may be missing: while the file is opened, and while
    it is repaired."""
    outlined: int | None
    """Number of the fingerprints whose outlines are remembered (csrc/sqlite/outlines.c): others of this process never have it.
    None = remember none."""
    following: Following | None
    """The table of the application whose rows are the documents; None where these are added by hand."""
    settled: int
    """Fingerprints up to this id are committed, or gone for ever: their outlines may be remembered."""
    epoch: int
    """Number of the scheme, the rules and the set of fingerprints, never the same for other ones: sketches are known by it, and
    listings that go on in pieces."""

    verification: str
    """Which sql/verify_*.sql answers queries by the scheme's rule."""
    usual: dict[str, Any] | None
    """The parameters that queries have unless they say others; None = not yet made."""

    def __init__(self, db: Database, name: str, shared: Shared) -> None:
        self.db = db
        self.name = name
        self.shared = shared
        self.generation = -1
        self._schema_version: int = -1
        self._looked_at = -1
        self._forget()
        self._compared_at = -1
        """State of the file in which its generation was last found to be `generation`; -1 = not known."""
        self._value_maker: tuple[SketchRules | None, Any] = None, None
        """What makes the value of a text by these rules; made with the first text that is asked for."""
        self.has_parts = self.allows = False
        self._statements: dict[str, str] = {}
        self._composed: dict[tuple[str, ...], CompiledStatement] = {}
        self._followed: tuple[object | None, int] = None, 0
        """The transaction in which the generation was compared, and how many rows the connection had changed by then."""
        self._loaded_in: object | None = None
        """The transaction in which the settings were read: it may go back to others."""

    # ---- settings ----------------------------------------------------------------------------------------------------

    def create(
        self, scheme: Scheme, rules: TextRules, store_text: bool, record_matches: bool, now: int, window: Window | None = None
    ) -> None:
        """All tables and settings of a new index. Inside `Database.writing`."""
        schema.create_tables(self.db, self.name, scheme.table)
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
        """Write the settings of a window, and make the table that one of a time needs."""
        if window.duration_ms is not None and "own_end" not in self.optional:
            schema.create_optional(self.db, self.name, "own_end")
        for name, value in window.settings().items():
            if value is None:
                self.db.execute(self.sql("DELETE FROM {index}_setting WHERE name = ?"), (name,))
            else:
                self.set(**{name: value})

    def load(self) -> None:
        """Read the settings and compare them with the caller's choices. Sets all that is remembered for a generation."""
        settings = schema.read_settings(self.db, self.name)
        scheme, rules = self._bound(settings)
        self.generation = -1  # where this is interrupted, all is read again
        self.store_text = bool(settings["store_text"])
        self.record_matches = bool(settings["record_matches"])
        self.window = Window.from_settings(settings)
        scheme = scheme.for_index(rules)
        self.table = candidate_table(self.db, self.name, scheme.table)
        self.has_large_clusters = self.table.separates_large_clusters and bool(settings["crowds"])
        self.optional = schema.optional_tables(settings)
        lost = definitions.missing(self.db, self.name, self.optional)
        self.unlisted = definitions.unlisted(self.db, self.name, settings)
        if self.unlisted and not self.tolerates_loss:
            raise damaged(f"the setting table.{self.unlisted[0]}", self.name, "its table is there")
        if lost and not self.tolerates_loss:
            raise damaged(f"the table {self.name}_{lost[0]}", self.name, "it was dropped")
        self.dismisses = "dismissed" in self.optional
        self.notes_changes = "change" in self.optional
        self.keeps_ends = "own_end" in self.optional
        kinds = "part" in self.optional, "allowed" in self.optional
        if (self.has_parts, self.allows) != kinds:
            self.has_parts, self.allows = kinds
            self._composed.clear()
            self._statements.clear()
        parameters = {**scheme.settings(), **rules.settings(), "store_text": self.store_text}
        epoch = self.shared.epoch((settings.get("fingerprints"), settings.get("allowed"), *parameters.items()))
        self.sketch_rules = SketchRules(epoch, scheme, rules, self._allowed(scheme) if self.allows else None)
        self.epoch, self.scheme, self.rules, _ = self.sketch_rules
        self.settings = settings
        self.following = read_following(self.name, settings)
        self.verification = scheme.verification()
        self.usual = None
        self.generation = -1 if lost or self.unlisted else settings["generation"]
        self._compared_at = -1
        self._loaded_in = self.db.transaction
        self._forget()
        if self.db.is_trusted:
            self._look_at_schema()

    def _allowed(self, scheme: Scheme) -> Allowed | None:
        """What new texts are compared with; CorruptIndexError where it is damaged."""
        values = [value for (value,) in self.db.rows(f"SELECT value FROM {self.name}_allowed ORDER BY id")]
        sound = all(is_compared(scheme, value) for value in values)
        if not sound and not self.tolerates_loss:
            raise damaged("the allowed texts", self.name, "one has no fingerprint of the scheme")
        return Allowed(scheme, values) if values and sound else None

    def _bound(self, settings: dict[str, Any]) -> tuple[Scheme, TextRules]:
        """Scheme and rules of the file, by the latest choices that agree with them. MismatchError where none do."""
        latest, *earlier = self.shared.choices
        try:
            return self._agreed(settings, latest)
        except MismatchError:
            for choices in earlier:
                with suppress(MismatchError):
                    return self._agreed(settings, choices)
            raise

    def _agreed(self, settings: dict[str, Any], choices: Choices) -> tuple[Scheme, TextRules]:
        """Scheme and rules of the file. MismatchError where the caller gave others."""
        scheme = scheme_from_settings(settings)
        rules = TextRules.from_settings(settings, choices.rules)
        problems: list[str] = []
        lasting: list[str] = []
        """Of what a rebuild does not change."""
        if choices.scheme is not None:
            problems += choices.scheme.mismatches(scheme)
        if choices.rules is not None:
            problems += choices.rules.mismatches(rules)
        for name in ("store_text", "record_matches"):
            said = getattr(choices, name)
            if said is not None and bool(said) != bool(settings[name]):
                problems.append(f"{name}={said}, the file has {bool(settings[name])}")
        window = Window.from_settings(settings)
        if choices.window is not None and choices.window != window:
            lasting.append(f"window={choices.window}, the file has {window}, and set_window(), not rebuild(), changes that")
        if choices.checksums is not None and choices.checksums != bool(settings.get("checksums")):
            lasting.append(
                f"checksums={choices.checksums}, the file has {not choices.checksums}, and that only a new file can change: "
                "add the records to a new index"
            )
        if problems or lasting:
            raise MismatchError(
                f"index {self.name!r} was made with other parameters: {'; '.join([*problems, *lasting])}. "
                f"Leave them out to use the file's{', or change the file with rebuild()' if problems else ''}"
            )
        return scheme, rules

    def adopt(self, changes: Choices, *, fingerprints: bool) -> None:
        """Go on with the settings that a rebuild has just written. Changed settings bind no more as they were given when opening;
        text rules bind as they are now, for their functions are not in the file. fingerprints: as of `new_generation`."""
        changed = {field.name: getattr(changes, field.name) for field in fields(changes)}
        binds = {name: value if name == "rules" else None for name, value in changed.items() if value is not None}
        self.db.undo.append(self.shared.now_binds(replace(self.shared.choices[0], **binds)))
        self.new_generation(fingerprints=fingerprints)

    def require_own_documents(self) -> None:
        """ParameterError where the documents are the rows of a table of the application. Inside `writing`."""
        if self.following is not None:
            raise ParameterError(
                f"index {self.name!r} follows the table {self.following.table!r}, and its documents are the rows of that: write "
                "to the table and call sync(), or call unfollow() first"
            )

    def is_opened(self) -> None:
        """The caller's choices were compared with the file. From now on any object may change its window."""
        self.tolerates_loss = False
        self.shared.choices = tuple(replace(choices, window=None) for choices in self.shared.choices)

    @contextmanager
    def losses_tolerated(self) -> Iterator[None]:
        """Inside, tables of `schema.RENEWABLE` may be missing. The caller holds the lock."""
        self.tolerates_loss = True
        try:
            yield
        finally:
            self.tolerates_loss = False

    def set(self, **settings: Any) -> None:
        schema.write_settings(self.db, self.name, settings)

    def add_table(self, part: str) -> None:
        """Make one of `schema.OPTIONAL`, which the index has from now on."""
        schema.create_optional(self.db, self.name, part)
        self.new_generation()

    def drop_table(self, part: str) -> None:
        """Remove one of `schema.OPTIONAL`."""
        schema.drop_optional(self.db, self.name, part)
        self.new_generation()

    def setting(self, name: str) -> Any:
        return self.db.value(self.sql("SELECT value FROM {index}_setting WHERE name = ?"), (name,))

    def new_generation(self, *, fingerprints: bool = False) -> None:
        """Make every open index of this file read its settings again, this one now. fingerprints: they have other values or ids
        from now on, so that a listing cannot go on."""
        self.set(generation=schema.random_number(), **({"fingerprints": schema.random_number()} if fingerprints else {}))
        self.load()

    def refresh(self) -> None:
        """Follow a rebuild, repair or migration by another connection."""
        try:
            is_other = self.setting("generation") != self.generation
        except apsw.SQLError as error:
            raise schema.of_names(self.db, self.name, error) from error
        if is_other:
            self.load()
        else:
            self._follow_restoring()

    def _follow_restoring(self) -> bool:
        """Whether another connection has put another state of the file in its place, by the backup API: then the schema has
        another version, and an id may be another fingerprint's. The caller has begun to read."""
        if not self.db.is_trusted or self.db.connection.data_version() == self._looked_at:
            return False
        before = self._schema_version
        self._look_at_schema()
        if before != self._schema_version:
            self._forget()
        return before != self._schema_version

    def _look_at_schema(self) -> None:
        self._looked_at = self.db.connection.data_version()
        self._schema_version = self.db.value("PRAGMA schema_version")

    def _forget(self) -> None:
        """Remember no outlines of the fingerprints that there were."""
        self.outlined, self.settled, self._begun = next(_OUTLINED) if self.db.is_trusted else None, 0, count()

    # ---- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A consistent state, with settings that belong to it."""
        self.db.require_open()
        with self.db.reading():
            self.refresh()
            yield

    @contextmanager
    def writing(self, *, light: bool = False, is_block: bool = False) -> Iterator[None]:
        """A transaction, with settings that belong to it; light, is_block: see `Database.writing`."""
        self.db.require_open()
        with self.db.lock():  # until what was agreed inside a transaction that failed binds no more
            choices = self.shared.choices
            try:
                with self.db.writing(light=light, is_block=is_block) as began:
                    self.refresh()
                    if began:
                        self._note_committed()
                    yield
                    self.db.require_open()  # not in a child that was forked inside: the connection may be in the middle of a call
                    self._follow()
            except BaseException:
                self.shared.choices = choices
                raise

    def change(self, work: Callable[[], Answer], *, light: bool) -> Answer:
        """What `work` returns, done as in `writing`; light: see `Database.writing`.

        Inside a transaction that was begun here nobody else can write. The settings that a change before this one has compared
        hold, unless other hands changed rows since, such as the caller's SQL. A transaction in which the settings were read can
        go back to other ones, by a savepoint of the caller's: there each change compares them."""
        if light:
            inside = self.db.current_transaction()
            if inside is not None and self._followed == (inside, self.db.connection.total_changes()):
                done = self.db.change(work)
                self._followed = inside, self.db.connection.total_changes()
                return done
        with self.writing(light=light):
            return work()

    def _follow(self) -> None:
        """Note that the settings hold, at the end of a change."""
        inside = self.db.current_transaction()
        self._followed = None if inside is self._loaded_in else inside, self.db.connection.total_changes()

    def _note_committed(self) -> None:
        """Now and then, at the beginning of a transaction, see which fingerprints are committed; those stay so."""
        if next(self._begun) % limits.SETTLED_EVERY == 0:
            self.settled = self.db.value("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"{self.name}_fingerprint",)) or 0

    def without_transaction(self, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        """The answer of `ask(*arguments)`, which sees one state, under the settings of that state. The caller holds the lock.

        One statement, or what is asked while one is `held`, sees one state without a transaction around it, and whether the
        settings belong to it is known afterwards: nothing was written since they were compared, or they are compared now (a
        generation never comes back). Otherwise, or where `ask` fails, it is asked again as in `reading`."""
        if self.db.is_at_rest():
            try:
                answer = ask(*arguments)
                if self._settings_hold():
                    return answer
            except (apsw.SQLError, NearDupError):
                pass  # perhaps because of other settings: if not, it will fail again
            except apsw.Error as error:  # the database is busy, or the query was interrupted: no reason to ask again
                raise translate(error, self.db.name) from error
        with self.reading():
            return ask(*arguments)

    def _settings_hold(self) -> bool:
        """Whether the settings belong to the state that the last statement saw."""
        if self.db.connection.data_version() == self._compared_at:
            return True
        if self.setting("generation") != self.generation or self._follow_restoring():
            return False
        self._compared_at = self.db.connection.data_version()
        return True

    # ---- SQL ---------------------------------------------------------------------------------------------------------

    def sql(self, template: str) -> str:
        """A statement with the index's name in it, and with the fragments of sql/ that it names."""
        text = self._statements.get(template)
        if text is None:
            text = self._statements[template] = self._filled(template)
        return text

    def _filled(self, text: str) -> str:
        codes = schema.SEVERAL_CODES if self.has_parts else schema.ONE_CODE
        for name, meant in {**(_STORED_ASIDE if self.allows else _STORED), **codes}.items():
            text = text.replace(name, meant)
        text = schema.with_fragments(text).replace("{index}", self.name)
        return text.replace("{alone}", str(schema.ALONE)).replace("{carray}", self.db.carray)

    def frame(self, name: str) -> str:
        """A file of sql/, that for an index with parts where this is one."""
        return schema.sql_text(schema.WITH_PARTS.get(name, name) if self.has_parts else name)

    def query(self, frame: str, verify: str, crowd: str = "", limit: str = "", source: str = "") -> CompiledStatement:
        """A query of sql/: a frame ('matches', 'neighbours', ...) around the verification of a plan ('bands', ...).

        crowd: one more argument of neardup_candidates, such as ", 0" or ", :crowd": the crowd that is looked at; none = all rows.
        limit: of matches, " LIMIT +:limit" where there is one: with it SQLite keeps the best in a table, without it sorts.
        source: the candidates, where they are not those of a group: a subquery in place of the call of neardup_candidates."""
        found = self._composed.get((frame, verify, crowd, limit, source))
        if found is None:
            verified = schema.sql_text(f"verify_{verify}").replace("{crowd}", crowd)
            verified = _CANDIDATES.sub(lambda _: source, verified) if source else verified
            text = self._filled(self.frame(frame).replace("{verified}", verified).replace("{limit}", limit))
            found = CompiledStatement(text, itemgetter(*schema.parameters(text)), self.db.prepared(text))
            self._composed[frame, verify, crowd, limit, source] = found
        return found

    # ---- sketches ----------------------------------------------------------------------------------------------------

    def sketch_texts(self, texts: Sequence[str | bytes], *, to_file: bool = False) -> Sketches:
        """Stored values of texts; `to_file`: with what storing many needs.
        No transaction needed: after a rebuild in another thread meanwhile the sketch is one of another epoch."""
        epoch, scheme, rules, allowed = self.sketch_rules
        made = scheme.values(texts, rules, to_file=to_file)
        sketches = Sketches(made.values, made.token_counts, epoch, made.hashes, made.keys)
        return sketches if allowed is None else allowed.judged_all(sketches)

    def sketch_text(self, text: str | bytes) -> Sketch:
        """A text that is asked for."""
        sketch_rules = self.sketch_rules
        epoch, scheme, rules, allowed = sketch_rules
        made_for, value_of = self._value_maker
        if made_for is not sketch_rules:
            value_of = scheme.value_maker(rules)
            self._value_maker = sketch_rules, value_of
        value, token_count = value_of(text)
        sketch = plain_sketch((value, token_count, epoch, None, None, None))
        return sketch if allowed is None else allowed.judged(sketch)

    def sketch_to_store(self, text: str | bytes) -> Sketch:
        """A text that is added alone, with the hash and the keys of its value."""
        epoch, scheme, rules, allowed = self.sketch_rules
        made = scheme.sketch(text, rules)
        sketch = Sketch(made.value, made.token_count, epoch, made.value_hash, made.keys)
        return sketch if allowed is None else allowed.judged(sketch)

    def sketch_code(self, code: Any) -> Sketch:
        """The stored value of a code that the application brings."""
        epoch, scheme, _, allowed = self.sketch_rules
        sketch = plain_sketch((scheme.code_value(code), None, epoch, None, None, None))
        return sketch if allowed is None else allowed.judged(sketch)

    def sketch_values(self, values: Sequence[StoredValue]) -> Sketches:
        """Stored values that were made elsewhere, and were checked, with what storing many needs."""
        epoch, scheme, _, allowed = self.sketch_rules
        joined = Values.joined([one.value for one in values])
        counts = [one.token_count for one in values]
        sketches = Sketches([one.value for one in values], counts, epoch, joined.hashes(), scheme.keys_of(joined))
        return sketches if allowed is None else allowed.judged_all(sketches)

    def checked_value(self, value: StoredValue) -> StoredValue:
        """A stored value that was made elsewhere; ParameterError where the scheme has no such one."""
        if value.value is not None and not self.scheme.is_value(value.value):
            raise ParameterError(
                f"{len(value.value)} bytes are no fingerprint of {self.scheme!r}: the file is damaged, make it anew"
            )
        count = value.token_count
        if count is not None and not (type(count) is int and 0 <= count < 1 << 62):
            raise ParameterError(f"token_count={quoted(count)}: give an integer, 0 or more, or null")
        return value

    def sketch_codes(self, rows: Sequence[Any], first: int, end: int) -> Sketches:
        """The stored values of the codes from one number to before another, of those that the scheme's `code_rows` gave."""
        codes = rows[first:end]
        if isinstance(rows, CodeRows):
            return self.sketch_code_values(codes)
        scheme = self.sketch_rules.scheme
        try:
            values = [scheme.code_value(code) for code in codes]
        except ParameterError:  # again, to say which one it is
            values = [scheme.code_value(code, f"codes[{place}]") for place, code in enumerate(codes, first)]
        return self.sketch_code_values(values)

    def sketch_code_values(self, values: Sequence[bytes]) -> Sketches:
        """Codes as stored values."""
        epoch, _, _, allowed = self.sketch_rules
        sketches = Sketches(values, None, epoch)
        return sketches if allowed is None else allowed.judged_all(sketches)
