"""What `neardup dedup` and `decontaminate` share: they copy records, into one file or into a file for each input file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click

from .. import limits
from ..errors import ParameterError
from ..system import real_path
from . import common
from .inputs.files import STDOUT, is_stream, packing_of
from .inputs.opening import CopiedSource, open_source
from .inputs.records import format_of
from .inputs.source import Problem, ReadOptions, Source
from .inputs.table_files import TABLE_FORMATS
from .output import print_note
from .outputs import check_apart, check_kind, check_output, scratch_folder
from .progress import Meter

output_options = common.Options(
    click.option(
        "-o",
        "--output",
        "output_name",
        required=True,
        type=click.Path(allow_dash=True),
        help="Write the remaining records here; - is standard output, FOLDER/ a file for each input file.",
    ),
    click.option("--tmp", type=common.existing_folder, help="Folder for temporary files.  [default: the output's]"),
    click.option("--force", is_flag=True, help="Replace outputs that exist."),
)
"""The options that `copied` takes."""


class Copy(NamedTuple):
    """An input and the output for its records. folder: for temporary files; shards: the output is a folder with a file for each
    input file; to_stdout: standard output is taken, so that the summary goes to standard error."""

    source: CopiedSource
    folder: Path
    output: Path = STDOUT
    shards: bool = False
    to_stdout: bool = False

    def result(self, value: Any, lines: Iterable[str]) -> tuple[Any, Sequence[str]]:
        shown = list(lines)
        if not self.to_stdout or common.is_json():
            return value, shown
        for line in shown:
            print_note(line)
        return None, ()


@contextlib.contextmanager
def copied(
    paths: Sequence[Path], reading: ReadOptions, options: dict[str, Any], others: Mapping[str, Path | None], kept: Sequence[Path]
) -> Iterator[Copy]:
    """The input of `paths`, opened after all outputs were checked. options: the `output_options` are removed; others: more output
    files by option; kept: more paths that no output may replace."""
    output_name, tmp, force = (options.pop(name) for name in ("output_name", "tmp", "force"))
    output = Path(output_name)
    outputs = [path for path in (output, *others.values()) if path is not None]
    if outputs.count(STDOUT) + common.is_json() > 1:
        raise click.UsageError(
            f"Only one of -o, {', '.join(others)} and --json can write to standard output; name a file for each of the others"
        )
    files = [path for path in outputs if path != STDOUT]
    for path in files:
        if [real_path(other) for other in files].count(real_path(path)) > 1:
            raise ParameterError(f"{path} is given for two outputs; name a file for each")
        check_output(path, force, (*paths, *kept), folder=None if path == output else False)
        if path != output and format_of(path) in TABLE_FORMATS:
            raise ParameterError(f"{path}: {' and '.join(others)} are written as JSON lines, CSV or TSV; name such a file")
    with scratch_folder(tmp or _folder_beside(output)) as folder:
        source = open_source(paths, reading, folder)
        for path in files:
            check_apart(path, source.files)
        to_folder = output_name.endswith(("/", os.sep)) or (output.is_dir() and (len(paths) > 1 or paths[0].is_dir()))
        shards = to_folder and source.format != "folder"
        _check_kinds(source, paths, output, shards)
        with contextlib.closing(source):
            yield Copy(source, folder, output, shards, STDOUT in outputs)


def _folder_beside(output: Path) -> Path:
    """For a stream the current folder or, if that is read-only, the system's."""
    if output != STDOUT and not is_stream(output):
        return output.absolute().parent
    return Path.cwd() if os.access(Path.cwd(), os.W_OK) else Path(tempfile.gettempdir())


def _check_kinds(source: Source, paths: Sequence[Path], output: Path, shards: bool) -> None:
    """Records are copied unchanged, so the output needs the input's format."""
    if source.format == "folder" and len(paths) > 1:
        raise ParameterError(f"{source.name}: a folder of texts cannot be combined with other inputs, as it is copied")
    streams = output == STDOUT or is_stream(output)
    if streams and source.format == "folder":
        raise ParameterError(f"a folder of texts cannot go to {output}; name an output folder")
    if streams and source.format in TABLE_FORMATS:
        raise ParameterError(f"a table cannot go to {output}, where a part of it could look whole; name an output file")
    if output == STDOUT:
        return
    check_kind(output, folder=shards or source.format == "folder")
    for folder in filter(Path.is_dir, paths):
        here, there = folder.resolve(), output.resolve()
        if here in there.parents or there in here.parents:
            raise ParameterError(f"{output} and {folder}: one is inside the other; name an output elsewhere")
    if shards:
        _check_shards(source, paths)
        return
    kind = format_of(output)
    if source.format in TABLE_FORMATS and packing_of(output) is not None:
        raise ParameterError(f"{output}: a table is compressed inside, as the input is; leave {output.suffix} out")
    if source.format == "folder" and kind is not None and not output.is_dir():
        raise ParameterError(f"{output}: the texts of {source.name} go into a folder, this names a {kind} file; name a folder")
    if source.format == "folder" or is_stream(output) or kind == (None if source.format == "lines" else source.format):
        return
    ending = "txt" if source.format == "lines" else source.format
    if len(paths) > 1 or paths[0].is_dir():
        raise ParameterError(f"{output}: the records of all files go into one, so its name must end in .{ending}")
    if kind is not None:
        raise ParameterError(f"{output}: records are copied as they are, so its name must end in .{ending}")


def _check_shards(source: Source, paths: Sequence[Path]) -> None:
    if any(path == STDOUT or is_stream(path) for path in paths):
        raise ParameterError(f"{source.name}: a stream has no name for a file in a folder: name an output file")
    seen: dict[Path, Path] = {}
    for path in source.files:
        other = seen.setdefault(source.relative_path(path), path)
        if other != path:
            raise ParameterError(f"{other} and {path} would be one file of the output: name a folder that holds both")


@dataclass(slots=True)
class RunCounts:
    """Counts and speed of a run. Bytes are of the decompressed records; MB are 10^6 bytes."""

    records: int = 0
    skipped: int = 0
    invalid_utf8: int = 0
    input_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0
    mb_per_second: float = 0.0

    def read(self, source: CopiedSource, work: Callable[[Any], Any], stop: Callable[[], object]) -> list[Any]:
        """The results of `work` for the texts of each piece. A second thread computes them while the next piece is read. stop: is
        called after an error, before that thread is waited for."""
        results: list[Any] = []
        waiting: deque[Future[Any]] = deque()
        with Meter("Compare", source.size_bytes) as meter, ThreadPoolExecutor(1) as thread:
            try:
                for piece in source.pieces():
                    waiting.append(thread.submit(work, piece.texts))
                    self.records += len(piece.texts)
                    self.input_bytes += piece.size_bytes
                    meter.advance(source.position, len(piece.texts))
                    if len(waiting) > limits.PIECES_WAITING:
                        results.append(waiting.popleft().result())
                results += [future.result() for future in waiting]
            except BaseException:
                stop()
                raise
        self.skipped, self.problems, self.invalid_utf8 = source.skipped, source.problems, source.replaced
        return results

    def set_time(self, seconds: float) -> None:
        self.seconds = seconds
        self.mb_per_second = self.input_bytes / 1e6 / max(seconds, 1e-9)
