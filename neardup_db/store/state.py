"""What an open index knows of its file: settings, scheme, text rules; and the SQL with the index's name in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import apsw

from ..errors import MismatchError, NearDupError
from ..native import lib
from ..schemes import scheme_from_settings
from ..schemes.base import Scheme
from ..text import TextRules
from . import schema
from .connection import Database, translate

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller said when opening; None = not said. Only this is compared with the file."""

    scheme: Scheme | None = None
    rules: TextRules | None = None
    store_text: bool | None = None
    record_matches: bool | None = None


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

    def one(self, i: int) -> Sketch:
        """The sketch at place i."""
        evidence = None if self.evidence is None else self.evidence[i]
        return Sketch(self.values[i], evidence, None if self.token_counts is None else self.token_counts[i], self.epoch)

    def some(self, places: Sequence[int]) -> Sketches:
        """Those at some places."""
        evidence = None if self.evidence is None else [self.evidence[i] for i in places]
        counts = None if self.token_counts is None else [self.token_counts[i] for i in places]
        return Sketches([self.values[i] for i in places], evidence, counts, self.epoch)


class Store:
    """The index inside its database. Methods that read or write run inside `reading` or `writing`."""

    scheme: Scheme
    rules: TextRules
    store_text: bool
    record_matches: bool
    crowds: bool
    """Whether the rows of some large clusters stand apart in the candidate table."""
    generation: int
    """As in the file when the settings were read; -1 = read them again."""
    epoch: int
    """How often settings were read: never the same for other settings, not even after a rollback, so sketches are known by it."""

    def __init__(self, db: Database, name: str, given: Given) -> None:
        self.db = db
        self.name = name
        self.given = given
        self.generation = -1
        self.epoch = 0
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
            "generation": 1,
            "created_at": now,
            "next_cluster": -1,
            "crowds": 0,
            "store_text": int(store_text),
            "record_matches": int(record_matches),
            **scheme.settings(),
            **rules.settings(),
        }
        schema.write_settings(self.db, self.name, settings)

    def load(self) -> None:
        """Read the settings and compare them with what the caller gave."""
        settings = schema.read_settings(self.db, self.name)
        scheme = scheme_from_settings(settings)
        rules = TextRules.from_settings(settings, self.given.rules)
        problems: list[str] = []
        if self.given.scheme is not None:
            problems += self.given.scheme.mismatches(scheme)
        if self.given.rules is not None:
            problems += self.given.rules.mismatches(rules)
        for name in ("store_text", "record_matches"):
            said = getattr(self.given, name)
            if said is not None and bool(said) != bool(settings[name]):
                problems.append(f"{name}={said}, the file has {bool(settings[name])}")
        if problems:
            raise MismatchError(
                f"index {self.name!r} was made with other parameters: {'; '.join(problems)}. "
                "Leave them out to use the file's, or change the file with rebuild()"
            )
        keep_text = bool(settings["store_text"])
        self.scheme, self.rules, self.store_text = scheme.for_index(rules, keep_text), rules, keep_text
        self.record_matches, self.crowds = bool(settings["record_matches"]), bool(settings["crowds"])
        self.epoch += 1  # last: a sketch that has this epoch was made with these
        self.settings = settings
        self.generation = settings["generation"]
        self._compared_at = -1

    def adopt(self, scheme: Scheme | None, rules: TextRules | None) -> None:
        """Go on with what a rebuild has written: what was given when opening no longer binds where it was replaced."""
        self.given = replace(
            self.given,
            scheme=self.given.scheme if scheme is None else None,
            rules=self.given.rules if rules is None else rules,
        )
        self.load()

    def set(self, **settings: Any) -> None:
        """Overwrite settings."""
        schema.write_settings(self.db, self.name, settings)

    def setting(self, name: str) -> Any:
        """A setting as the file has it now."""
        return self.db.value(self.sql("SELECT value FROM {index}_setting WHERE name = ?"), (name,))

    def bump_generation(self) -> None:
        """Make every open index of this file, this one too, read its settings again."""
        self.db.execute(self.sql("UPDATE {index}_setting SET value = value + 1 WHERE name = 'generation'"))

    def refresh(self) -> None:
        """Follow a rebuild, repair or migration by another connection."""
        if self.setting("generation") != self.generation:
            self.load()

    # ---- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A consistent state, with settings that belong to it."""
        with self.db.reading():
            self.refresh()
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction, with settings that belong to it."""
        given = self.given
        try:
            with self.db.writing():
                self.refresh()
                yield
        except BaseException:
            self.given = given
            self.generation = self._compared_at = -1  # what was loaded inside is rolled back: read it again
            raise

    def at_once(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` answers, which runs one query, under settings that belong to the state it sees.

        One statement sees one state without a transaction around it, and whether the settings belong to it is known afterwards:
        nothing was written since they were compared, or they are compared now (a generation never comes back). Otherwise, or
        where `ask` fails, it is asked again as in `reading`."""
        with self.db.lock:
            self.db.require_open()
            self.db.settle()
            if self.generation >= 0 and not self.db.connection.in_transaction:
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

    def sketch_texts(self, texts: list[str | bytes], *, evidence: bool) -> Sketches:
        """Stored values of texts; with `evidence` also what verification needs of a query. No transaction needed: the epoch is
        read first, so that a rebuild in another thread meanwhile makes the sketches old ones."""
        epoch = self.epoch
        scheme, rules = self.scheme, self.rules
        made = scheme.values(texts, rules)
        return Sketches(made.values, scheme.evidence(texts, rules) if evidence else None, made.token_counts, epoch)

    def sketch_code(self, code: Any) -> Sketch:
        """The stored value of a code that the application brings."""
        epoch = self.epoch
        return Sketch(self.scheme.code_value(code), None, None, epoch)
