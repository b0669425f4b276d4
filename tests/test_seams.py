"""Where the parts of the command line that read records meet: formats beside formats, one option beside another."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from commands import printed, refused, run

from neardup_db.cli.inputs.opening import open_source
from neardup_db.cli.inputs.source import ChangedError, ReadOptions

FOX = "the quick brown fox jumps over the lazy dog near the river bank"
CAT = "a cat sat on the mat and looked at the birds in the old tree"
OWL = "at night the owl flies over the silent fields and hunts for mice"


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
    assert printed("pairs", one, other) == "1.0000\t\t1\t3\n"


# ---- what stays --------------------------------------------------------------------------------------------------------


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
        printed("dedup", path, "-o", output, "--force", "--text-field", "title", "--text-field", "body", "--keep", keep)
        if kind == "parquet":
            assert pa.parquet.read_table(output).column("id").to_pylist() == [stays]
        else:
            assert output.read_text().splitlines()[-1] == path.read_text().splitlines()[stays - (kind == "jsonl")]


def test_a_member_that_is_the_text_can_choose(tmp_path: Path) -> None:
    """A member of an object can be the text, and the field of --keep."""
    first = json_file(tmp_path / "a.jsonl", {"doc": {"text": FOX}}, {"doc": {"text": FOX + "!"}})
    printed("dedup", first, "-o", tmp_path / "o.jsonl", "--text-field", "doc.text", "--keep", "by:doc.text")
    assert json.loads((tmp_path / "o.jsonl").read_text()) == {"doc": {"text": FOX + "!"}}


def test_nan_among_dates_of_csv_is_no_value(tmp_path: Path) -> None:
    """nan loses against every value of CSV, also where the values are compared as text."""
    path = csv_file(tmp_path / "a.csv", ["id", "text", "day"], [1, FOX, "nan"], [2, FOX, "2025-01-31"], [3, FOX, "NaN"])
    printed("dedup", path, "-o", tmp_path / "o.csv", "--keep", "by:day")
    assert (tmp_path / "o.csv").read_text() == f"id,text,day\n2,{FOX},2025-01-31\n"


def test_a_record_with_a_key_has_no_id_to_choose_by(tmp_path: Path) -> None:
    """--keep by:id does not take the field `key` for `id`, though both may name a record."""
    path = json_file(tmp_path / "a.jsonl", {"key": "z", "text": FOX}, {"id": "b", "text": FOX}, {"id": "a", "text": FOX})
    printed("dedup", path, "-o", tmp_path / "o.jsonl", "--keep", "by:id")
    assert json.loads((tmp_path / "o.jsonl").read_text())["id"] == "b"


# ---- inputs ------------------------------------------------------------------------------------------------------------


def test_an_empty_file_of_lines_has_no_pairs(tmp_path: Path) -> None:
    """A .txt is lines of text also where it is empty, or not there: it is not taken for an index."""
    path = tmp_path / "a.txt"
    assert "no such file or folder" in refused("pairs", path)
    path.touch()
    assert run("pairs", path).exit_code == 1 and run("pairs", path).output == ""


@pytest.mark.parametrize("options", [[], ["--id-field", "uid"], ["--text-field", "body"], ["--keep", "by:n"]])
def test_a_column_twice_is_not_guessed(tmp_path: Path, options: list[str]) -> None:
    """Of two columns of one name none is taken for the text, the id, or what is compared; others may stand twice."""
    name = {"--id-field": "uid", "--text-field": "body", "--keep": "n"}[options[0]] if options else "text"
    header = [name, "text", "", name, ""]
    path = csv_file(tmp_path / "a.csv", header, ["1", FOX, "2", "3", "4"])
    assert f"columns are called {name!r}" in refused("dedup", path, "-o", tmp_path / "o.csv", *options)
    printed("dedup", csv_file(tmp_path / "b.csv", ["", "text", ""], [1, FOX, 2], [3, FOX, 4]), "-o", tmp_path / "o.csv", "--mark")
    assert (tmp_path / "o.csv").read_text() == f",text,,cluster,duplicate_of,similarity\n1,{FOX},2,1,,\n3,{FOX},4,1,b.csv:2,1.0\n"


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_file_that_is_removed_meanwhile_has_changed(tmp_path: Path, kind: str) -> None:
    """The error about a file that goes away between two passes says so, of each format."""
    path = tmp_path / f"a.{kind}"
    _ = json_file(path, {"text": FOX}) if kind == "jsonl" else table_file(path, text=[FOX])
    source = open_source([path], ReadOptions(), tmp_path)
    assert len(list(source)) == 1
    path.unlink()
    for again in (source.require_unchanged, lambda: list(source)):
        with pytest.raises(ChangedError, match="was removed while it was read"):
            again()


# ---- outputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_no_pairs_and_no_clusters_are_a_header(tmp_path: Path, ending: str) -> None:
    """CSV and TSV of pairs and clusters begin with their header, also where there are none: a reader of CSV needs it."""
    path = json_file(tmp_path / "a.jsonl", {"text": FOX}, {"text": CAT})
    pairs, clusters = tmp_path / f"pairs.{ending}", tmp_path / f"clusters.{ending}"
    printed("dedup", path, "-o", tmp_path / "o.jsonl", "--pairs", pairs, "--clusters", clusters)
    between = {"csv": ",", "tsv": "\t"}.get(ending)
    names = [["id_a", "id_b", "similarity", "line_a", "line_b"], ["cluster", "id", "kept", "line"]]
    expected = [between.join(header) + "\n" if between else "" for header in names]
    assert [pairs.read_text(), clusters.read_text()] == expected


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_bytes_of_known_records_count(tmp_path: Path, kind: str) -> None:
    """The size of the input is that of all its records, also of those that another index knows."""
    known = json_file(tmp_path / "known.jsonl", {"text": FOX})
    printed("add", tmp_path / "known.db", known)
    path = tmp_path / f"a.{kind}"
    _ = json_file(path, {"text": FOX}, {"text": CAT}) if kind == "jsonl" else table_file(path, text=[FOX, CAT])
    told = printed("dedup", path, "-o", tmp_path / f"o.{kind}", "--against", tmp_path / "known.db", "--json")
    assert json.loads(told)["input_bytes"] == (path.stat().st_size if kind == "jsonl" else len(FOX) + len(CAT))
