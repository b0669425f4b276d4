"""Clients that have nothing of Python's: the stock sqlite3 shell, and the sqlite3 module of an interpreter without our packages.

`inspect.sql` is run by the shell on files that Python made of real text; every line of its answer is what Python says, numbers to
the last bit.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import components, sqlite_shell

import neardup_db
from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash, TextRules
from neardup_db.demo import documents

SCRIPT = Path(__file__).with_name("inspect.sql")
GROUP = "copies"
CASES: dict[str, dict[str, Any]] = {
    "simhash": {"scheme": SimHash(max_distance=7)},
    "minhash": {"scheme": MinHash(threshold=0.7)},
    "minhash-32": {"scheme": MinHash(threshold=0.7, slot_bits=32), "text": TextRules.chars(), "store_text": True},
    "minhash-exact": {"scheme": MinHash(threshold=0.7, exact=True)},
    "minhash-exact-text": {"scheme": MinHash(threshold=0.7, exact=True), "store_text": True},
    "bottomk": {"scheme": BottomK(k=128, threshold=0.5), "text": TextRules.words(shingle=2, stopwords=["the", "and"])},
    "bottomk-estimate": {"scheme": BottomK(k=128, threshold=0.5, measure="estimate")},
    "bottomk-containment": {"scheme": BottomK(k=128, threshold=0.5, containment=True)},
    "bitsampling": {"scheme": BitSampling()},
    "binarycode": {"scheme": BinaryCode(bits=64, max_distance=7)},
    "binarycode-wide": {"scheme": BinaryCode(bits=256, max_distance=40)},
}
CODES = {64: SimHash(), 256: BitSampling(bits=256)}
"""What gives the codes of an index of codes."""

Question = tuple[str, "float | None", "int | None", "str | None", "str | None"]  # text, threshold, limit, measure, group


@cache
def texts() -> dict[str, str]:
    return {key: text for key, text in documents() if key.endswith(("(ASV)", "(KJVPCE)", "(RWebster)", "(UKJV)", "(Webster)"))}


def coded(index: Index, text: str) -> str:
    """The text, or its code in hexadecimal, as an index takes it."""
    if index.scheme.takes_text:
        return text
    code = CODES[index.scheme.bits].fingerprint(text)  # type: ignore[attr-defined]
    return np.asarray(code).tobytes().hex()


def fill(index: Index) -> None:
    """All chapters, and once more those of Ruth, in capitals, in a group of their own."""
    for key, text in texts().items():
        records = [(key, text, None)] + ([(key + " *", text.upper(), GROUP)] if key.startswith("Ruth") else [])
        for name, content, group in records:
            metadata = {"translation": name.partition("(")[2].partition(")")[0]}
            add = index.add if index.scheme.takes_text else index.add_code
            add(name, coded(index, content), metadata=metadata, group=group)  # type: ignore[operator]


def questions(index: Index) -> list[Question]:
    """Chapters with changes, parts of chapters and what is no text, under the bounds that an index takes."""
    chapters = texts()
    changed = [chapters[key].split() for key in ("Jude 1 (ASV)", "Ruth 1 (KJVPCE)", "Jonah 3 (UKJV)", "Obadiah 1 (Webster)")]
    for words in changed:
        words[::40] = ["changed"] * len(words[::40])
    edited = [" ".join(words) for words in changed]
    found: list[Question] = [(text, None, None, None, None) for text in edited]
    found += [(text, 0.9, 3, None, None) for text in chapters.values() if text.startswith("Now")]
    found += [(chapters[key], None, 1, None, None) for key in list(chapters)[::12]]
    found += [(edited[1], None, None, None, GROUP), (edited[1], None, None, None, "no such group")]
    if index.scheme.takes_text:
        found += [("", None, None, None, None), ("...", None, 5, None, None), ("one word", None, None, None, None)]
    if getattr(index.scheme, "exact", False) or getattr(index.scheme, "containment", False):
        parts = [" ".join(words[len(words) // 3 : 2 * len(words) // 3]) for words in changed]
        found += [(text, threshold, None, "containment", None) for text in parts for threshold in (None, 0.3)]
    return [(coded(index, text), *rest) for text, *rest in found]  # type: ignore[misc]


def ask(index: Index, question: Question) -> list[neardup_db.Match]:
    text, threshold, limit, measure, group = question
    if index.scheme.takes_text:
        return index.query(text, threshold=threshold, limit=limit, measure=measure, group=group)
    return index.query_code(text, threshold=threshold, limit=limit, group=group)


def bits(number: float) -> str:
    return struct.pack(">d", number).hex().upper()


def shown(*values: Any) -> list[str]:
    return ["" if value is None else bits(value) if isinstance(value, float) else str(value) for value in values]


def said(index: Index, asked: list[Question]) -> dict[str, list[list[str]]]:
    """What Python says of all that the script asks but recorded matches, of which Python has all pairs."""
    clusters = [(cluster.representative, len(cluster), key) for cluster in index.clusters() for key in cluster.keys]
    types = {int: "integer", float: "real", str: "text", type(None): "null"}
    settings = index.connection.execute("SELECT name, value FROM neardup_setting ORDER BY name").fetchall()
    assert {name: value for name, value in settings if name != "text.stopwords"} == {
        name: value for name, value in index.stats()["settings"].items() if name != "text.stopwords"
    }
    stored = [index.get(key) for key in index]
    return {
        "document": [shown(one.key, one.group, one.token_count, (one.metadata or {})["translation"]) for one in stored],
        "cluster": [shown(*one) for one in sorted(clusters, key=lambda one: (-one[1], one[0], one[2]))],
        "setting": [[name, types[type(value)], "" if value is None else str(value)] for name, value in settings],
        "found": [
            shown(number, match.key, match.similarity, match.distance)
            for number, question in enumerate(asked, 1)
            for match in ask(index, question)
        ],
    }


def make(path: Path, case: str) -> tuple[list[Question], dict[str, list[list[str]]], dict[tuple[Any, Any], tuple[float, Any]]]:
    """A file of the case with its questions; what was asked, what Python says, and all pairs."""
    with Index(path, **CASES[case]) as index:
        with index.transaction():
            fill(index)
        asked = questions(index)
        columns = "text, threshold, max_results, measure, group_name"
        index.connection.execute(f"CREATE TABLE question (id INTEGER PRIMARY KEY, {columns})")
        insert = f"INSERT INTO question ({columns}) VALUES (?, ?, ?, ?, ?)"
        index.connection.executemany(insert, asked)
        pairs = {(pair.key_b, pair.key_a): (pair.similarity, pair.distance) for pair in index.pairs()}
        return asked, said(index, asked), pairs


@pytest.mark.parametrize("case", CASES)
def test_the_stock_shell_says_what_python_says(case: str, tmp_path: Path) -> None:
    """Documents, clusters, settings, matches and answers of neardup_search, similarities to the last bit, for every scheme."""
    path = tmp_path / "index.db"
    asked, expected, pairs = make(path, case)
    command = [sqlite_shell(), "-init", "/dev/null", "-readonly", "-cmd", f".load '{neardup_db.extension_path()}'", str(path)]
    done = subprocess.run(command, input=SCRIPT.read_text("utf-8"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    answers: dict[str, list[list[str]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        kind, *fields = line.split("\t")
        answers[kind].append(fields)
    for kind, rows in expected.items():
        assert answers[kind] == rows, kind
    recorded = [(key, other, shown(*pairs[key, other])) for key, other, *_ in answers["match"]]
    assert [[key, other, *values] for key, other, values in recorded] == answers["match"]
    assert [[key, other, values[0]] for key, other, values in recorded] == answers["measured"]
    clusters: dict[str, set[str]] = defaultdict(set)
    for representative, _, member in answers["cluster"]:
        clusters[representative].add(member)
    assert components((key, other) for key, other, _ in recorded) == set(map(frozenset, clusters.values()))
    assert len({fields[0] for fields in answers["found"]}) > 20 and len(clusters) > 20


def is_long(token: str) -> bool:
    return len(token) > 3


def test_rules_of_python_are_named_in_the_shell(tmp_path: Path) -> None:
    """A search under a rule that only Python can follow is an error that names it; the views do not need it."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), text=TextRules(filter=is_long)) as index:
        index.add("a", "some text that is long enough for shingles")
        index.add("b", "some text that is long enough for shingles!")
    script = "SELECT key, other_key FROM neardup_matches; SELECT * FROM neardup_search('neardup', 'some text');"
    command = [sqlite_shell(), "-init", "/dev/null", "-cmd", f".load '{neardup_db.extension_path()}'", str(path)]
    done = subprocess.run(command, input=script, capture_output=True, text=True)
    assert done.stdout == "b|a\n" and done.returncode == 1
    assert f"text.filter = {is_long.__module__}:is_long" in done.stderr and "from Python" in done.stderr


def loading_interpreter() -> str:
    """A Python whose sqlite3 module can load extensions: this one, or the system's."""
    test = "import sqlite3; sqlite3.Connection.enable_load_extension"
    for candidate in (sys.executable, "/usr/bin/python3", shutil.which("python3", path=os.defpath)):
        if candidate and subprocess.run([candidate, "-S", "-c", test], capture_output=True).returncode == 0:
            return candidate
    pytest.skip("no Python here has an sqlite3 module that loads extensions (Debian: apt-get install python3)")


PLAIN = """
import json, sqlite3, sys
extension, path = sys.argv[1:]
connection = sqlite3.connect(path)
connection.enable_load_extension(True)
connection.load_extension(extension)
connection.enable_load_extension(False)
sql = '''SELECT q.id, s.key, s.similarity, s.distance
         FROM question AS q, neardup_search('neardup', q.text, q.threshold, q.max_results, q.measure, q.group_name) AS s
         ORDER BY q.id, s.rowid'''
print(json.dumps([(number, key, similarity.hex(), distance) for number, key, similarity, distance in connection.execute(sql)]))
connection.close()
"""


def test_the_sqlite3_module_loads_the_extension(tmp_path: Path) -> None:
    """Python's own module, in an interpreter that knows nothing of this package, gives the same answers from the same file."""
    path = tmp_path / "index.db"
    asked, _, _ = make(path, "minhash-exact-text")
    command = [loading_interpreter(), "-S", "-I", "-c", PLAIN, neardup_db.extension_path(), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    with Index(path) as index:
        expected = [
            [number, match.key, match.similarity.hex(), match.distance]
            for number, question in enumerate(asked, 1)
            for match in ask(index, question)
        ]
    assert json.loads(done.stdout) == expected


LOADED = """
import sqlite3, apsw, neardup_db
connections = [sqlite3.connect(":memory:"), apsw.Connection(":memory:"), sqlite3.connect(":memory:")]
for connection in connections * 2:
    neardup_db.load(connection)
    print(connection.execute("SELECT neardup_hamming(1, 6), (SELECT count(*) FROM neardup_shingles('a b c d'))").fetchone())
try:
    connections[0].load_extension("/no/such/file")
except sqlite3.Error as error:
    print(error)
"""


def test_load_serves_the_sqlite3_module_beside_apsw() -> None:
    """neardup_db.load gives either library the functions, more than once, and leaves no connection open to other extensions;
    where the module cannot load extensions it says so."""
    interpreter = loading_interpreter()
    version = "import sys; print(*sys.version_info[:2])"
    theirs = subprocess.run([interpreter, "-S", "-c", version], capture_output=True, text=True, check=True).stdout.split()
    if interpreter != sys.executable:
        with pytest.raises(neardup_db.ParameterError, match="without extension loading"):
            neardup_db.load(sqlite3.connect(":memory:"))
        if theirs != list(map(str, sys.version_info[:2])):
            pytest.skip(f"{interpreter} is Python {'.'.join(theirs)} and cannot import the packages of this one")
    packages = {"PYTHONPATH": str(Path(neardup_db.__file__).parents[1])}
    done = subprocess.run([interpreter, "-c", LOADED], capture_output=True, text=True, env=os.environ | packages, cwd="/")
    assert (done.stdout.splitlines(), done.stderr) == (["(3, 2)"] * 6 + ["not authorized"], "")
