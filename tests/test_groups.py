"""Groups: keys are unique whatever the group, no write touches another group, and questions go to one group or to all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pyarrow
import pytest
from cases import one_test
from commands import told as run

from neardup_db import ANY_GROUP, BinaryCode, DuplicateKeyError, Index, KeyNotFoundError, MinHash

TEXT = "the quick brown fox jumps over the lazy dog"
CODES = BinaryCode(bits=64, max_distance=3)

Write = Callable[[Index, str], Any]


def table(rows: list[dict[str, Any]]) -> pyarrow.Table:
    """As a data frame has them."""
    return pyarrow.Table.from_pylist(rows)


TEXT_WAYS: dict[str, Write] = {
    "add": lambda index, how: index.add("k", TEXT, group="b", if_exists=how),
    "add without a group": lambda index, how: index.add("k", TEXT, if_exists=how),
    "add_if_new": lambda index, how: index.add_if_new("k", TEXT, group="b", if_exists=how),
    "add_many": lambda index, how: index.add_many([{"key": "k", "text": TEXT, "group": "b"}], if_exists=how),
    "add_many without a group": lambda index, how: index.add_many([("k", TEXT)], if_exists=how),
    "add_many after others": lambda index, how: index.add_many(
        [("x", TEXT), ("y", TEXT), {"key": "k", "text": TEXT, "group": "b"}], if_exists=how
    ),
    "add_many only_new": lambda index, how: index.add_many(
        [{"key": "k", "text": TEXT, "group": "b"}], if_exists=how, only_new=True
    ),
    "a record's own word": lambda index, how: index.add_many([{"key": "k", "text": TEXT, "group": "b", "if_exists": how}]),
    "a table": lambda index, how: index.add_many(
        table([{"id": "k", "body": TEXT, "lang": "b"}]), key="id", text="body", group="lang", if_exists=how
    ),
}
CODE_WAYS: dict[str, Write] = {
    "add_code": lambda index, how: index.add_code("k", 1, group="b", if_exists=how),
    "add_code with a part": lambda index, how: index.add_code("k", 1, part="p", group="b", if_exists=how),
    "add_code_if_new": lambda index, how: index.add_code_if_new("k", 2**40, group="b", if_exists=how),
    "add_code_if_new with a part": lambda index, how: index.add_code_if_new("k", 2**40, part="p", group="b", if_exists=how),
    "add_codes": lambda index, how: index.add_codes(["k"], [1], group="b", if_exists=how),
    "add_codes without a group": lambda index, how: index.add_codes(["k"], [1], if_exists=how),
    "add_codes with a part": lambda index, how: index.add_codes(["k"], [1], part="p", group="b", if_exists=how),
    "add_codes of two groups": lambda index, how: index.add_codes(
        ["n", "k", "k"], [1, 2, 3], part=["p", "r", "q"], group=["b", "a", "b"], if_exists=how
    ),
}


def snapshot(index: Index) -> list[Any]:
    """All that documents are."""
    return [index.get(key) for key in index]


@one_test(how=["error", "replace", "ignore"], way=TEXT_WAYS, store_text=[False, True])
def test_a_key_of_another_group_is_refused(way: str, how: str, store_text: bool) -> None:
    """No way to add a text changes, or silently keeps, a document of another group that has the key."""
    with Index(":memory:", MinHash(), store_text=store_text) as index:
        index.add("k", "an entirely different text, of seven words", group="a")
        before = snapshot(index)
        with pytest.raises(DuplicateKeyError, match=r"'k' is already in group 'a', and this document is for (group 'b'|no g)"):
            TEXT_WAYS[way](index, how)
        assert snapshot(index) == before and index.check().ok


@one_test(how=["error", "replace", "ignore"], way=CODE_WAYS, part=[None, "p"])
def test_a_code_for_a_key_of_another_group_is_refused(way: str, how: str, part: str | None) -> None:
    """No way to add a code changes a document of another group that has the key, whether or not it has the part."""
    with Index(":memory:", CODES) as index:
        index.add_code("k", 2**63, part=part, group="a")
        before = snapshot(index)
        with pytest.raises(DuplicateKeyError, match="already in group 'a'"):
            CODE_WAYS[way](index, how)
        assert snapshot(index) == before and index.check().ok


@one_test(how=["error", "replace", "ignore"], given=["merge", "merge by path", "import"])
def test_documents_of_another_index_leave_other_groups_alone(tmp_path: Path, how: Any, given: str) -> None:
    """Merged and imported documents do not take the place of documents of another group."""
    path, files = tmp_path / "other.db", tmp_path / "part.parquet"
    with Index(path, MinHash()) as other, Index(":memory:", MinHash()) as index:
        other.add("k", TEXT, group="b")
        other.export_fingerprints(files)
        index.add("k", TEXT, group="a")
        before = snapshot(index)
        with pytest.raises(DuplicateKeyError, match="already in group 'a', and this document is for group 'b'"):
            if given == "import":
                index.import_fingerprints(files, if_exists=how)
            else:
                index.merge(other if given == "merge" else path, if_exists=how)
        assert snapshot(index) == before


@one_test(how=["replace", "ignore"], only_new=[False, True])
def test_a_skipped_record_of_another_group(how: Any, only_new: bool) -> None:
    """With on_error="skip" a record whose key is in another group is left out and reported, and the others are stored."""
    told: list[Any] = []
    with Index(":memory:", MinHash()) as index:
        index.add("k", "an entirely different text, of seven words", group="a")
        records = [("x", "one two three four five"), {"key": "k", "text": TEXT, "group": "b"}, ("y", "six seven eight nine ten")]
        report = index.add_many(
            records, if_exists=how, only_new=only_new, on_error="skip", on_outcome=lambda *one: told.append(one[:2])
        )
        assert (report.added, report.skipped) == (2, 1)
        assert [(one.record, one.key) for one in report.problems] == [(1, "k")] and "group 'a'" in report.problems[0].reason
        assert told == [("x", "added"), ("k", "skipped"), ("y", "added")]
        assert index.get("k").group == "a"


def test_ignored_records_of_many_groups() -> None:
    """A large load ignores the keys that its own group has, of any type of name."""
    groups = ["a", 7, b"c", None]
    records = [{"key": number, "text": f"{TEXT} {number}", "group": groups[number % 4]} for number in range(400)]
    with Index(":memory:", MinHash()) as index:
        index.add_many(records)
        report = index.add_many(records, if_exists="ignore")
        assert (report.ignored, report.added) == (400, 0)
        with pytest.raises(DuplicateKeyError, match="record 399: key 399 is already in no group, and .* for group 'a'"):
            index.add_many([*records[:399], {"key": 399, "text": TEXT, "group": "a"}], if_exists="ignore")


def test_a_followed_row_changes_its_group() -> None:
    """A row of a followed table moves to the group that its column names, one by one and in a full comparison."""
    app = apsw.Connection(":memory:")
    app.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, lang TEXT)")
    app.execute("INSERT INTO articles (body, lang) VALUES (?, 'de'), (?, 'fr')", (TEXT, TEXT))
    with Index(app, MinHash()) as index:
        index.follow("articles", group="lang")
        index.sync()
        app.execute("UPDATE articles SET lang = 'fr' WHERE id = 1")
        report = index.sync()
        assert (report.replaced, report.skipped, index.get(1).group) == (1, 0, "fr")
        assert [one.keys for one in index.clusters()] == [(2, 1)]
        app.execute("UPDATE articles SET lang = NULL")
        assert index.sync(full=True).replaced == 2
        assert {index.get(key).group for key in (1, 2)} == {None}


# ---- group= as a condition -----------------------------------------------------------------------------------------------


def test_group_as_a_condition() -> None:
    """A document of another group counts as absent for get, update and delete, and stays as it is."""
    with Index(":memory:", MinHash()) as index:
        index.add("k", TEXT, group="a")
        index.add("free", TEXT)
        for key, other in (("k", "b"), ("k", None), ("free", "a")):
            with pytest.raises(KeyNotFoundError, match="no document (of group|without a group)"):
                index.get(key, group=other)
            with pytest.raises(KeyNotFoundError):
                index.update(key, group=other, metadata={"n": 1})
            assert index.delete(key, group=other) is False
            assert index.delete_many([key], group=other) == 0
            assert index.get_many([key], group=other) == [None]
        assert [index.get(key).metadata for key in ("k", "free")] == [None, None]
        index.update("k", group="a", metadata={"n": 1})
        assert index.get("k", group="a").metadata == {"n": 1} == index.get("k", group=ANY_GROUP).metadata
        assert [one and one.key for one in index.get_many(["k", "free"], group="a")] == ["k", None]
        assert index.delete_many(["k", "free"], group="a") == 1
        assert index.delete("free", group=None) is True and len(index) == 0


def test_group_as_a_condition_on_a_part() -> None:
    """One code of several goes only from a document of the group."""
    with Index(":memory:", CODES) as index:
        index.add_codes(["k", "k"], [1, 2**40], part=["p", "q"], group="a")
        assert index.delete("k", part="p", group="b") is False and list(index.get("k").codes) == ["p", "q"]
        assert index.delete("k", part="p", group="a") is True and list(index.get("k").codes) == ["q"]


# ---- a whole group -------------------------------------------------------------------------------------------------------


def test_delete_group_reads_the_group_only() -> None:
    """delete_group reads no documents of other groups but empty texts: the plan looks each up by an index."""
    with Index(":memory:", MinHash()) as index:
        told: list[str] = []

        def trace(cursor: Any, sql: str, values: Any) -> bool:
            index.connection.exec_trace = None
            told.extend(row[3] for row in index.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))
            return True

        index.connection.exec_trace = trace
        index._readers.own.documents.of_group(0, 0)
        searches = [line for line in told if line.startswith(("SEARCH", "SCAN"))]
        assert [line.split(" USING ")[0] for line in searches if "INDEX" in line] == [
            "SEARCH f", "SEARCH d", "SEARCH neardup_document"
        ]  # fmt: skip


# ---- questions -----------------------------------------------------------------------------------------------------------


def test_pairs_that_contain_each_other_of_one_group() -> None:
    """measure="containment" takes the group as the other pairs do."""
    with Index(":memory:", MinHash(exact=True)) as index:
        for group in ("a", "b"):
            index.add(f"{group} short", TEXT, group=group)
            index.add(f"{group} long", f"{TEXT} and then a great many words of another story", group=group)
        found = list(index.pairs(measure="containment", group="b"))
        assert [(pair.key_a, pair.key_b) for pair in found] == [("b short", "b long")]


@pytest.mark.parametrize("parts", [False, True])
def test_pairs_with_another_index_of_one_group(parts: bool) -> None:
    """pairs_with gives the pairs in one group, or in every group of the same name."""
    more = {"part": "p"} if parts else {}
    with Index(":memory:", CODES) as index, Index(":memory:", CODES) as other:
        for group in ("x", "a", None):
            other.add_code(f"other {group}", 1, group=group, **more)
        for group in ("a", "b", None):
            index.add_code(f"this {group}", 0, group=group, **more)
        every = {("this a", "other a"), ("this None", "other None")}
        assert {(pair.key_a, pair.key_b) for pair in index.pairs_with(other)} == every
        assert [(pair.key_a, pair.key_b) for pair in index.pairs_with(other, group="a")] == [("this a", "other a")]
        assert [(pair.key_a, pair.key_b) for pair in index.pairs_with(other, group=None)] == [("this None", "other None")]
        assert list(index.pairs_with(other, group="x")) == []


# ---- on the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two copies of a text in group "de", two in group 7, one in no group."""
    path = tmp_path / "a.db"
    with Index(path, MinHash()) as index:
        for key, group in (("a", "de"), ("b", "de"), ("c", 7), ("d", 7), ("e", None)):
            index.add(key, TEXT, group=group)
    return path


NOTE = "neardup: the index has groups, and only documents without a group were searched: give --group NAME"


def test_query_says_which_group_it_asks(path: Path, tmp_path: Path) -> None:
    """`neardup query` on an index with groups notes that documents without a group alone were asked; it takes one or all."""
    code, out, note = run("query", path, TEXT)
    assert (code, note) == (0, f"{NOTE}, or --all-groups\n")
    assert [line.split()[-1] for line in out.splitlines()] == ["e"]
    for options, keys in (("--group", "de"), "ab"), (("--group", 7), "cd"), (("--all-groups",), "abcde"), (("--group", "fr"), ""):
        code, out, note = run("query", path, TEXT, *options)
        assert (code, note) == (0 if keys else 1, "") and "".join(line.split()[-1] for line in out.splitlines()) == keys
    lines = tmp_path / "new.txt"
    lines.write_text(TEXT + "\n")
    code, out, note = run("query", path, "--from", lines, "--all-groups")
    assert (code, note, out.count("\n")) == (0, "", 5)
    assert run("query", path, "--from", lines)[2] == f"{NOTE}, or --all-groups\n"
    code, out, note = run("query", path, "--key", "a", "--all-groups")
    assert (code, note, out.count("\n")) == (0, "", 4)
    assert run("query", path, "--key", "a")[2] == ""
    assert run("query", path, TEXT, "--group", "de", "--all-groups")[0] == 2
    assert run("explain", path, TEXT)[2] == f"{NOTE}\n" and run("explain", path, TEXT, "--group", "de")[2] == ""


def test_query_of_an_index_without_groups_says_nothing(tmp_path: Path) -> None:
    """Without groups there is nothing to note, nor when the last group is gone."""
    with Index(tmp_path / "a.db", MinHash()) as index:
        index.add("a", TEXT)
        index.add("b", TEXT, group="g")
        index.delete_group("g")
    assert run("query", tmp_path / "a.db", TEXT)[2] == ""


def test_a_text_names_a_group_before_an_integer(tmp_path: Path) -> None:
    """--group 7 is the group "7" where there is one, else the group 7."""
    with Index(tmp_path / "a.db", MinHash()) as index:
        index.add("text", TEXT, group="7")
        index.add("integer", TEXT, group=7)
        index.add("another", TEXT, group=8)
    assert run("query", tmp_path / "a.db", TEXT, "--group", 7)[1].split()[-1] == "text"
    assert run("query", tmp_path / "a.db", TEXT, "--group", 8)[1].split()[-1] == "another"
    assert run("query", tmp_path / "a.db", TEXT, "--group", 10**30)[0] == 1


def test_commands_about_one_group(path: Path, tmp_path: Path) -> None:
    """pairs, clusters, get and delete are about every group, or about the documents of one."""
    assert run("pairs", path)[1].splitlines() == ["1.0000\t\ta\tb", "1.0000\t\tc\td"]
    assert run("pairs", path, "--group", "de")[1] == "1.0000\t\ta\tb\n"
    assert run("clusters", path)[1].split() == ["2", "a", "b", "2", "c", "d"]
    assert run("clusters", path, "--group", 7)[1].split() == ["2", "c", "d"]
    assert run("get", path, "a", "--group", "de")[0] == 0
    assert run("get", path, "a", "--group", 7) == (1, "", "neardup: no document of the group has the key a\n")
    assert run("delete", path, "a", "c", "--group", 7) == (
        0, "1 document deleted\n", "neardup: no document has the key a in the group\n"
    )  # fmt: skip
    assert run("delete", path, "a", "--whole-group", "de")[0] == 2
    assert run("delete", path, "--group", "de")[0] == 2
    assert run("delete", path, "--whole-group", "de") == (0, "2 documents deleted\n", "")
    assert run("delete", path, "--whole-group", "de")[0] == 1
    with Index(path) as index:
        assert list(index) == ["d", "e"] and index.check().ok
    records = tmp_path / "a.jsonl"
    records.write_text('{"id": "a", "text": "b"}\n')
    assert run("pairs", records, "--group", "de")[0] == 2


def test_add_refuses_the_key_of_another_group(path: Path, tmp_path: Path) -> None:
    """`neardup add` stops at a key of another group, whatever --if-exists says, and leaves it out with --on-error skip."""
    records = tmp_path / "a.jsonl"
    records.write_text('{"id": "x", "text": "one two three"}\n{"id": "a", "text": "four five six"}\n')
    for how in ("error", "replace", "ignore"):
        code, _, error = run("add", path, records, "--group", "fr", "--if-exists", how)
        assert code == 2 and "key 'a' is already in group 'de', and this document is for group 'fr'" in error
    code, _, error = run("add", path, records, "--group", "fr", "--if-exists", "replace", "--on-error", "skip")
    assert code == 0 and "1 record skipped" in error
    with Index(path) as index:
        assert index.get("a").group == "de" and index.get("x").group == "fr"
