"""Opening an index: what is created, what is opened, what is refused and with which words."""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import one_test

from neardup_db import (
    BinaryCode,
    BitSampling,
    BottomK,
    ClosedError,
    CorruptIndexError,
    FormatError,
    Index,
    Match,
    MinHash,
    MismatchError,
    ParameterError,
    ReadOnlyError,
    SimHash,
    TextRules,
)

TEXT = "the quick brown fox jumps over the lazy dog"


def made(path: Path, scheme: Any = None, **more: Any) -> Path:
    """A file with an index of two documents."""
    with Index(path, scheme or MinHash(threshold=0.8), **more) as index:
        index.add("a", TEXT)
        index.add("b", "something else altogether, of other words")
    return path


def split_commas(text: str) -> list[str]:
    """A tokenizer that a file can remember by its name."""
    return text.split(",")


def split_semicolons(text: str) -> list[str]:
    """Another one."""
    return text.split(";")


def md5(data: bytes) -> bytes:
    """A hash of the application's."""
    return hashlib.md5(data).digest()


# ---- wrong arguments ---------------------------------------------------------------------------------------------------


@one_test(kind=[str, Path, os.fsencode])
def test_kinds_of_paths(path: Path, kind: Callable[[Path], Any]) -> None:
    """A path is a str, bytes or a Path."""
    with Index(kind(path), MinHash()) as index:
        index.add("a", TEXT)
    assert path.exists()
    with Index(kind(path)) as index:
        assert list(index) == ["a"]


# ---- missing, empty, foreign, damaged ----------------------------------------------------------------------------------


@one_test(
    ("target", "options", "told"),
    [
        *(("index.db", more, "holds no index yet: give a scheme") for more in ({}, {"read_only": True}, {"attach": True})),
        ("index.db", {"scheme": MinHash(), "read_only": True}, "read_only=True cannot create it"),
        (".", {"scheme": MinHash()}, "is a folder"),
        ("missing/index.db", {"scheme": MinHash()}, "missing"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, target: str, options: dict[str, Any], told: str) -> None:
    """Where there is no index, and none can be made, the message says what to give; no file and no folder is left."""
    with pytest.raises(ParameterError, match=told):
        Index(tmp_path / target, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    """An empty file becomes an index if a scheme is given; else it is refused and stays as it is."""
    path.touch()
    with pytest.raises(ParameterError, match="holds no index yet: give a scheme"):
        Index(path)
    assert path.read_bytes() == b""
    made(path)
    with Index(path) as index:
        assert len(index) == 2


@one_test(
    ("scheme", "text"),
    [
        (SimHash(bits=128), None),
        (MinHash(), TextRules(tokens=lambda text: text.split())),
        (MinHash(), TextRules(hash=lambda data: data[:8].ljust(8))),
    ],
)
def test_what_cannot_be_created_leaves_nothing(path: Path, scheme: Any, text: Any) -> None:
    """Where scheme and text rules do not go together, or cannot be stored, there is no file afterwards."""
    with pytest.raises(ParameterError):
        Index(path, scheme, text=text)
    assert list(path.parent.iterdir()) == []


@one_test(
    content=[b"hello", b"\0" * 100, b"\0" * 5000, bytes(range(256)) * 40, b"SQLite format 3\0" * 300],
    more=[{}, {"scheme": MinHash()}, {"read_only": True}, {"scheme": MinHash(), "attach": True}],
)
def test_a_file_that_is_no_database(path: Path, content: bytes, more: dict[str, Any]) -> None:
    """A file of anything else is a FormatError or damaged, and is not touched."""
    path.write_bytes(content)
    with pytest.raises((FormatError, CorruptIndexError)):
        Index(path, **more)
    assert path.read_bytes() == content


def test_a_truncated_file_is_damaged(path: Path) -> None:
    """Wherever a file was cut, opening or checking it says so; it never answers as if nothing were missing."""
    with Index(path, MinHash(threshold=0.8), store_text=True) as index:
        index.add_many((number, f"{number} {TEXT} {number * 7}") for number in range(300))
    data = path.read_bytes()
    ends = len(data) // 2, len(data) - 4096, len(data) - 2000
    for size in (1, 15, 16, 50, 99, 100, 511, 512, 1000, 4095, 4096, 5000, 8192, *ends):
        cut = path.with_name(f"cut{size}.db")
        cut.write_bytes(data[:size])
        try:
            with Index(cut) as index:
                problems = index.check().problems
        except (FormatError, CorruptIndexError):
            continue
        assert problems, size


def test_another_programs_database_needs_attach(path: Path) -> None:
    """Nothing is put into another program's database unless attach=True; then its tables and its numbers stay."""
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE notes (x); INSERT INTO notes VALUES (1); PRAGMA user_version = 7; PRAGMA application_id = 99")
    other.close()
    for more in ({"scheme": MinHash()}, {}):
        with pytest.raises(FormatError, match=r"another program's database.*attach=True"):
            Index(path, **more)
    with pytest.raises(FormatError):
        Index(path, attach=True)
    made(path, attach=True)
    with Index(path) as index:
        assert len(index) == 2
        assert index.connection.execute("SELECT x FROM notes").get == 1
        assert index.connection.execute("PRAGMA user_version").get == 7
        assert index.connection.execute("PRAGMA application_id").get == 99


def test_a_file_of_ours_says_so(path: Path) -> None:
    """A file that the index created has our application id; user_version is never written."""
    with Index(made(path)) as index:
        assert index.connection.execute("PRAGMA application_id").get == 0x4E445550
        assert index.connection.execute("PRAGMA user_version").get == 0
        assert index.connection.execute("PRAGMA journal_mode").get == "wal"


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_is_the_level_of_synchronous(path: Path, durability: str, level: int) -> None:
    """ "full" is FULL and "normal" is NORMAL."""
    with Index(path, MinHash(), durability=durability) as index:
        assert index.connection.execute("PRAGMA synchronous").get == level


# ---- the file's parameters ---------------------------------------------------------------------------------------------


@one_test(
    ("created", "asked", "words"),
    [
        ({"scheme": MinHash(threshold=0.8)}, {"scheme": MinHash(threshold=0.7)}, ["threshold=0.7", "0.8"]),
        ({"scheme": MinHash(num_perm=128)}, {"scheme": MinHash(num_perm=64)}, ["num_perm=64", "128"]),
        ({"scheme": MinHash()}, {"scheme": MinHash(seed=5)}, ["seed=5", "the file has 1"]),
        ({"scheme": MinHash()}, {"scheme": MinHash(exact=True)}, ["exact=True", "False"]),
        ({"scheme": MinHash()}, {"scheme": MinHash(threshold=0.8, bands=20, rows=5)}, ["bands=20", "12"]),
        ({"scheme": MinHash()}, {"scheme": SimHash()}, ["SimHash", "MinHash"]),
        ({"scheme": SimHash()}, {"scheme": SimHash(max_distance=4)}, ["max_distance=4", "3"]),
        ({"scheme": SimHash()}, {"scheme": SimHash(bits=32)}, ["bits=32", "64"]),
        ({"scheme": BottomK()}, {"scheme": BottomK(k=64)}, ["k=64", "128"]),
        ({"scheme": BottomK()}, {"scheme": BottomK(measure="estimate")}, ["measure='estimate'", "'fingerprint'"]),
        ({"scheme": BottomK()}, {"scheme": BottomK(containment=True)}, ["containment=True", "False"]),
        ({"scheme": BottomK(containment=True)}, {"scheme": BottomK(containment=False)}, ["containment=False", "True"]),
        ({"scheme": BitSampling()}, {"scheme": BitSampling(bits=128)}, ["bits=128", "256"]),
        ({"scheme": BitSampling()}, {"scheme": BitSampling(max_distance=30)}, ["max_distance=30", "37"]),
        ({"scheme": MinHash()}, {"text": TextRules(shingle=5)}, ["shingle=5", "3"]),
        ({"scheme": MinHash(), "text": TextRules(stopwords=["the"])}, {"text": TextRules(stopwords=[])}, ["stopwords=()", "the"]),
        ({"scheme": MinHash()}, {"text": TextRules.chars()}, ["tokens='chars'", "'words'", "shingle=5", "3"]),
        ({"scheme": MinHash(), "store_text": True}, {"store_text": False}, ["store_text=False", "True"]),
        ({"scheme": MinHash()}, {"store_text": True}, ["store_text=True", "False"]),
        ({"scheme": MinHash()}, {"record_matches": False}, ["record_matches=False", "True"]),
        ({"scheme": MinHash(), "window": 5}, {"window": 6}, ["window=6", "the file has 5", "set_window()"]),
    ],
)
def test_other_parameters_than_the_files(path: Path, created: dict[str, Any], asked: dict[str, Any], words: list[str]) -> None:
    """A parameter given that the file has otherwise is a MismatchError with its name, both values and the remedy."""
    Index(path, **created).close()
    before = path.read_bytes()
    with pytest.raises(MismatchError) as caught:
        Index(path, **asked)
    for word in [*words, "rebuild()"]:
        assert word in str(caught.value)
    assert path.read_bytes() == before


@one_test(
    asked=[
        {},
        {"scheme": MinHash()},
        {"scheme": MinHash(num_perm=64)},
        {"scheme": MinHash(threshold=0.6, num_perm=64, seed=9, exact=True)},
        {"text": TextRules()},
        {"text": TextRules(stopwords=["of", "the"])},
        {"text": TextRules(shingle=2, strip_accents=True)},
        {"store_text": True, "record_matches": False},
    ]
)
def test_parameters_that_are_not_given_are_not_compared(path: Path, asked: dict[str, Any]) -> None:
    """Only what is written down counts; the rest comes from the file."""
    scheme = MinHash(threshold=0.6, num_perm=64, seed=9, exact=True)
    rules = TextRules(shingle=2, strip_accents=True, stopwords=["the", "of"])
    Index(path, scheme, text=rules, store_text=True, record_matches=False).close()
    with Index(path, **asked) as index:
        found = index.scheme
        assert isinstance(found, MinHash)
        assert (found.threshold, found.num_perm, found.seed, found.exact) == (0.6, 64, 9, True)
        assert (index.text_rules.shingle, index.text_rules.strip_accents) == (2, True)
        assert index.text_rules.stopwords == ("of", "the")


def test_callables_must_be_given_again(path: Path) -> None:
    """A file remembers its tokenizer, filter and hash by name: without the same ones it is a MismatchError that names both."""
    own: dict[str, Any] = {"tokens": split_commas, "filter": len, "hash": md5}
    with Index(path, MinHash(threshold=0.5), text=TextRules(shingle=1, **own)) as index:
        index.add("a", "one, two,three")
        assert index.stats()["settings"]["text.tokens"] == f"callable:{__name__}:split_commas"
    for wrong, named in (
        (None, "split_commas"),
        (TextRules(shingle=1), "split_commas"),
        (TextRules(**own | {"tokens": split_semicolons}), "split_commas.*split_semicolons"),
        (TextRules(**own | {"filter": None}), "filter"),
        (TextRules(**own | {"hash": "md5"}), "hash"),
    ):
        with pytest.raises(MismatchError, match=named):
            Index(path, text=wrong)
    with Index(path, text=TextRules(**own)) as index:
        assert [one.key for one in index.query("ONE, TWO,three")] == ["a"]
        assert index.query("one two three") == []


# ---- several indexes, and the application's own database ---------------------------------------------------------------


def test_two_indexes_in_one_file(path: Path) -> None:
    """Indexes of different names share a file and know nothing of each other."""
    with Index(path, MinHash(), name="news") as news, Index(path, BinaryCode(bits=64), name="images") as images:
        news.add("a", TEXT)
        images.add_code("a", 5)
        images.add_code("b", 7)
        assert (list(news), list(images)) == (["a"], ["a", "b"])
        assert news.delete("a") and len(images) == 2
    with pytest.raises(FormatError, match=r"no index named 'neardup'. It holds: images, news"):
        Index(path)
    with Index(path, name="images") as images:
        assert [one.key for one in images.query_code(4)] == ["a", "b"]
        assert images.check().ok


def test_a_name_in_other_letters_is_the_same_index(path: Path) -> None:
    """SQLite's names know no upper and lower case, so 'News' opens 'news', and both count on in the same way."""
    with Index(path, MinHash(), name="news") as index:
        index.add_many([("a", TEXT), ("b", "some other text of five words")])
    with Index(path, name="News") as index:
        assert [one.key for one in index.add("c", TEXT)] == ["a"]
        index.add_many([("d", TEXT), ("e", "quite different words in this one")])
        assert list(index) == ["a", "b", "c", "d", "e"]
        assert index.check().ok


def test_an_index_goes_with_the_applications_own_transaction(path: Path) -> None:
    """In the application's connection the index is rolled back, and committed, together with its tables."""
    app = apsw.Connection(str(path))
    app.execute("CREATE TABLE article (url)")
    with Index(app, MinHash(threshold=0.8)) as index:
        app.execute("BEGIN IMMEDIATE")
        app.execute("INSERT INTO article VALUES ('u')")
        index.add("u", TEXT)
        index.add("v", TEXT)
        assert [one.keys for one in index.clusters()] == [("u", "v")]
        app.execute("ROLLBACK")
        assert len(index) == 0 and app.execute("SELECT count(*) FROM article").get == 0
        with app:
            app.execute("INSERT INTO article VALUES ('u')")
            index.add("u", TEXT)
        assert index.query(TEXT) == [Match("u", 1.0, None)]
    assert app.execute("SELECT url FROM article JOIN neardup_document ON key = url").get == "u"
    assert app.execute("PRAGMA application_id").get == 0
    app.close()


@pytest.mark.parametrize("send", [lambda index: pickle.loads(pickle.dumps(index)), copy.copy, copy.deepcopy])
def test_a_sent_index_is_an_index_of_its_own(path: Path, send: Callable[[Index], Index], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickled or copied, an index of a file is another one with the same path and options, wherever the current folder is."""
    monkeypatch.chdir(path.parent)
    options: dict[str, Any] = {"name": "news", "store_text": True, "durability": "normal", "timeout": 7.5}
    with Index(path.name, MinHash(threshold=0.5), text=TextRules(tokens=split_commas, shingle=1), **options) as index:
        index.add("a", "one,two,three")
        monkeypatch.chdir("/")
        with send(index) as other:
            assert other.query("one,two,three") == [Match("a", 1.0, None)]
            other.add("b", "four,five")
            assert (other.name, other.scheme, other.text_rules) == ("news", index.scheme, index.text_rules)
            assert other.connection is not index.connection
            assert other.connection.execute("PRAGMA synchronous").get == 1
            assert other.get("b").text == "four,five"
            assert repr(other.__reduce__()) == repr(index.__reduce__())
        assert list(index) == ["a", "b"]
    rules = TextRules(tokens=split_commas)
    with Index(path, name="news", text=rules, read_only=True) as index, send(index) as other, pytest.raises(ReadOnlyError):
        other.delete("a")


def test_a_sent_index_creates_no_file(path: Path) -> None:
    """Where the file is gone meanwhile, what was pickled opens nothing and makes nothing."""
    with Index(path, MinHash()) as index:
        sent = pickle.dumps(index)
    path.unlink()
    with pytest.raises(ParameterError, match="holds no index yet"):
        pickle.loads(sent)
    assert list(path.parent.iterdir()) == []


def test_an_index_that_cannot_be_sent_says_why(path: Path) -> None:
    """One in memory, or on a connection of the caller's, has no path to send; a closed one is not opened again."""
    for target in (":memory:", apsw.Connection(str(path))):
        with Index(target, MinHash()) as index:
            for send in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="has no path that another process.*give Index the path of a file"):
                    send(index)
    index = Index(path)
    index.close()
    with pytest.raises(ClosedError, match="send the path, and open it there"):
        pickle.dumps(index)


POOL = """
import multiprocessing, sys
from neardup_db import Index, MinHash

def work(index, number):
    with index:
        index.add(number, f"the worker number{number} was here on day{number}")
        return sum(isinstance(key, str) for key in index)

if __name__ == "__main__":
    with Index(sys.argv[2], MinHash()) as index:
        index.add_many([("a", "one two three four"), ("b", "something else altogether")])
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            print(pool.starmap(work, [(index, number) for number in range(6)]))
        print(sorted(map(str, index)))
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_get_the_index_of_their_parent(path: Path, method: str) -> None:
    """An index among the arguments of a pool's calls is opened by each process, however it was started."""
    script = path.with_name("pool.py")
    script.write_text(POOL, "utf-8")
    run = subprocess.run([sys.executable, script, method, path], capture_output=True, text=True, timeout=100, cwd=path.parent)
    assert run.stdout.splitlines() == [str([2] * 6), str(["0", "1", "2", "3", "4", "5", "a", "b"])], run.stderr
