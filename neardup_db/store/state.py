"""All that an open index remembers of its file, each thing with its lifetime; and the SQL with the index's name in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

import apsw

from ..errors import MismatchError, NearDupError
from ..native import lib
from ..schemes import scheme_from_settings
from ..schemes.base import Scheme
from ..text import TextRules
from . import checksums, schema
from .connection import Database, translate
from .seen import Segment

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller said when opening, or wants a rebuild to change; None = not said. Only this is compared with the file."""

    scheme: Scheme | None = None
    rules: TextRules | None = None
    store_text: bool | None = None
    record_matches: bool | None = None
    checksums: bool | None = None


@dataclass(slots=True)
class Common:
    """What the connections of one open index have in common."""

    given: tuple[Given, ...]
    """What binds, the latest first: after a rebuild here something else does than when the index was opened. A connection may
    still see a state of before, and that of a rebuild that was taken back."""
    _epochs: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def epoch(self, settings: tuple[Any, ...]) -> int:
        """A number for settings: the same for the same ones, whichever connection has read them."""
        if len(self._epochs) >= _KEPT and settings not in self._epochs:
            self._epochs.clear()  # the numbers go on: what was made under an older one is made again
        return self._epochs.setdefault(settings, next(self._numbers))

    def now_binds(self, given: Given) -> Callable[[], None]:
        """What was given binds from now on. Returns what takes this back."""
        before = self.given
        self.given = (given, *(one for one in before if one != given))[:_KEPT]
        return partial(setattr, self, "given", before)


_KEPT = 64
"""Rebuilds, here or elsewhere, of which something is remembered."""


class Basis(NamedTuple):
    """What sketches are made with, and its number."""

    epoch: int
    scheme: Scheme
    rules: TextRules


class Sketch(NamedTuple):
    """A text as the index sees it: stored value, evidence for exact verification, tokens. `value` None = an empty text."""

    value: bytes | None
    evidence: bytes | None
    token_count: int | None
    epoch: int


class Sketches(NamedTuple):
    """Sketches of several texts, or codes, as columns; `evidence` and `token_counts` None = None for each."""

    values: Sequence[bytes | None]
    evidence: Sequence[bytes | None] | None
    token_counts: Sequence[int | None] | None
    epoch: int
    hashes: Any = None
    keys: Any = None
    """As in `Values`."""

    def one(self, i: int) -> Sketch:
        """The sketch at place i."""
        evidence = None if self.evidence is None else self.evidence[i]
        return Sketch(self.values[i], evidence, None if self.token_counts is None else self.token_counts[i], self.epoch)

    def some(self, places: Sequence[int]) -> Sketches:
        """Those at some places."""
        evidence = None if self.evidence is None else [self.evidence[i] for i in places]
        counts = None if self.token_counts is None else [self.token_counts[i] for i in places]
        hashes = None if self.hashes is None else self.hashes[list(places)]
        keys = None if self.keys is None else self.keys[list(places)]
        return Sketches([self.values[i] for i in places], evidence, counts, self.epoch, hashes, keys)


class Store:
    """The index inside its database, by one connection. Methods that read or write run inside `reading` or `writing`.

    It is the one place for what is remembered of the file, so that nothing is that the file does not say:

    - for ever: the name, and the SQL made with it;
    - for a generation: what `load` sets. The file has a number for it, which every rebuild, repair and migration draws anew.
      `refresh` compares it inside each transaction, so what was learned in one that was rolled back is never used again;
    - for a transaction: `segment`, which begins with the first batch of `add_many` and ends before anything else is asked, with a
      rollback at the latest.
    """

    scheme: Scheme
    rules: TextRules
    basis: Basis
    """The two with their epoch, replaced together: other threads make sketches with them at any time."""
    settings: dict[str, Any]
    store_text: bool
    record_matches: bool
    crowds: bool
    """Whether the rows of some large clusters stand apart in the candidate table."""
    generation: int
    """As in the file when the settings were read; -1 = read them again."""
    epoch: int
    """Number of the scheme, the rules and the set of fingerprints, never the same for other ones: sketches are known by it, and
    listings that go on in pieces."""

    usual: dict[str, Any] | None
    """The parameters that queries have unless they say others; None = not yet made."""
    verification: str | None
    """Which sql/verify_*.sql answers from now on; None = not yet decided."""

    def __init__(self, db: Database, name: str, common: Common) -> None:
        self.segment = Segment()
        self.db = db
        self.name = name
        self.common = common
        self.generation = -1
        self._compared_at = -1
        """State of the file in which its generation was last found to be `generation`; -1 = not known."""
        self._statements: dict[str, str] = {}
        self._composed: dict[tuple[str, str, str], str] = {}

    # ---- settings ----------------------------------------------------------------------------------------------------

    def create(self, scheme: Scheme, rules: TextRules, store_text: bool, record_matches: bool, now: int) -> None:
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
        if checksums.has(self.db.connection):
            settings["checksums"] = 1
        schema.write_settings(self.db, self.name, settings)

    def load(self) -> None:
        """Read the settings and compare them with what the caller gave: all that is remembered for a generation."""
        settings = schema.read_settings(self.db, self.name)
        scheme, rules = self._bound(settings)
        self.store_text = bool(settings["store_text"])
        self.record_matches, self.crowds = bool(settings["record_matches"]), bool(settings["crowds"])
        scheme = scheme.for_index(rules, self.store_text)
        parameters = {**scheme.settings(), **rules.settings(), "store_text": self.store_text}
        epoch = self.common.epoch((settings.get("fingerprints"), *parameters.items()))
        self.basis = Basis(epoch, scheme, rules)
        self.epoch, self.scheme, self.rules = self.basis
        self.settings = settings
        self.usual, self.verification = None, None
        self.generation = settings["generation"]
        self._compared_at = -1

    def _bound(self, settings: dict[str, Any]) -> tuple[Scheme, TextRules]:
        """Scheme and rules of the file, by the latest of what was given that agrees with them. MismatchError where none does."""
        latest, *earlier = self.common.given
        try:
            return self._agreed(settings, latest)
        except MismatchError:
            for given in earlier:
                with suppress(MismatchError):
                    return self._agreed(settings, given)
            raise

    def _agreed(self, settings: dict[str, Any], given: Given) -> tuple[Scheme, TextRules]:
        """Scheme and rules of the file. MismatchError where the caller gave others."""
        scheme = scheme_from_settings(settings)
        rules = TextRules.from_settings(settings, given.rules)
        problems: list[str] = []
        if given.scheme is not None:
            problems += given.scheme.mismatches(scheme)
        if given.rules is not None:
            problems += given.rules.mismatches(rules)
        for name in ("store_text", "record_matches"):
            said = getattr(given, name)
            if said is not None and bool(said) != bool(settings[name]):
                problems.append(f"{name}={said}, the file has {bool(settings[name])}")
        if given.checksums is not None and given.checksums != bool(settings.get("checksums")):
            problems.append(
                f"checksums={given.checksums}, the file has {not given.checksums}, and that only a new file can change: "
                "add the records to a new index"
            )
        if problems:
            raise MismatchError(
                f"index {self.name!r} was made with other parameters: {'; '.join(problems)}. "
                "Leave them out to use the file's, or change the file with rebuild()"
            )
        return scheme, rules

    def adopt(self, changes: Given, *, fingerprints: bool) -> None:
        """Go on with the settings that a rebuild has just written. What it changed binds no more as it was given when opening;
        text rules bind as they are now, for their functions are not in the file. fingerprints: as of `new_generation`."""
        changed = {one.name: getattr(changes, one.name) for one in fields(changes)}
        binds = {name: value if name == "rules" else None for name, value in changed.items() if value is not None}
        self.db.undo.append(self.common.now_binds(replace(self.common.given[0], **binds)))
        self.new_generation(fingerprints=fingerprints)

    def set(self, **settings: Any) -> None:
        """Overwrite settings."""
        schema.write_settings(self.db, self.name, settings)

    def setting(self, name: str) -> Any:
        """A setting as the file has it now."""
        return self.db.value(self.sql("SELECT value FROM {index}_setting WHERE name = ?"), (name,))

    def new_generation(self, *, fingerprints: bool = False) -> None:
        """Make every open index of this file read its settings again, this one now. fingerprints: they have other values or ids
        from now on, so that a listing cannot go on."""
        self.set(generation=schema.random_number(), **({"fingerprints": schema.random_number()} if fingerprints else {}))
        self.load()

    def refresh(self) -> None:
        """Follow a rebuild, repair or migration by another connection."""
        if self.setting("generation") != self.generation:
            self.load()

    # ---- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A consistent state, with settings that belong to it."""
        self.db.require_open()
        with self.db.reading():
            self.refresh()
            yield

    @contextmanager
    def writing(self, *, light: bool = False) -> Iterator[None]:
        """A transaction, with settings that belong to it; light: see `Database.writing`."""
        self.db.require_open()
        with self.db.hold():  # until what was agreed inside a transaction that failed binds no more
            given = self.common.given
            try:
                with self.db.writing(light=light):
                    self.refresh()
                    yield
            except BaseException:
                self.common.given = given
                raise

    def at_once(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` answers, which sees one state, under settings that belong to the state it sees. The caller holds the lock.

        One statement, or what is asked while one is `held`, sees one state without a transaction around it, and whether the
        settings belong to it is known afterwards: nothing was written since they were compared, or they are compared now (a
        generation never comes back). Otherwise, or where `ask` fails, it is asked again as in `reading`."""
        self.db.settle()
        if not self.db.in_own_transaction and not self.db.connection.in_transaction:
            try:
                answer = ask()
                if self._settings_hold():
                    return answer
            except (apsw.SQLError, NearDupError):
                pass  # perhaps because of other settings: if not, it will fail again
            except apsw.Error as error:  # the database is busy, or the query was interrupted: no reason to ask again
                raise translate(error) from error
        with self.reading():
            return ask()

    def _settings_hold(self) -> bool:
        """Whether the settings belong to the state that the last statement saw."""
        if self.db.connection.data_version() == self._compared_at:
            return True
        if self.setting("generation") != self.generation:
            return False
        self._compared_at = self.db.connection.data_version()
        return True

    # ---- SQL ---------------------------------------------------------------------------------------------------------

    def sql(self, template: str) -> str:
        """A statement with the index's name in it."""
        text = self._statements.get(template)
        if text is None:
            text = self._statements[template] = template.replace("{index}", self.name)
        return text

    def query_sql(self, frame: str, verify: str, crowd: str = "") -> str:
        """A query of sql/: a frame ('matches', 'neighbours', ...) around the verification of a plan ('bands', ...).

        crowd: a condition on the rows that are looked at, such as " AND crowd = 0"; none = all of them."""
        text = self._composed.get((frame, verify, crowd))
        if text is None:
            verified = schema.sql_text(f"verify_{verify}").replace("{crowd}", crowd)
            text = schema.sql_text(frame).replace("{verified}", verified).replace("{index}", self.name)
            self._composed[frame, verify, crowd] = text
        return text

    # ---- sketches ----------------------------------------------------------------------------------------------------

    def sketch_texts(self, texts: list[str | bytes], *, evidence: bool, to_file: bool = False) -> Sketches:
        """Stored values of texts; with `evidence` also what verification needs of a query, `to_file` what storing many needs.
        No transaction needed: after a rebuild in another thread meanwhile the sketch is one of another epoch."""
        epoch, scheme, rules = self.basis
        made = scheme.values(texts, rules, to_file=to_file)
        needed = scheme.evidence(texts, rules) if evidence else None
        return Sketches(made.values, needed, made.token_counts, epoch, made.hashes, made.keys)

    def sketch_code(self, code: Any) -> Sketch:
        """The stored value of a code that the application brings."""
        epoch, scheme, _ = self.basis
        return Sketch(scheme.code_value(code), None, None, epoch)
