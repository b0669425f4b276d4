"""Where the parts of the command line that read records meet: formats beside formats, one option beside another."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from neardup_db.cli import main
from neardup_db.cli.inputs.opening import open_source
from neardup_db.cli.inputs.records import ChangedError, ReadOptions

FOX = "the quick brown fox jumps over the lazy dog near the river bank"
CAT = "a cat sat on the mat and looked at the birds in the old tree"
OWL = "at night the owl flies over the silent fields and hunts for mice"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def good(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> str:
    """The one sentence with which a command refuses."""
    result = run(*arguments)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
    return result.stderr


def json_file(path: Path, *records: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def csv_file(path: Path, *rows: list[object]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def table_file(path: Path, **columns: list[object]) -> Path:
    pa.parquet.write_table(pa.table(columns), path, row_group_size=2)
    return path


# ---- pairs of records --------------------------------------------------------------------------------------------------


def test_pairs_reads_each_file_of_csv_by_its_own_columns(tmp_path: Path) -> None:
    """A record that is read again has the text of its own file's column, whatever the columns of the first file."""
    one = csv_file(tmp_path / "a.csv", ["id", "text"], [1, FOX], [2, CAT])
    other = csv_file(tmp_path / "b.csv", ["text", "id", "more"], [FOX, 3, ""], [OWL, 4, ""])
    assert good("pairs", one, other).stdout == "1.0000\t\t1\t3\n"
