"""Where the parts of the command line that read records meet: formats beside formats, one option beside another."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from neardup_db.cli import main

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


# ---- what stays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[1, 2, 3, 4, 5], ["a", None, "c", None, "e"]])
def test_lists_of_a_table_that_cannot_be_compared_are_named(tmp_path: Path, ids: list[object]) -> None:
    """A value that is a list is an error that names its row, also of a table whose later rows are left out."""
    table = table_file(tmp_path / "a.parquet", uid=ids, text=[FOX, CAT, FOX, OWL, CAT], tags=[[n] for n in range(5)])
    told = refused("dedup", table, "-o", tmp_path / "o.parquet", "--keep", "by:tags", "--id-field", "uid", "--on-error", "skip")
    assert f"{table}, row 1: --keep by:tags: field 'tags' is [0], numbers or text are needed" in told
    assert not (tmp_path / "o.parquet").exists()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_field_of_the_text_can_choose(tmp_path: Path, kind: str) -> None:
    """The field of --keep may be one of several that make the text, in each format."""
    records = [{"id": n, "title": title, "body": FOX} for n, title in enumerate(["b", "c", "a"], 1)]
    path, output = tmp_path / f"a.{kind}", tmp_path / f"o.{kind}"
    if kind == "csv":
        csv_file(path, ["id", "title", "body"], *(list(record.values()) for record in records))
    elif kind == "jsonl":
        json_file(path, *records)
    else:
        table_file(path, **{name: [record[name] for record in records] for name in records[0]})
    for keep, stays in (("by:title", 2), ("by:-title", 3)):
        good("dedup", path, "-o", output, "--force", "--text-field", "title", "--text-field", "body", "--keep", keep)
        if kind == "parquet":
            assert pa.parquet.read_table(output).column("id").to_pylist() == [stays]
        else:
            assert output.read_text().splitlines()[-1] == path.read_text().splitlines()[stays - (kind == "jsonl")]


def test_a_member_that_is_the_text_can_choose(tmp_path: Path) -> None:
    """A member of an object can be the text, and the field of --keep."""
    first = json_file(tmp_path / "a.jsonl", {"doc": {"text": FOX}}, {"doc": {"text": FOX + "!"}})
    good("dedup", first, "-o", tmp_path / "o.jsonl", "--text-field", "doc.text", "--keep", "by:doc.text")
    assert json.loads((tmp_path / "o.jsonl").read_text()) == {"doc": {"text": FOX + "!"}}


def test_nan_among_dates_of_csv_is_no_value(tmp_path: Path) -> None:
    """nan loses against every value of CSV, also where the values are compared as text."""
    path = csv_file(tmp_path / "a.csv", ["id", "text", "day"], [1, FOX, "nan"], [2, FOX, "2025-01-31"], [3, FOX, "NaN"])
    good("dedup", path, "-o", tmp_path / "o.csv", "--keep", "by:day")
    assert (tmp_path / "o.csv").read_text() == f"id,text,day\n2,{FOX},2025-01-31\n"


def test_a_record_with_a_key_has_no_id_to_choose_by(tmp_path: Path) -> None:
    """--keep by:id does not take the field `key` for `id`, though both may name a record."""
    path = json_file(tmp_path / "a.jsonl", {"key": "z", "text": FOX}, {"id": "b", "text": FOX}, {"id": "a", "text": FOX})
    good("dedup", path, "-o", tmp_path / "o.jsonl", "--keep", "by:id")
    assert json.loads((tmp_path / "o.jsonl").read_text())["id"] == "b"
