"""Chooses which of several duplicates to keep, and drops records that another index matches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from .. import limits
from ..arrays import np
from ..errors import NearDupError, ParameterError
from ..index import Index
from ..located import LocatedTexts
from ..parameters import Measure
from ..schemes.base import SetScheme
from ..store.database.open import open_scratch
from ..values import ANY_GROUP, Match
from .indexes import open_existing
from .inputs.records import NAMELESS
from .inputs.source import ABSENT, InputRecord, Source, field_value, joined_names
from .inputs.tables import TableSource
from .output import escaped, print_note
from .wording import told_as

ADDED_FIELDS = ("cluster", "duplicate_of", "similarity", "against")
"""The fields that --mark writes; the last one only with --against."""

_LOOKED_AT = 100  # JSON records checked for a field


class KeepRule(NamedTuple):
    """Which of several records to keep. rule: "first", "last", "longest", or "by": the largest or smallest value of a field."""

    rule: str = "first"
    field: str = ""
    smallest: bool = False

    def __str__(self) -> str:
        return f"by:{'-' if self.smallest else ''}{self.field}" if self.rule == "by" else self.rule


class KeepOption(click.ParamType[KeepRule]):
    name = "first|last|longest|by:FIELD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> KeepRule:
        rule, _, field = value.partition(":")
        if value in ("first", "last", "longest"):
            return KeepRule(value)
        if rule != "by":
            self.fail(f"{value!r} is not one of first, last, longest, by:FIELD, by:-FIELD.", param, ctx)
        keep = KeepRule(rule, field.removeprefix("-"), field.startswith("-"))
        if not keep.field:
            self.fail(f"{value!r} names no field; write by:score for the largest score, by:-score for the smallest.", param, ctx)
        return keep


def check_fields(source: Source, keep: KeepRule, group: str | None, added: Sequence[str]) -> None:
    """Raises an error for options that name a missing field, and for added fields that exist. For JSON a missing field is only a
    note, because each record may have other fields."""
    needed = [(f"--keep {keep}", keep.field)] if keep.rule == "by" else []
    if group is not None:
        needed.append((f"--group-field {group}", group))
    asked = [option for option, _ in needed] + ["--mark"] * bool(added)
    if not asked:
        return
    if source.format in NAMELESS:
        raise ParameterError(f"{source.name}: {asked[0]} needs records with fields, and these are texts alone: leave it out")
    with contextlib.closing(iter(source)) as records:  # type: ignore[type-var]
        first = list(islice(records, _LOOKED_AT if source.format == "jsonl" else 1))
    for record in first:
        for name in added:
            if name in (source.schema.names if isinstance(source, TableSource) else record.fields):
                raise ParameterError(f"{source.name} has a field {name!r} already, which --mark adds: rename it first")
    for option, field in needed:
        if not first or any(field_value(record.fields, field) is not ABSENT for record in first):
            continue
        has = f"has {joined_names(first[0].fields)}"
        if source.format != "jsonl":
            raise ParameterError(f"{source.name}: {option}: there is no column {field!r}; a record {has}")
        print_note(f"{source.name}: {option}: none of the first records has a field {field!r}; the first one {has}")


# ---- which record stays --------------------------------------------------------------------------------------------------


class Choice:
    def __init__(self, keep: KeepRule, source: Source) -> None:
        self._keep, self._source = keep, source
        self._values: dict[int, Any] = {}  # the compared value by record number; records without a value are missing

    def observe(self, record: InputRecord) -> None:
        """Store the value of a record that may have a near-duplicate."""
        if self._keep.rule == "longest":
            self._values[record.number] = len(record.text)
        elif self._keep.rule == "by":
            value = field_value(record.fields, self._keep.field)
            if value is not ABSENT and value == value:  # nan is not a value
                self._values[record.number] = value

    def order(self, numbers: Any) -> Any:
        """Ascending record numbers, int64[n], in preference order: numbers before texts before other values; records with no
        comparable value come last. Ties keep input order."""
        if self._keep.rule in ("first", "last"):
            return numbers if self._keep.rule == "first" else numbers[::-1]
        if self._source.format in ("csv", "tsv") and self._keep.rule == "by":
            self._values = {number: _value_of_text(value) for number, value in self._values.items()}
        kinds: dict[str, list[int]] = {}
        for number in numbers.tolist():
            kinds.setdefault(_kind(self._values.get(number)), []).append(number)
        last = kinds.pop("", [])
        order: list[int] = []
        for kind in sorted(kinds):
            order += sorted(kinds[kind], key=self._values.__getitem__, reverse=not self._keep.smallest)
        return np.array(order + last, np.int64)


def _kind(value: Any) -> str:
    """The comparison class of a value, "" for an incomparable one, in preference order."""
    if value is None or isinstance(value, (dict, list, tuple)):
        return ""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return "a number"
    return {"str": "text", "bool": "true or false"}.get(type(value).__name__, type(value).__name__)


def _value_of_text(text: Any) -> Decimal | str | None:
    """CSV text as a number if it is one; None for empty text and nan."""
    text = str(text or "")
    with contextlib.suppress(InvalidOperation):
        number = Decimal(text.replace("_", "x"))
        return None if number.is_nan() else number
    return text if text.strip() else None


# ---- what another index knows --------------------------------------------------------------------------------------------


class KnownRecords:
    """Records that match documents of other indexes, or are contained in them."""

    def __init__(self, indexes: Sequence[tuple[Path, Index, dict[str, Any]]], keys: Any) -> None:
        self._indexes = indexes
        self._keys = keys
        self._flags = bytearray()
        self._is_stopped = False

    @property
    def flags(self) -> Any:
        return np.frombuffer(self._flags, bool)

    def search(self, texts: Sequence[str] | LocatedTexts) -> Any:
        """Which of the next records match, bool[n]."""
        first, known = len(self._flags) + 1, np.zeros(len(texts), bool)
        found: list[tuple[int, str]] = []
        for path, index, question in self._indexes:
            places = np.flatnonzero(~known)
            with told_as(path):
                answers = self._first_matches(index, question, texts, places)
            for place, matches in zip(places.tolist(), answers, strict=False):  # fewer answers after stop()
                if matches:
                    known[place], key = True, matches[0].key
                    found.append((first + place, key if isinstance(key, str) else escaped(key)))
        if self._keys is not None and found:
            with self._keys:
                self._keys.executemany("INSERT INTO key VALUES (?, ?)", found)
        self._flags += known.tobytes()
        return known

    def _first_matches(
        self, index: Index, question: dict[str, Any], texts: Sequence[str] | LocatedTexts, places: Any
    ) -> list[list[Match]]:
        """Containment queries run one text and one group at a time, because a single one may take a second."""
        is_containment = "measure" in question
        step = 1 if is_containment else limits.ASKED_PART
        names = index.connection.execute(f"SELECT name FROM {index.name}_group") if is_containment else ()
        groups = [None, *(name for (name,) in names)] if is_containment else [ANY_GROUP]
        answers: list[list[Match]] = []
        for start in range(0, len(places), step):
            if self._is_stopped:
                break
            some = places[start : start + step].tolist()
            asked = texts.at_indexes(some) if isinstance(texts, LocatedTexts) else [texts[place] for place in some]
            found: list[list[Match]] = []
            for group in groups:
                if not any(found):
                    found = index.query_many(asked, limit=1, any=True, group=group, **question)
            answers += found
        return answers

    def stop(self) -> None:
        """Make a running `search` in another thread return soon; its results must not be used."""
        self._is_stopped = True

    def names(self, numbers: Sequence[int]) -> list[str | None]:
        """The matching keys for record numbers, as text; None without a match."""
        if not numbers:
            return []
        keys = dict(self._keys.execute("SELECT number, key FROM key WHERE number BETWEEN ? AND ?", (min(numbers), max(numbers))))
        return [keys.get(number) for number in numbers]


@contextlib.contextmanager
def open_against(
    paths: Sequence[Path], name: str, threshold: float, measure: Measure | None, folder: Path | None
) -> Iterator[KnownRecords | None]:
    """The indexes of --against, None if there are none. folder: stores the matching keys, None to discard them."""
    if not paths:
        yield None
        return
    with contextlib.ExitStack() as stack:
        indexes = []
        for path in paths:
            try:
                index = stack.enter_context(open_existing(path, name))
            except NearDupError as error:
                error.args = (str(error).replace(" --name", " --against-name"),)
                raise
            with told_as(path):
                indexes.append((path, index, _query_arguments(index, threshold, measure)))
        keys = None
        if folder is not None:
            keys = open_scratch(str(folder / "against.db"))
            stack.callback(keys.close)
            keys.execute("CREATE TABLE key (number INTEGER PRIMARY KEY, key TEXT)")
        yield KnownRecords(indexes, keys)


def _query_arguments(index: Index, threshold: float, measure: Measure | None) -> dict[str, Any]:
    """The arguments of `Index.query_many`. A threshold is passed only to schemes with the same measure, Jaccard similarity."""
    scheme = index.scheme
    if not scheme.takes_text:
        raise ParameterError("the index holds codes, and records have texts: name an index of texts for --against")
    if measure is not None:
        scheme.query_bounds(threshold, None, "containment")
        return {"threshold": threshold, "measure": measure}
    if not isinstance(scheme, SetScheme):
        return {}
    scheme.query_bounds(threshold, None)
    return {"threshold": threshold}
