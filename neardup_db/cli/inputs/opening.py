"""Opens the input that command arguments name: files, folders, patterns and streams, all of one format."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .encodings import UTF8, converted
from .files import STDIN, FileError, Inputs, NamedFile, is_stream, spool
from .passes import TextSource
from .records import FORMATS, format_of, format_of_file
from .source import ReadOptions
from .table_files import TABLE_FORMATS
from .tables import TableSource

_NOTED = {"_temporary", "_delta_log", "_spark_metadata", "_change_data"}
"""Folders beside data that hold metadata, deleted data or temporary data."""


CopiedSource = TextSource | TableSource


def open_source(sources: Sequence[Path], options: ReadOptions, folder: Path) -> CopiedSource:
    inputs = find(sources, options, folder)
    return TableSource(inputs, options) if inputs.format in TABLE_FORMATS else TextSource(inputs, options, folder)


def paths_named(sources: Sequence[Path]) -> list[Path]:
    """An existing path is never a pattern. A pattern with ** expands to files only, because it also matches their folders."""
    paths: list[Path] = []
    for source in sources:
        if source == STDIN or source.exists():
            paths.append(source)
        elif any(character in "*?[" for character in str(source)):
            fitting = sorted(map(Path, set(glob.glob(str(source), recursive=True))), key=lambda path: path.parts)
            fitting = [path for path in fitting if "**" not in source.parts or not path.is_dir()]
            if not fitting:
                raise FileError(f"{source}: no file fits this pattern{_remedy_for_an_address(source)}")
            paths += fitting
        else:
            raise FileError(f"{source}: no such file or folder{_remedy_for_an_address(source)}")
    if STDIN in paths and len(paths) > 1:
        raise FileError("standard input (-) cannot be combined with other inputs: read it alone, or name its data as a file")
    return paths


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:[/\\]")
"""The start of a path such as s3://bucket/part.parquet. A single letter would be a Windows drive."""


def _remedy_for_an_address(source: Path) -> str:
    return "; copy it to this machine first, or pipe it in as - with --format" if _ADDRESS.match(str(source)) else ""


def find(sources: Sequence[Path], options: ReadOptions, folder: Path) -> Inputs:
    paths = paths_named(sources)
    name = _display_name(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    groups = [list(_files_of(path, options, folder, i)) for i, path in enumerate(paths)]
    _refuse_twice(groups)
    files = [file for group in groups for file in group]
    format_ = options.format or _format_of(name, paths, groups)
    files = _with_keys(files, options.source_name, len(paths) == 1 and not paths[0].is_dir())
    if options.encoding != UTF8 and format_ not in TABLE_FORMATS:
        files = [converted(file, options.encoding, folder / f"converted-{i}") for i, file in enumerate(files)]
    return Inputs(name, format_, files)


def _display_name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)


def _files_of(path: Path, options: ReadOptions, folder: Path, number: int) -> Iterator[NamedFile]:
    """Keys are assigned later, when all files are known."""
    if path == STDIN or is_stream(path):
        if options.format is None and format_of_file(path) is None:
            raise FileError(f"{_display_name(path)} has no name that shows its format; add --format {'|'.join(FORMATS)}")
        nameless = path == STDIN or Path("/dev") in path.absolute().parents  # the 63 of /dev/fd/63 is no useful name
        spooled = spool(path, folder / f"input-{number}")
        below = Path("stdin" if nameless else path.name)
        yield NamedFile(spooled, _display_name(path), below, path)
    elif path.is_dir():
        for file in _matching_files(path, options.glob):
            yield NamedFile(file, str(file), file.relative_to(path), file)
    else:
        yield NamedFile(path, str(path), Path(path.name), path)


def _matching_files(folder: Path, pattern: str) -> list[Path]:
    """Without hidden files and the marker files of Spark and Hive (a leading underscore and no suffix, as _SUCCESS)."""
    paths = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOTED)
        for name in names:
            if name.startswith("_") and "." not in name and not pattern.startswith("_"):
                continue
            path = Path(parent, name)
            fits = fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(path.relative_to(folder).as_posix(), pattern)
            if fits and not name.startswith(".") and path.is_file():
                paths.append(path)
    return sorted(paths, key=lambda path: path.parts)  # Windows paths compare case-insensitively


def _refuse_twice(groups: Sequence[Sequence[NamedFile]]) -> None:
    seen: dict[Path, NamedFile] = {}
    for group in groups if len(groups) > 1 else ():
        here = {file.path.resolve(): file for file in group}
        for path, file in here.items():
            if path in seen:
                same = "" if file.name == seen[path].name else f", as {seen[path].name},"
                raise FileError(f"{file.name} is given twice{same}: name it once, or its records are duplicates of themselves")
        seen.update(here)


def _format_of(name: str, paths: Sequence[Path], groups: Sequence[Sequence[NamedFile]]) -> str:
    """In a folder any file name is accepted as a text, including .txt."""
    examples: dict[str, NamedFile] = {}
    for path, group in zip(paths, groups, strict=True):
        for file in group:
            kind = format_of(file.given) if path.is_dir() else format_of_file(file.given)
            if kind is None and not path.is_dir():
                raise FileError(f"{file.name}: its name does not show the format; add --format {'|'.join(FORMATS)}")
            examples.setdefault(kind or "folder", file)
    if len(examples) > 1:
        listed = " and ".join(sorted((file.below if len(paths) == 1 else file.given).as_posix() for file in examples.values()))
        raise FileError(
            f"{name}: the files are of different kinds ({listed}): choose files of one kind, for example with "
            f"--glob '*.jsonl', or name the format of all of them with --format {'|'.join(FORMATS)}"
        )
    return next(iter(examples), "folder")


def _with_keys(files: Sequence[NamedFile], source_name: str | None, is_file: bool) -> list[NamedFile]:
    """Keys are file names or relative paths; if two would be equal, the paths as given."""
    keys = [file.below.as_posix() for file in files]
    if len(set(keys)) < len(keys):
        keys = [file.given.as_posix() for file in files]
    if source_name is not None:
        keys = [source_name if is_file else f"{source_name}/{key}" for key in keys]
    return [file._replace(key=key) for file, key in zip(files, keys, strict=True)]
