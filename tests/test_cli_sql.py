"""The commands `neardup sql` and `neardup curve`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import FOX, good, refused, run

from neardup_db.show.theory import binomial, chances_of


def test_sql_runs_statements_with_the_functions_loaded(index: Path) -> None:
    """Rows as tab-separated lines under their names, or as JSON with blobs in hexadecimal."""
    assert good("sql", index, "SELECT key, metadata FROM neardup_documents WHERE key < 'c'") == (
        'key\tmetadata\na\t{"lang": "en"}\nb\t\n'
    )
    search = f"SELECT key FROM neardup_search('neardup', '{FOX}', 0.8, 10)"
    assert [json.loads(line)["key"] for line in good("sql", index, "--json", search).splitlines()] == ["a", "b"]
    assert json.loads(good("sql", index, "--json", "SELECT x'00ff' AS a, 1 AS a")) == {"a": {"hex": "00ff"}, "a:1": 1}


def test_sql_without_a_statement_is_a_shell(index: Path) -> None:
    """Statements come from standard input."""
    assert good("sql", index, stdin="SELECT count(*) FROM neardup_documents;\n").strip() == "4"


def test_sql_only_writes_when_told(index: Path) -> None:
    """Without --write the file is read-only, and the message names the option."""
    assert "add --write" in refused("sql", index, "DELETE FROM neardup_match")
    good("sql", index, "--write", "DELETE FROM neardup_match")
    assert "syntax error" in refused("sql", index, "SELEC 1")


def test_sql_without_write_changes_no_file(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that changes a file, or makes one, is refused with the remedy, in the shell too, and every byte stays."""
    monkeypatch.chdir(index.parent)
    before, names = index.read_bytes(), sorted(index.parent.iterdir())
    for statement in (
        "PRAGMA query_only = 0; DELETE FROM neardup_match",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = 1",
        "PRAGMA optimize",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "ATTACH 'other.db' AS other",
        "CREATE TABLE other (x)",
        "CREATE TEMP TABLE other (x)",
        "DROP TABLE neardup_match",
        "REINDEX",
    ):
        assert "add --write" in refused("sql", index, statement), statement
        told = run("sql", index, stdin=f"{statement};\n").stderr
        assert re.search("not authorized|authorization denied|readonly", told), statement
        assert index.read_bytes() == before and sorted(index.parent.iterdir()) == names, statement


def test_sql_without_write_answers_questions(index: Path) -> None:
    """Pragmas that only report, table functions and recursive queries need no --write."""
    for statement, last in (
        ("PRAGMA journal_mode", "wal"),
        ("SELECT count(*) FROM pragma_table_info('neardup_match')", "5"),
        ("PRAGMA integrity_check", "ok"),
        ("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT max(x) FROM c", "9"),
        ("BEGIN; SELECT 3; COMMIT", "3"),
    ):
        assert good("sql", index, statement).split()[-1] == last


def test_curves_follow_the_formulas() -> None:
    """Bands: 1 - (1 - s^rows)^bands; codes: the binomial distribution of bits; exact=True returns nothing below the threshold."""
    settings = {"scheme": "minhash", "num_perm": 128, "bands": 9, "rows": 4, "threshold": 0.8, "exact": 1}
    for similarity in (0.5, 0.8, 0.9):
        expected = 1 - (1 - similarity**4) ** 9
        returned = expected if similarity >= 0.8 else 0.0
        assert chances_of(settings)(similarity) == (pytest.approx(expected), pytest.approx(returned))
    sampled = chances_of({"scheme": "bitsampling", "bits": 256, "max_distance": 37, "plan": "scan"})
    assert sampled(0.8) == (1.0, pytest.approx(0.99, abs=0.002))
    simhash = chances_of({"scheme": "simhash", "bits": 64, "max_distance": 3, "plan": "blocks", "blocks": 4})
    assert [round(simhash(similarity)[1], 2) for similarity in (0.8, 0.9, 1.0)] == [0.01, 0.09, 1.0]
    assert binomial(4, 0.5).tolist() == pytest.approx([1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16])


def test_curve_prints_a_plot_and_json(index: Path) -> None:
    """A line a similarity, of an index or of parameters; one of both is needed."""
    told = [json.loads(line) for line in good("curve", index, "--from", 0.8, "--step", 0.1, "--json").splitlines()]
    assert [point["jaccard"] for point in told] == [0.8, 0.9, 1.0]
    assert told[0]["returned"] >= 0.99
    assert good("curve", "--scheme", "bottomk", "--from", 0.9).count("\n") == 5
    assert "Give either INDEX" in refused("curve")
    assert "binarycode" in refused("curve", "--scheme", "binarycode")
