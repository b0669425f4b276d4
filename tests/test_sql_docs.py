"""docs/reference/sql.md: its queries give what stands there, and it names every function as it is."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import pytest
from interpreter import programs
from support import sqlite_shell

import neardup_db

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "reference" / "sql.md").read_text(encoding="utf-8")


def load_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_sql", DOCS / "write_sql.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = load_writer()
QUERIES = list(WRITER.QUERY.finditer(PAGE))
FUNCTIONS = {found["name"]: found for found in WRITER.FUNCTION.finditer(PAGE)}


def without_times(text: str) -> str:
    """With every date and time the same."""
    return re.sub(r"\d{4}-\d\d-\d\d", "DAY", re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "TIME", text))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sqlite_shell()
    folder = tmp_path_factory.mktemp("demo")
    made: Path = WRITER.make(folder, PAGE, programs(folder / "programs"))
    return made


@pytest.fixture
def db(demo: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(demo), flags=apsw.SQLITE_OPEN_READONLY)
    neardup_db.load(connection)
    yield connection
    connection.close()


def test_there_are_twenty_queries_and_no_other_block() -> None:
    """Each is numbered, has its question, its SQL and its output."""
    assert re.findall(r"^\*\*(\d+)\. .+\?\*\*", PAGE, re.MULTILINE) == [str(number) for number in range(1, 21)]
    assert len(QUERIES) == PAGE.count("```sql") == PAGE.count("```text") == 20


def test_outputs_are_what_the_shell_prints(demo: Path) -> None:
    """Run by the stock shell on the index that the page's commands make, every output is the one on the page, but for times."""
    now = WRITER.written(PAGE, demo)
    assert without_times(now) == without_times(PAGE), "run docs/write_sql.py"
    assert all(found["output"].strip() for found in [*QUERIES, *FUNCTIONS.values()])


def counts(arguments: str) -> tuple[int, int]:
    """How many arguments a signature has at least, and at most."""
    names = re.findall(r"\w+", arguments)
    return len(re.findall(r"\w+", arguments.partition("[")[0])), len(names)


def test_every_function_is_documented_as_it_is(db: apsw.Connection) -> None:
    """Name, least and most arguments and kind of each function that is registered, and no other."""
    direct_only = 0x80000
    registered: dict[str, Any] = {}
    for name, count, flags in db.execute("SELECT name, narg, flags FROM pragma_function_list WHERE name GLOB 'neardup_*'"):
        least, most, _ = registered.get(name, (count, count, None))
        registered[name] = (min(least, count), max(most, count), "index" if flags & direct_only else "pure")
    documented = {name: (*counts(found["arguments"]), found["kind"]) for name, found in FUNCTIONS.items()}
    for (name,) in db.execute("SELECT name FROM pragma_module_list WHERE name GLOB 'neardup_*'").fetchall():
        hidden = [row[0] for row in db.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 1", (name,))]
        inputs = hidden[:-1] if name == "neardup_search" else hidden  # the last column is a part, which * leaves out
        assert re.findall(r"\w+", FUNCTIONS[name]["arguments"]) == inputs
        least = next(count for count in range(len(inputs) + 1) if "too few arguments" not in called(db, name, count))
        pure = "unsafe use" not in in_a_view(name, len(inputs))
        registered[name] = (least, len(inputs), "pure" if pure else "index")
    assert documented == registered


def called(db: apsw.Connection, name: str, count: int) -> str:
    """The error of a table-valued function called with so many NULLs, if it is one."""
    try:
        db.execute(f"SELECT * FROM {name}({', '.join(['NULL'] * count)})").fetchall()
    except apsw.SQLError as error:
        return str(error)
    return ""


def in_a_view(name: str, count: int) -> str:
    """The same from a view of a schema that is not trusted."""
    db = apsw.Connection(":memory:")
    neardup_db.load(db)
    db.execute(f"PRAGMA trusted_schema = OFF; CREATE VIEW seen AS SELECT * FROM {name}({', '.join(['NULL'] * count)})")
    try:
        db.execute("SELECT * FROM seen").fetchall()
    except apsw.SQLError as error:
        return str(error)
    finally:
        db.close()
    return ""


def test_the_views_are_documented_as_they_are(db: apsw.Connection) -> None:
    """Columns of each view, in their order, and no view beside them."""
    rows = re.findall(r"^\| `(neardup_\w+s)` \| [^`]*(?:`\w+`[^|`]*)* \| (.+) \|$", PAGE, re.MULTILINE)
    documented = {name: re.findall(r"`(\w+)`", columns) for name, columns in rows}
    views = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")]
    assert documented == {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in views}
