"""What commands share: their arguments and options, the index that they open, and how their results are printed."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ..errors import ParameterError, ShortTextsWarning
from ..index import Index
from ..parameters import check_key, quoted_key
from ..schemes import BinaryCode, BitSampling, BottomK, MinHash, Passages, SimHash
from ..schemes.base import Scheme
from ..store.database.open import remove_unused
from ..system import reachable, real_path
from ..text import TextRules
from ..values import ANY_GROUP, AnyGroup, Key
from .inputs.binary import HEAD_BYTES, why_not_text
from .inputs.encodings import encoding_of
from .inputs.records import FORMATS
from .inputs.source import ReadOptions
from .output import as_json_value, emit, emit_json, print_note
from .wording import in_command_terms, told_as

Command = TypeVar("Command", bound=Callable[..., Any])

Results = Generator[tuple[Any, str | Iterable[str] | None], None, Any]
"""What a command yields, in order, to be printed: a value for --json (None: nothing) and the same for people, as a line or lines
(None: JSON, whatever the options). It returns its exit code; None is 0, or 1 if nothing was yielded."""

# ---- commands ------------------------------------------------------------------------------------------------------------

class Task(click.Command):
    """A command that refuses a repeated option, of which click would silently use the last value, and values that are invalid for
    every parameter of their type."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and not _may_repeat(parameter):
                raise click.UsageError(f"{_display_name(parameter)} is given {count} times; give it once", ctx)
        for parameter in self.params:
            raw = values.get(parameter.name or "")
            for value in raw if isinstance(raw, (list, tuple)) else (raw,):
                if isinstance(value, str):
                    _check(parameter, value, ctx)
        return super().parse_args(ctx, args)


def _check(parameter: click.Parameter, value: str, ctx: click.Context) -> None:
    """Refuses an empty value, as from an unset variable, which could otherwise mean the current folder or every address, and
    bytes that are not UTF-8, except in file names."""
    is_path, name = isinstance(parameter.type, (click.Path, click.File)), _display_name(parameter)
    if not value and (is_path or parameter.name in _NEVER_EMPTY):
        raise click.UsageError(f"{name} is empty: give {'the name of a file' if is_path else 'a value, or leave it out'}", ctx)
    try:
        value.encode()
    except UnicodeEncodeError:
        if not is_path:
            raise click.UsageError(f"{name} '{value}' is not UTF-8: convert it, for example with iconv", ctx) from None


_NEVER_EMPTY = ("host", "id_field", "glob", "source_name")


def _display_name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return "/".join(name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    return parameter.human_readable_name.partition(" ")[0].strip("[].")


def _may_repeat(option: click.Option) -> bool:
    return option.multiple or option.count or (option.is_flag and not option.secondary_opts)


def command(name: str | None = None, *, has_json: bool = True) -> Callable[[Callable[..., Any]], click.Command]:
    """Decorator that makes a function a command. Unless has_json=False its last option is --json, and it yields `Results`."""

    def decorate(function: Any) -> click.Command:
        @wraps(function)
        def run(as_json: bool, **options: Any) -> int:
            return _print_results(function(**options), as_json)

        return click.command(name, cls=Task)(_with_last(run, json_option) if has_json else function)

    return decorate


def index_command(name: str | None = None) -> Callable[[Callable[..., Results]], click.Command]:
    """The same for a command on INDEX, which gets the open index. Its last options are --name and --json."""

    def decorate(function: Any) -> click.Command:
        @wraps(function)
        def run(index_path: Path, name: str, **options: Any) -> Results:
            with open_index(index_path, name) as index:
                return (yield from function(index, **options))

        return command(name)(index_argument(_with_last(run, name_option)))

    return decorate


def _with_last(function: Any, option: Callable[[Any], Any]) -> Any:
    last: Any = option(lambda: None)
    function.__click_params__ = [*last.__click_params__, *getattr(function, "__click_params__", ())]
    return function


def _print_results(results: Results, as_json: bool) -> int:
    found = False
    while True:
        try:
            value, lines = next(results)
        except StopIteration as end:
            return int(not found if end.value is None else end.value)
        found = True
        if lines is None or (as_json and value is not None):
            emit_json(as_json_value(value))
        elif not as_json:
            for line in [lines] if isinstance(lines, str) else lines:
                emit(line)


def is_json() -> bool:
    """Whether the running command has --json."""
    return bool(click.get_current_context().params["as_json"])


# ---- options -------------------------------------------------------------------------------------------------------------

SCHEMES: Mapping[str, tuple[type[Scheme], tuple[str, ...]]] = {
    "minhash": (MinHash, ("threshold", "num_perm", "recall", "exact")),
    "simhash": (SimHash, ("max_distance", "bits")),
    "bottomk": (BottomK, ("threshold", "k", "containment")),
    "bitsampling": (BitSampling, ("threshold", "bits", "recall", "max_distance")),
    "binarycode": (BinaryCode, ("bits", "max_distance")),
    "passages": (Passages, ("shortest", "threshold")),
}
"""Schemes by command-line name, with their options."""


class NumberRange(click.FloatRange):
    """A number range that excludes nan, which click accepts because no comparison with a bound fails."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def all_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


index_argument = click.argument("index_path", metavar="INDEX", type=click.Path(path_type=Path))
name_option = click.option("--name", default="neardup", show_default=True, help="Name of the index within the file.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
group_option = click.option(
    "--group", metavar="NAME", help="Only documents of this group, named by this text or else by this integer."
)
all_groups_option = click.option("--all-groups", is_flag=True, help="Search documents of every group and without a group.")
measure_option = click.option(
    "--measure",
    type=click.Choice(["containment"]),
    help="Find documents that contain the text, instead of similar ones. Needs an index made with --exact, "
    "--containment or --scheme passages; --threshold is 0.8 unless given.",
)


class Count(click.IntRange):
    def __init__(self, least: int) -> None:
        super().__init__(least, (1 << 63) - 1)

    def _describe_range(self) -> str:  # for --help
        return f"x>={self.min}"


limit_option = click.option("--limit", type=Count(1), help="Print at most this many.")
key_type_option = click.option(
    "--key-type",
    type=click.Choice(["text", "int", "hex"]),
    default="text",
    show_default=True,
    help="Type of the keys: 1 as text and 1 as an integer are different keys.",
)

keys_options = all_options(
    click.argument("keys", metavar="KEY...", nargs=-1),
    click.option(
        "--file", "file", type=click.File(encoding="utf-8-sig"), help="Read keys from a file, one a line; - is standard input."
    ),
    key_type_option,
)
"""Document keys; `parse_keys` reads them."""


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


def parse_keys(keys: Sequence[str], file: Iterable[str] | None, key_type: str) -> list[Key]:
    try:
        wanted = [parse_key(key, key_type) for key in (*keys, *(line.rstrip("\r\n") for line in file or ()))]
    except UnicodeDecodeError as error:
        raise ParameterError(f"--file holds {error.object[:40]!r}, which is not UTF-8: convert it with iconv") from error
    if not wanted:
        raise click.UsageError("Give at least one KEY, or --file")
    return wanted


def if_exists_option(what: str) -> Callable[[Command], Command]:
    choices = click.Choice(["error", "replace", "ignore"])
    return click.option("--if-exists", type=choices, default="error", show_default=True, help=f"What to do with {what}.")


def _delimiter(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The delimiter character; \t is a tab."""
    character = "\t" if value == "\\t" else value
    if character is not None and (len(character) != 1 or character in '"\r\n\0'):
        told = f"{value!r} is not a column delimiter; give ';', '|' or \\t."
        raise click.BadParameter(told, context, parameter)
    return character


_fields = (
    click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        help="Format of the input, or of a folder's files, if the names do not show it. lines: each line is a text, as in a .txt "
        "that is not in a folder.",
    ),
    click.option("--id-field", help="Field with the id.  [default: id, else key, else file and line: posts.jsonl:17]"),
    click.option(
        "--text-field",
        "text_fields",
        multiple=True,
        default=("text",),
        show_default=True,
        help="Field with the text; doc.body leads into objects. Repeat the option to join several texts.",
    ),
    click.option("--delimiter", callback=_delimiter, help="Character between columns.  [default: , in CSV, tab in TSV]"),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the input: utf-16, latin-1, gb18030, ..."),
)
_files = (
    click.option("--glob", default="*", show_default=True, help="Read files of a folder with a matching name or path."),
    click.option(
        "--on-error",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="What to do with an invalid record: stop, or skip it.",
    ),
)
_size = click.option(
    "--max-record-mb",
    type=NumberRange(0.001, 1000),
    default=64.0,
    show_default=True,
    help="Maximum record size; a larger record is an error.",
)
input_options = all_options(*_fields, *_files, _size)
"""Options of commands that read records; `read_options` makes ReadOptions of them."""
stream_options = all_options(*_fields, _size)
"""The same for a command that reads a stream and continues after an invalid record."""

text_options = all_options(
    click.option("--tokens", type=click.Choice(["words", "chars"]), help="Token unit.  [default: words]"),
    click.option("--shingle", type=click.IntRange(1, 1000), help="Tokens in a shingle.  [default: 3 words]"),
    click.option("--normalize", type=click.Choice(["NFC", "NFKC", "none"]), help="Unicode normal form.  [default: NFKC]"),
    click.option("--case", type=click.Choice(["fold", "lower", "none"]), help="Treatment of upper case.  [default: fold]"),
    click.option("--strip-accents/--no-strip-accents", default=None, help="Ignore accents.  [default: no]"),
    click.option("--min-tokens", type=click.IntRange(0, 1_000_000), help="Texts with fewer tokens match nothing.  [default: 0]"),
)
"""Text rules; `text_rules` makes TextRules of them."""

scheme_options = all_options(
    click.option("--scheme", type=click.Choice(list(SCHEMES)), help="Scheme of a new index.  [default: minhash]"),
    click.option("--threshold", type=float, help="Minimum similarity of near-duplicates, 0 to 1.  [default: 0.8; bottomk 0.5]"),
    click.option("--max-distance", type=int, help="simhash, bitsampling, binarycode: maximum number of differing bits."),
    click.option("--exact/--estimate", default=None, help="minhash: verify by exact or by estimated Jaccard similarity."),
    click.option("--recall", type=float, help="minhash, bitsampling: recall of pairs at the threshold.  [default: 0.99]"),
    click.option("--num-perm", type=int, help="minhash: slots in a signature.  [default: 128]"),
    click.option("--bits", type=int, help="simhash, bitsampling, binarycode: bits in a code."),
    click.option("--k", type=int, help="bottomk: hashes in a fingerprint.  [default: 128]"),
    click.option("--shortest", type=int, help="passages: tokens in the shortest passage.  [default: 25]"),
    click.option(
        "--containment/--no-containment", default=None, help="bottomk: index all hashes, as query --measure containment requires."
    ),
)
"""Scheme and parameters; `scheme_of` makes a Scheme of them."""

_SCHEME_NAMES = ("scheme", "threshold", "max_distance", "exact", "recall", "num_perm", "bits", "k", "containment", "shortest")
TEXT_NAMES = ("tokens", "shingle", "normalize", "case", "strip_accents", "min_tokens")
INPUT_NAMES = ("format_", "id_field", "text_fields", "delimiter", "encoding", "glob", "on_error", "max_record_mb")


def pop_options(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options.pop(name) for name in names}


def text_rules(options: dict[str, Any], present: TextRules | None = None) -> TextRules | None:
    """The text rules from the options, which are removed; None if none was given. Missing options keep the index's present rules,
    except the shingle length for other tokens."""
    given = {name: value for name, value in pop_options(options, TEXT_NAMES).items() if value is not None}
    if not given:
        return None
    for name in ("normalize", "case"):
        if given.get(name) == "none":
            given[name] = None
    tokens = given.pop("tokens", "words" if present is None else present.tokens)
    with told_as():
        if present is not None and tokens == present.tokens:
            return present.changed(**given)
        rules = TextRules.chars(**given) if tokens == "chars" else TextRules.words(**given)
        return rules if present is None else present.changed(**rules.given)


def scheme_of(options: dict[str, Any], present: Scheme | None = None) -> Scheme | None:
    """The scheme from the options, which are removed; None if none was given. Missing options keep the index's present scheme,
    unless another scheme is named."""
    given = {name: value for name, value in pop_options(options, _SCHEME_NAMES).items() if value is not None}
    if not given:
        return None
    name = given.pop("scheme", "minhash" if present is None else present.name)
    kind, allowed = SCHEMES[name]
    for parameter in given:
        if parameter not in allowed:
            known = ", ".join("--" + other.replace("_", "-") for other in allowed)
            raise ParameterError(f"--{parameter.replace('_', '-')} cannot be used with --scheme {name}, which has {known}")
    with told_as():
        return present.changed(**given) if present is not None and name == present.name else kind(**given)


def read_options(options: dict[str, Any], key_type: str = "text") -> ReadOptions:
    taken = {"glob": "*", "on_error": "skip", **pop_options(options, tuple(name for name in INPUT_NAMES if name in options))}
    for field in taken["text_fields"]:
        if taken["text_fields"].count(field) > 1:
            raise click.UsageError(f"--text-field {field} is given twice; name each field once")
    return ReadOptions(
        format=taken["format_"],
        id_field=taken["id_field"],
        text_fields=taken["text_fields"],
        delimiter=taken["delimiter"],
        encoding=encoding_of(taken["encoding"]),
        integer_keys=key_type == "int",
        on_error=taken["on_error"],
        max_bytes=int(taken["max_record_mb"] * 1_000_000),
        glob=taken["glob"],
        source_name=options.pop("source_name", None),
    )


def index_files(index: Index) -> list[Path]:
    path = Path(index.connection.filename)
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


def is_option_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)


def refuse_given(names: Sequence[str], reason: str) -> None:
    for parameter in click.get_current_context().command.params:
        if parameter.name in names and is_option_given(parameter.name):
            raise click.UsageError(f"{parameter.opts[0]} {reason}")


def is_new(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def parse_key(text: str, key_type: str) -> Key:
    try:
        key: Key = int(text) if key_type == "int" else bytes.fromhex(text) if key_type == "hex" else text
    except ValueError as error:
        wanted = "an integer" if key_type == "int" else "hexadecimal"
        raise ParameterError(f"key {quoted_key(text)} is not {wanted}, as --key-type {key_type} says") from error
    return check_key(key)


def parse_window(text: str, option: str = "--window", or_else: str = "") -> timedelta | int:
    if text.strip().isdecimal():
        return int(text)
    try:
        return timedelta(seconds=parse_duration(option, text))
    except (ParameterError, OverflowError) as error:
        what = ", ".join(filter(None, ["write a time, as 24h or 7d", or_else]))
        raise ParameterError(f"{option} {text!r}: {what}, or a number of documents, as 1000000") from error


def parse_duration(option: str, text: str) -> float:
    duration = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text)
    if not duration:
        raise ParameterError(f"{option} {text!r} is not a duration; write a number and s, m, h, d or w, as in 30d")
    return float(duration[1]) * _SECONDS[duration[2]]


def read_content(text: str | None, file: Path | None, may_be_name: bool = False) -> str | bytes:
    """The content of a file or, for "-", of standard input, else the text itself, which may be the name of a file."""
    if file is None and text is not None and may_be_name:
        with contextlib.suppress(OSError, ValueError):  # a text may be no name of a file
            file = Path(text) if text and Path(text).is_file() else None
    if file is None and text != "-":
        return text or ""
    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    if why := why_not_text(content[:HEAD_BYTES]):
        raise ParameterError(f"{file or 'standard input'}: {why}")
    return content
