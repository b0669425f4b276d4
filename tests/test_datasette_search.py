"""Promise: a query on another program's connection is answered as the index itself answers it, to the last digit."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from foreign import answers, answers_elsewhere
from support import CASES, Case

from neardup_db import BinaryCode, CorruptIndexError, Index, MismatchError, ParameterError, SimHash, TextRules
from neardup_db.datasette.foreign import ForeignDatabase, TookTooLong, index_names, load_functions, open_reader

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon".split()  # noqa: SIM905

BLOCKS = {
    "blocks-narrow": Case("", BinaryCode(bits=64, max_distance=5), TextRules(), bytes, None, codes=True),  # type: ignore[arg-type]
    "blocks-wide": Case("", SimHash(bits=128, max_distance=3, blocks=5), TextRules(shingle=1, hash="md5"), str, None),  # type: ignore[arg-type]
}
"""Buckets by blocks, of codes that are numbers and of wider ones."""

ALL = {**CASES, **BLOCKS}


def _content(case: Case, pick: random.Random, seeds: list[Any]) -> Any:
    """A text or code near one of a few others."""
    content = pick.choice(seeds)
    if case.codes:
        bits = case.scheme.bits
        number = int.from_bytes(content, "big")
        for _ in range(pick.randrange(case.scheme.max_distance + 2)):
            number ^= 1 << pick.randrange(bits)
        return number.to_bytes(bits // 8, "big")
    words = content.split()
    for _ in range(pick.randrange(4)):
        words[pick.randrange(len(words))] = pick.choice(WORDS)
    return " ".join(words)


def _fill(path: Path, case: Case, pick: random.Random) -> tuple[list[dict[str, Any]], list[Any]]:
    """A file with documents near each other, in groups too, some expired; questions and the index's own answers."""
    if case.codes:
        seeds = [pick.randbytes(case.scheme.bits // 8) for _ in range(6)] + [b"\xff" * (case.scheme.bits // 8)]
    else:
        seeds = [" ".join(pick.sample(WORDS, 12)) for _ in range(6)]
    subject = "code" if case.codes else "text"
    with Index(path, case.scheme, text=None if case.codes else case.rules, store_text=case.store_text) as index:
        add = index.add_code if case.codes else index.add
        with index.transaction():
            for number in range(250):
                group = pick.choice([None, None, "g", 7])
                expires = pick.choice([None, None, None, time.time() - 10])
                add(f"k{number}" if number % 5 else number, _content(case, pick, seeds), group=group, expires_at=expires)
        questions: list[dict[str, Any]] = []
        for _ in range(40):
            content = _content(case, pick, seeds)
            more = pick.choice([{}, {"group": "g"}, {"group": 7}, {"limit": 3}, {"group": "unknown"}, {"threshold": 0.98}])
            questions.append({subject: content.hex() if case.codes else content, **more})
        if not case.codes:
            questions += [{"text": ""}, {"text": "one"}]
        if case.contains is not None:
            texts = [question["text"] for question in questions[:20]]
            questions += [{"text": text, "measure": "containment", "threshold": 0.3} for text in texts]
        ask = index.query_code if case.codes else index.query
        expected = []
        for question in questions:
            options = dict(question)
            matches = ask(options.pop(subject), **options)
            expected.append([[one.key, one.similarity, one.distance] for one in matches])
    assert sum(map(bool, expected)) >= 8, "most questions must have an answer"
    return questions, expected


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("module", ["pysqlite3", "sqlite3"])
def test_foreign_connection_answers_as_the_index(tmp_path: Path, name: str, module: str) -> None:
    """Every scheme and plan, in both SQLite libraries: the same keys, similarities and distances, in the same order."""
    path = tmp_path / "index.db"
    questions, expected = _fill(path, ALL[name], random.Random(7))
    if module == "sqlite3":
        assert answers_elsewhere(path, "neardup", questions) == expected
    else:
        assert answers(pytest.importorskip(module), path, "neardup", questions) == expected


class ByName(sqlite3.Cursor):
    """A cursor as Python 3.14 has it."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if ":" in sql and not isinstance(parameters, dict):
            raise sqlite3.ProgrammingError("a named parameter, but you supplied a sequence")
        return super().execute(sql, parameters)


class Strict(sqlite3.Connection):
    """A connection with such cursors."""

    def cursor(self, factory: Any = ByName) -> Any:
        return super().cursor(factory)


def test_values_of_names_go_by_their_names() -> None:
    """A sequence of values for named parameters, in their order, serves a sqlite3 that refuses sequences for them."""
    database = ForeignDatabase(sqlite3.connect(":memory:", factory=Strict))
    assert database.rows("SELECT :b, :a, :b", (1, 2)) == [(1, 2, 1)]
    assert database.rows("SELECT ?, ?", (1, 2)) == [(1, 2)] and database.rows("SELECT :a", {"a": 3}) == [(3,)]
    database.connection.close()


def test_keys_of_block_tables_are_what_they_are_meant_to_be() -> None:
    """The two block cases above have buckets by blocks, one of codes that are numbers and one of wider ones."""
    narrow = ALL["blocks-narrow"].scheme
    assert narrow.plan == "blocks"
    assert ALL["blocks-wide"].scheme.plan == "blocks"


def _reader(path: Path, name: str = "neardup") -> Any:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    problem = load_functions(connection)
    if problem:
        pytest.skip(problem)
    return open_reader(ForeignDatabase(connection), name)


def test_bounds_are_those_of_the_index(tmp_path: Path) -> None:
    """A threshold below the index's own is refused, as the index refuses it."""
    path = tmp_path / "index.db"
    Index(path, CASES["bottomk"].scheme, text=CASES["bottomk"].rules).close()
    with pytest.raises(ParameterError, match="below 0.5"):
        _reader(path).query("alpha beta", threshold=0.1)


def test_a_rebuild_by_another_program_is_followed(tmp_path: Path) -> None:
    """A reader that was opened before a rebuild answers by the new settings."""
    path = tmp_path / "index.db"
    text = "alpha beta gamma delta epsilon zeta eta theta"
    with Index(path, SimHash(max_distance=3), store_text=True) as index:
        index.add("a", text)
    reader = _reader(path)
    assert [one.distance for one in reader.query(text)] == [0]
    code = "import sys; from neardup_db import Index, MinHash; i = Index(sys.argv[1]); i.rebuild(MinHash()); i.close()"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=tmp_path)
    assert [(one.similarity, one.distance) for one in reader.query(text)] == [(1.0, None)]


def split(text: str) -> list[str]:
    """Text rules of an application's own."""
    return text.split()


def test_a_callable_in_the_settings_is_named(tmp_path: Path) -> None:
    """Text rules that only the application knows are refused with their name."""
    path = tmp_path / "index.db"
    Index(path, CASES["minhash"].scheme, text=TextRules(tokens=split)).close()
    with pytest.raises(MismatchError, match="split"):
        _reader(path)


def test_a_query_ends_at_the_time_limit(tmp_path: Path) -> None:
    """A statement that would run for seconds ends with TookTooLong, and the connection can be used again."""
    connection = sqlite3.connect(":memory:")
    db = ForeignDatabase(connection)
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000000) SELECT count(*) FROM n"
    with pytest.raises(TookTooLong, match="time limit"), db.time_limit(0.05):
        db.rows(long)
    with db.time_limit(60.0):
        assert db.rows("SELECT 1") == [(1,)]


def test_names_of_a_stranger_never_reach_sql(tmp_path: Path) -> None:
    """A table whose name is no index's is not taken for one."""
    path = tmp_path / "index.db"
    connection = sqlite3.connect(path)
    for table in ('x" ; DROP TABLE y; --', "good"):
        for part in ("setting", "fingerprint"):
            quoted = f"{table}_{part}".replace('"', '""')
            connection.execute(f'CREATE TABLE "{quoted}" (name, value)')
    assert index_names(ForeignDatabase(connection)) == ["good"]
    with pytest.raises(CorruptIndexError, match="schema_version"):
        open_reader(ForeignDatabase(connection), "good")
