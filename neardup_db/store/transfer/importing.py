"""Reads Parquet files of fingerprints as records of `add_many`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any, NamedTuple

from ... import fingerprint_files, limits
from ...errors import FormatError, ParameterError
from ...parameters import check_many, check_path, quoted
from ...schemes import Scheme, scheme_from_settings
from ...text import TextRules
from ..layout.sketches import StoredValue

_TYPES = {"key": "a string, an integer or binary", "value": "binary"}
_OTHERS = ("token_count", "group", "part")  # optional columns


class Imported(NamedTuple):
    """An unchecked record of a file."""

    key: Any
    group: Any
    stored: StoredValue
    part: Any = None
    is_one_of_several: bool | None = None  # True for an unnamed code beside other codes of its key


class FingerprintFiles:
    """The files at some paths, sorted by name. Raises ParameterError without files, FormatError for one without fingerprints."""

    def __init__(self, paths: Any) -> None:
        given = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else check_many("paths", paths)
        self._pyarrow = fingerprint_files.pyarrow()
        self._paths = [path for one in given for path in _parquet_files(one)]
        if not self._paths:
            raise ParameterError("paths=[]: give the path of a Parquet file, or of a folder of them")
        self._settings: dict[str, dict[str, Any]] = {}
        self._required: tuple[Scheme, TextRules] | None = None
        self._has_parts = False
        for path in self._paths:
            with self._opened(path) as file:
                with self._readable(path):
                    schema = file.schema_arrow
                self._check_columns(schema, path)
                self._has_parts |= "part" in schema.names
                self._settings[path] = fingerprint_files.settings_in(schema, path)

    @property
    def scheme(self) -> Scheme:
        """The scheme of the first file."""
        return scheme_from_settings(self._settings[self._paths[0]])

    @property
    def rules(self) -> TextRules:
        """The text rules of the first file. Raises MismatchError if they name custom functions."""
        return TextRules.from_settings(self._settings[self._paths[0]])

    def require(self, scheme: Scheme, rules: TextRules) -> None:
        """Raise MismatchError if a file has fingerprints of other settings. The result is cached, because each batch asks."""
        if self._required is not None and self._required[0] is scheme and self._required[1] is rules:
            return
        for path, settings in self._settings.items():
            fingerprint_files.require_values(settings, scheme, rules, path)
        self._required = scheme, rules

    def _check_columns(self, schema: Any, path: str) -> None:
        types = self._pyarrow.types
        for name in (*_TYPES, *_OTHERS):
            if schema.names.count(name) > 1:
                raise FormatError(f"{path} has several columns {name!r}: give files of fingerprints")
        for name, kind in _TYPES.items():
            if name not in schema.names:
                raise FormatError(f"{path} has no column {name!r}: give files of fingerprints")
            kind_found = schema.field(name).type
            key_tests = (types.is_string, types.is_large_string, types.is_integer)
            is_key = name == "key" and any(test(kind_found) for test in key_tests)
            if not (is_key or types.is_binary(kind_found) or types.is_large_binary(kind_found)):
                raise FormatError(f"{path}: the column {name!r} is {kind_found}, but must be {kind}")

    def records(self) -> Iterator[Imported]:
        return _grouped_by_key(self._records()) if self._has_parts else self._records()

    def _records(self) -> Iterator[Imported]:
        for path in self._paths:
            with self._opened(path) as file:
                names = [name for name in (*_TYPES, *_OTHERS) if name in file.schema_arrow.names]
                missing = sum(group.num_rows for group in _row_groups(file))
                for columns in self._batches(path, file, names):
                    nulls = [None] * len(columns["key"])
                    missing -= len(nulls)
                    stored = map(StoredValue, columns["value"], columns.get("token_count", nulls))
                    yield from map(Imported, columns["key"], columns.get("group", nulls), stored, columns.get("part", nulls))
                if missing:  # the reader skips pages of unknown types
                    raise FormatError(f"{path!r} is damaged: it says that it has {missing:,} rows more than it has")

    def _opened(self, path: str) -> Any:
        with self._readable(path):
            return self._pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)

    def _batches(self, path: str, file: Any, names: list[str]) -> Iterator[dict[str, list[Any]]]:
        batches = file.iter_batches(_batch_rows(file), columns=names)
        while True:
            with self._readable(path):
                batch = next(batches, None)
                if batch is None:
                    return
                columns = {name: batch.column(name).to_pylist() for name in names}
            yield columns

    @contextmanager
    def _readable(self, path: str) -> Iterator[None]:
        try:
            yield
        except (self._pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # UnicodeDecodeError: in a name or a string
            raise FormatError(f"{path!r} cannot be read as Parquet: {error}") from error


def _grouped_by_key(records: Iterator[Imported]) -> Iterator[Imported]:
    """Mark unnamed codes with other codes of the same key. Rows of a key are adjacent."""
    before: Imported | None = None
    for record, after in pairwise(chain(records, (None,))):
        assert record is not None
        neighbours = [one for one in (before, after) if one is not None]
        is_one_of_several = any(type(one.key) is type(record.key) and one.key == record.key for one in neighbours)
        yield record._replace(is_one_of_several=True) if is_one_of_several and record.part is None else record
        before = record


def _parquet_files(given: Any) -> Iterable[str]:
    """A file, or all Parquet files in a folder and its subfolders, except names that begin with a dot or an underscore."""
    if not isinstance(given, (str, bytes, os.PathLike)):
        raise ParameterError(f"paths has {quoted(given)}, of type {type(given).__name__}: give paths of files or folders")
    path = os.fsdecode(given)
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise ParameterError(f"{path!r} is no file: give the path of a Parquet file, or of a folder of them")
        return [check_path(path)]
    files = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name[0] not in "._"]
        files += [os.path.join(folder, name) for name in names if name.endswith(".parquet") and name[0] not in "._"]
    if not files:
        raise ParameterError(f"{path!r} has no file *.parquet: give the folder that fingerprints were written to")
    return sorted(files)


def _batch_rows(file: Any) -> int:
    """The number of rows of a batch's size, by the mean row size of the largest row group."""
    mean = max((group.total_byte_size / max(group.num_rows, 1) for group in _row_groups(file)), default=1)
    return max(1, min(limits.BATCH_RECORDS, int(limits.IMPORTED_BYTES / max(mean, 1))))


def _row_groups(file: Any) -> list[Any]:
    return [file.metadata.row_group(i) for i in range(file.num_row_groups)]
