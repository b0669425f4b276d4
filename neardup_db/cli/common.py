"""What commands share: their arguments and options, the index that they open, and how their results are printed."""

from __future__ import annotations

import contextlib
import inspect
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ..errors import ParameterError
from ..parameters import check_key, quoted_key
from ..schemes import SCHEMES, Scheme
from ..text import TextRules
from ..values import Key
from . import indexes
from .app import COMMANDS
from .inputs.encodings import HEAD_BYTES, encoding_of, why_not_text
from .inputs.records import FORMATS
from .inputs.source import ReadOptions
from .output import as_json_value, emit, emit_json
from .wording import dashed, told_as

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
            if count == 1 or not isinstance(parameter, click.Option) or parameter.multiple or parameter.count:
                continue
            if parameter.secondary_opts or not parameter.is_flag:
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


def command(name: str | None = None, *, has_json: bool = True) -> Callable[[Callable[..., Any]], click.Command]:
    """Decorator that makes a function a command, whose help is its line in COMMANDS and then its docstring. Unless has_json=False
    its last option is --json, and it yields `Results`."""

    def decorate(function: Any) -> click.Command:
        @wraps(function)
        def run(as_json: bool, **options: Any) -> int:
            return _print_results(function(**options), as_json)

        called = name or function.__name__
        help_text = f"{COMMANDS[called][1]}\n\n{inspect.getdoc(function)}"
        return click.command(called, cls=Task, help=help_text)(_with_last(run, json_option) if has_json else function)

    return decorate


def index_command(name: str | None = None) -> Callable[[Callable[..., Results]], click.Command]:
    """The same for a command on INDEX, which gets the open index. Its last options are --name and --json."""

    def decorate(function: Any) -> click.Command:
        @wraps(function)
        def run(index_path: Path, name: str, **options: Any) -> Results:
            with indexes.open_index(index_path, name) as index:
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
    return bool(click.get_current_context().params["as_json"])


# ---- options -------------------------------------------------------------------------------------------------------------

class NumberRange(click.FloatRange):
    """A number range that excludes nan, which click accepts because no comparison with a bound fails."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


inside, above_0 = NumberRange(0, 1, min_open=True, max_open=True), NumberRange(0, 1, min_open=True)

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Options:
    """Several options, as one decorator. names: those of their parameters."""

    def __init__(self, *options: Callable[[Any], Any]) -> None:
        self._options = options
        self.names = tuple(parameter.name for parameter in reversed(self(lambda: None).__click_params__))

    def __call__(self, command: Any) -> Any:
        for option in reversed(self._options):
            command = option(command)
        return command

    def pop(self, options: dict[str, Any]) -> dict[str, Any]:
        """The given values, which are removed."""
        values = {name: options.pop(name) for name in self.names if name in options}
        return {name: value for name, value in values.items() if value is not None}


path = click.Path(path_type=Path)
place = click.Path(path_type=Path, allow_dash=True)
page = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
existing_file = click.Path(path_type=Path, exists=True, dir_okay=False)
existing_folder = click.Path(path_type=Path, exists=True, file_okay=False)
"""Types of arguments and options: a place is a path or, as -, standard input or output."""

index_argument = click.argument("index_path", metavar="INDEX", type=path)
sources_argument = click.argument("sources", metavar="IN...", nargs=-1, required=True, type=place)
name_option = click.option("--name", default="neardup", help="Name of the index within the file.")
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
file_option = click.option("--file", "file", type=existing_file, help="Read the text from a file.")
id_type_option = click.option("--key-type", "id_type", type=click.Choice(["text", "int"]), default="text", help="Type of ids.")


class Count(click.IntRange):
    def __init__(self, least: int) -> None:
        super().__init__(least, (1 << 63) - 1)

    def _describe_range(self) -> str:  # for --help
        return f"x>={self.min}"


html_options = Options(
    click.option("--html", type=page, help="Write an HTML page; - is standard output."),
    click.option("--force", is_flag=True, help="Replace the page if it exists."),
)
new_index_options = Options(
    click.option("--store-text", is_flag=True, help="Keep the texts in a new index, for explain, rebuild and SQL."),
    click.option("--no-record-matches", is_flag=True, help="In a new index, skip the search for matches; clusters finds them."),
)
"""`new_index_settings` makes settings of them."""
limit_option = click.option("--limit", type=Count(1), help="Print at most this many.")
key_type_option = click.option(
    "--key-type",
    type=click.Choice(["text", "int", "hex"]),
    default="text",
    help="Type of the keys: 1 as text and 1 as an integer are different keys.",
)

keys_options = Options(
    click.argument("keys", metavar="KEY...", nargs=-1),
    click.option(
        "--file", "file", type=click.File(encoding="utf-8-sig"), help="Read keys from a file, one a line; - is standard input."
    ),
    key_type_option,
)
"""Document keys; `parse_keys` reads them."""


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
    return click.option("--if-exists", type=choices, default="error", help=f"What to do with {what}.")


def _delimiter(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The delimiter character; \t is a tab."""
    character = "\t" if value == "\\t" else value
    if character is not None and (len(character) != 1 or character in '"\r\n\0'):
        told = f"{value!r} is not a column delimiter; give ';', '|' or \\t."
        raise click.BadParameter(told, context, parameter)
    return character


def _each_once(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for field in value:
        if value.count(field) > 1:
            raise click.UsageError(f"--text-field {field} is given twice; name each field once")
    return value


_fields = (
    click.option(
        "--format",
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
        callback=_each_once,
        help="Field with the text; doc.body leads into objects. Repeat the option to join several texts.",
    ),
    click.option("--delimiter", callback=_delimiter, help="Character between columns.  [default: , in CSV, tab in TSV]"),
    click.option("--encoding", default="utf-8", help="Encoding of the input: utf-16, latin-1, gb18030, ..."),
)
_files = (
    click.option("--glob", default="*", help="Read files of a folder with a matching name or path."),
    click.option("--on-error", type=click.Choice(["raise", "skip"]), default="raise", help="What to do with an invalid record."),
)
_size = click.option("--max-record-mb", type=NumberRange(0.001, 1000), default=64.0, help="A larger record is an error.")
input_options = Options(*_fields, *_files, _size)
"""Options of commands that read records; `read_options` makes ReadOptions of them."""
stream_options = Options(*_fields, _size)  # the same for a command that reads a stream and continues after an invalid record

text_options = Options(
    click.option("--tokens", type=click.Choice(["words", "chars"]), help="Token unit.  [default: words]"),
    click.option("--shingle", type=click.IntRange(1, 1000), help="Tokens in a shingle.  [default: 3 words]"),
    click.option("--normalize", type=click.Choice(["NFC", "NFKC", "none"]), help="Unicode normal form.  [default: NFKC]"),
    click.option("--case", type=click.Choice(["fold", "lower", "none"]), help="Treatment of upper case.  [default: fold]"),
    click.option("--strip-accents/--no-strip-accents", default=None, help="Ignore accents.  [default: no]"),
    click.option("--min-tokens", type=click.IntRange(0, 1_000_000), help="Texts with fewer tokens match nothing.  [default: 0]"),
)
"""Text rules; `text_rules` makes TextRules of them."""

scheme_options = Options(
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


def text_rules(options: dict[str, Any], present: TextRules | None = None) -> TextRules | None:
    """The text rules from the options, which are removed; None if none was given. Missing options keep the index's present rules,
    except the shingle length for other tokens."""
    given = text_options.pop(options)
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
    given = scheme_options.pop(options)
    if not given:
        return None
    name = given.pop("scheme", "minhash" if present is None else present.name)
    kind = SCHEMES[name]
    for parameter in given:
        if parameter not in kind.names:
            known = ", ".join(dashed(other) for other in scheme_options.names if other in kind.names)
            raise ParameterError(f"{dashed(parameter)} cannot be used with --scheme {name}, which has {known}")
    with told_as():
        return present.changed(**given) if present is not None and name == present.name else kind(**given)


def read_options(options: dict[str, Any], **more: Any) -> ReadOptions:
    """The options for reading an input, which are removed. more: other fields of ReadOptions."""
    given = input_options.pop(options)
    return ReadOptions(
        encoding=encoding_of(given.pop("encoding")),
        max_bytes=int(given.pop("max_record_mb") * 1_000_000),
        integer_keys=options.pop("id_type", "text") == "int",
        source_name=options.pop("source_name", None),
        **given,
        **more,
    )


def is_option_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)


def refuse_given(names: Sequence[str], reason: str) -> None:
    for parameter in click.get_current_context().command.params:
        if parameter.name in names and is_option_given(parameter.name):
            raise click.UsageError(f"{parameter.opts[0]} {reason}")


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
