"""Several codes under one key: a document is in every answer once, with its best code."""

from __future__ import annotations

import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from by_hand import damage
from commands import good, run
from load import steps
from standard import connect

from neardup_db import BinaryCode, CorruptIndexError, DuplicateKeyError, Index, Match, ParameterError, SimHash, load
from neardup_db.datasette.foreign import open_index, similarities
from neardup_db.store.query.joins import Codes, FingerprintPairs, Members
from neardup_db.tables import columns

PAST = time.time() - 1000


def far(number: int) -> int:
    """Codes that differ in 16 bits from each other, and in more than three from small numbers."""
    return 0xFF << 8 * number


@pytest.fixture
def index(codes: Index) -> Index:
    """Codes of 64 bits that differ in at most three."""
    return codes


def test_a_key_is_in_an_answer_once_with_its_best_code(index: Index) -> None:
    """The part of the match names the code; where two are as near it is the first, and a code without a part has none."""
    for part, code in (("a", 0x0F), ("b", 0xF00000), (7, 0x0E)):
        assert index.add_code("x", code, part=part) == []
    index.add_code("y", 0x1F)
    assert index.query_code(0x0F) == [Match("x", 1.0, 0, "a"), Match("y", 1 - 1 / 64, 1)]
    assert index.query_code(0x0E)[0] == Match("x", 1.0, 0, 7)
    assert index.query_code(0x0D)[0] == Match("x", 1 - 1 / 64, 1, "a")
    assert index.query_code(0xF00000) == [Match("x", 1.0, 0, "b")]
    assert index.query_codes([0x0F, 0xF00001] * 40)[1] == index.query_code(0xF00001) == [Match("x", 1 - 1 / 64, 1, "b")]
    assert index.query_code(0x0F, limit=1) == index.query_code(0x0F)[:1]
    assert [match.key for match in index.nearest(2**64 - 1, 5)] == ["y", "x"]
    assert index.matches("y") == [Match("x", 1 - 1 / 64, 1, "a")] and index.matches("x") == [Match("y", 1 - 1 / 64, 1)]
    assert repr(index.matches("x")[0]) == "Match(key='y', similarity=0.984375, distance=1)"
    assert (index.count_code(0x0F).count, index.count_code(0x0F).times_seen, len(index), list(index)) == (2, 2, 2, ["x", "y"])
    assert index.stats()["documents"] == 2 and index.clusters()[0].keys == ("x", "y")
    assert list(index.get("x").codes) == ["a", "b", 7] and list(index.get("y").codes) == [None]
    assert index.check().ok


def test_the_first_code_may_have_no_part(index: Index) -> None:
    """A key that has one code without a part takes further ones; its first code stays the first."""
    index.add_code("x", 1, metadata={"n": 1})
    index.add_code("x", 2, part="b")
    assert index.get("x").codes == {None: (1).to_bytes(8, "big"), "b": (2).to_bytes(8, "big")}
    assert index.query_code(1)[0].part is None and index.get("x").code == (1).to_bytes(8, "big")
    with pytest.raises(DuplicateKeyError, match="key 'x' has a code with part=None already"):
        index.add_code("x", 3)
    index.add_code("x", 3, if_exists="replace")
    assert index.get("x").codes == {None: (3).to_bytes(8, "big"), "b": (2).to_bytes(8, "big")}
    assert index.get("x").metadata == {"n": 1} and index.check().ok


def test_what_the_first_code_brings(index: Index) -> None:
    """Metadata and an end that come with a further code take the place of the document's; left out, they stay. Its group has to
    be the same."""
    index.add_code("x", 1, part=0, metadata={"n": 1}, group="g")
    added_at = index.get("x").added_at
    index.add_code("x", 2, part=1, group="g")
    assert index.get("x").metadata == {"n": 1}
    index.add_code("x", 3, part=2, group="g", metadata={"n": 2}, expires_at=PAST + 100_000)
    assert index.get("x").metadata == {"n": 2} and index.get("x").expires_at == pytest.approx(PAST + 100_000, abs=0.001)
    assert (index.get("x").added_at, index.get("x").times_seen) == (added_at, 1)
    for group in (None, "h"):
        with pytest.raises(DuplicateKeyError, match="key 'x' is already in group 'g', and this document is for "):
            index.add_code("x", 4, part=3, group=group)
    report = index.add_codes(["x", "x"], [5, 6], part=[4, 5], group=["h", "g"], on_error="skip")
    assert (report.added, report.skipped, list(index.get("x").codes)) == (1, 1, [0, 1, 2, 5])
    assert report.problems[0].record == 0 and "in group 'g'" in report.problems[0].reason
    assert index.query_code(1) == [] and index.query_code(1, group="g")[0].key == "x"


def test_changes_tell_of_codes(index: Index) -> None:
    """A document that gets, changes or loses a code is told, once, whatever happens to its cluster then; one that is added is not
    told so."""
    index.add_codes(["x", "y"], [1, far(5)])
    token = index.changes(index.changes().token).token

    def told() -> tuple[Any, ...]:
        nonlocal token
        changes = index.changes(token)
        token = changes.token
        return changes.removed, changes.added, changes.codes, dict(changes.clusters)

    index.add_code("x", far(5), part="a")
    label = index.connection.execute("SELECT DISTINCT cluster_id FROM neardup_document").get
    assert told() == ((), (), ("x",), {"x": label, "y": label})
    index.add_code("x", far(6), part="a", if_exists="replace")
    assert told() == ((), (), ("x",), {"x": None, "y": None})
    index.add_codes(["x", "z", "z"], [far(5) + 1, far(7), far(2)], part=["b", "a", "b"])
    assert told()[1:3] == (("z",), ("x",))
    assert index.delete("x", part="b")
    assert told() == ((), (), ("x",), {"x": None, "y": None})
    assert index.delete("x", part=None) and index.delete("x", part="a")
    assert told() == (("x",), (), (), {}) and not index.changes(token) and index.check().ok
    assert index.delete("z", part="b") and told() == ((), (), ("z",), {"z": None})


def test_explain_match_compares_the_nearest_codes(index: Index) -> None:
    """The distance is that of the two codes that are most alike, and the rows are those in which they met."""
    index.add_codes(["x", "x", "y", "y"], [1, far(4), far(6), far(4) + 1], part=[0, 1, 0, 1])
    found = index.explain_match("x", "y")
    assert (found.distance, found.is_match) == (1, True) and found.met


def of(index: Index) -> list[tuple[Any, ...]]:
    """All that a merge takes over, in the order of insertion."""
    documents = [index.get(key) for key in index]
    return [(one.key, one.group, one.metadata, one.added_at, list(one.codes.items())) for one in documents]


def test_a_merge_takes_all_codes(index: Index) -> None:
    """The other's documents come with their codes and parts, times and metadata, and match as there."""
    for key, part, code in (("x", None, 1), ("x", "b", far(5)), ("y", 1, 3), ("z", None, far(7))):
        index.add_code(key, code, part=part, group="g", metadata=None if part else {"key": key})
    index.dismiss("x", "y")
    with Index(":memory:", index.scheme) as other:
        report = other.merge(index)
        assert (report.added, report.matched) == (4, 1) and of(other) == of(index) and other.check().ok
        assert list(other.dismissed()) == [("x", "y")]
        other.undismiss("x", "y")
        assert other.clusters()[0].keys == ("x", "y")
        assert other.query_code(far(5), group="g") == index.query_code(far(5), group="g")


@pytest.mark.usefixtures("small_limits")
def test_a_merge_of_many_codes() -> None:
    """Documents with more codes than a page has rows come whole."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index, Index(":memory:", index.scheme) as other:
        rng = random.Random(3)
        keys = [key for key in range(12) for _ in range(1 + key)]
        index.add_codes(keys, [rng.getrandbits(64) for _ in keys], part=range(len(keys)))
        assert other.merge(index).added == len(keys) and of(other) == of(index) and other.check().ok


@pytest.mark.parametrize("parts", [["a", "b"], [1, -2], ["a", None]], ids=["texts", "numbers", "none"])
def test_exported_codes_come_back(index: Index, tmp_path: Path, parts: list[Any]) -> None:
    """A file of fingerprints has a row for each code, with its part; imported again the documents are the same."""
    pytest.importorskip("pyarrow")
    index.add_code("w", 7)
    index.add_codes(["x", "x", "y"], [1, far(5), far(6)], part=sorted(parts, key=lambda part: part is not None) + [parts[0]])
    assert index.export_fingerprints(tmp_path / "codes.parquet") == 3
    with Index(":memory:", index.scheme) as other:
        assert other.import_fingerprints(tmp_path / "codes.parquet").added == 4
        assert [row[:3] + row[4:] for row in of(other)] == [row[:3] + row[4:] for row in of(index)] and other.check().ok
        index.delete("x")
        index.delete("y")
        index.export_fingerprints(tmp_path / "plain.parquet")
        assert other.import_fingerprints(tmp_path / "plain.parquet", if_exists="ignore").ignored == 1


ORDERS: list[list[Any]] = [["a", None], [None, "a"], ["a", None, "b"], [None], ["b"]]


@pytest.mark.parametrize("by_file", [False, True], ids=["merge", "import"])
@pytest.mark.parametrize("if_exists", ["ignore", "replace"])
@pytest.mark.parametrize("there", [None, *ORDERS[:3]], ids=str)
def test_a_code_without_a_part_is_one_of_several(
    index: Index, tmp_path: Path, there: list[Any] | None, if_exists: Any, by_file: bool
) -> None:
    """Wherever it stands among the codes of its key, what comes of a merge or an import is what `add_code` makes of each."""
    if by_file:
        pytest.importorskip("pyarrow")
    rng = random.Random(3)
    with Index(":memory:", index.scheme) as other, Index(":memory:", index.scheme) as one_by_one:
        for key, order in enumerate(ORDERS):
            other.add_codes([key] * len(order), [rng.getrandbits(64) for _ in order], part=order)
        for key in range(len(ORDERS)) if there else ():
            codes = [rng.getrandbits(64) for _ in there or ()]
            for one in (index, one_by_one):
                one.add_codes([key] * len(codes), codes, part=there)
        if by_file:
            other.export_fingerprints(tmp_path / "codes.parquet")
            index.import_fingerprints(tmp_path / "codes.parquet", if_exists=if_exists)
        else:
            index.merge(other, if_exists=if_exists)
        for key, order in enumerate(ORDERS):
            if order == [None] and there:  # it is the whole document
                if if_exists == "ignore":
                    continue
                one_by_one.delete(key)
            for part, code in other.get(key).codes.items():
                one_by_one.add_code(key, code, part=part, if_exists=if_exists)
        assert [(row[0], row[4]) for row in sorted(of(index))] == [(row[0], row[4]) for row in sorted(of(one_by_one))]
        assert index.check().ok


def test_parts_of_two_types_are_not_exported(index: Index, tmp_path: Path) -> None:
    """A column of Parquet has one type, so texts and numbers together are refused, and no file is left."""
    pytest.importorskip("pyarrow")
    index.add_codes(["x", "x"], [1, 2], part=["a", 1])
    with pytest.raises(ParameterError, match="the parts of this index are of the types int64 and string"):
        index.export_fingerprints(tmp_path / "codes.parquet")
    assert not list(tmp_path.iterdir())


def test_foreign_keys_of_the_applications(tmp_path: Path) -> None:
    """On a connection where SQLite enforces them, codes come, are replaced and go without leaving one open."""
    connection = apsw.Connection(str(tmp_path / "codes.db"))
    connection.execute("PRAGMA foreign_keys = ON")
    with Index(connection, BinaryCode(bits=64, max_distance=3)) as index:
        index.add_codes(["x", "x", "y", "y"], [1, far(2), 1, far(3)], part=[0, 1, 0, 1])
        index.dismiss("x", "y")
        for code in (far(4), far(3), 1):
            index.add_code("x", code, part=0, if_exists="replace")
        index.rebuild()
        assert index.check().ok and not index.clusters() and index.undismiss("x", "y") and index.clusters()
        assert index.keep_newest(1) == 1 and index.delete("y") and index.check().ok


def test_neardup_search_names_the_part(tmp_path: Path) -> None:
    """The SQL function gives what `query_code` gives, also on a connection that knew the index before it had parts."""
    path = tmp_path / "codes.db"
    sql = "SELECT key, similarity, distance, part FROM neardup_search('neardup', '0000000000000001')"
    with Index(path, BinaryCode(bits=64, max_distance=3)) as index:
        index.add_code("y", 3)
        connection = apsw.Connection(str(path))
        load(connection)
        assert connection.execute(sql).fetchall() == [("y", 1 - 1 / 64, 1, None)]
        index.add_codes(["x", "x"], [1, far(5)], part=["a", 2])
        for code in (1, far(5)):
            expected = [(match.key, match.similarity, match.distance, match.part) for match in index.query_code(code)]
            assert connection.execute(sql.replace("0000000000000001", f"{code:016x}")).fetchall() == expected
        assert len(connection.execute(sql.replace("key, similarity, distance, part", "*")).fetchall()[0]) == 4


def test_columns_have_parts_where_there_are_any(index: Index) -> None:
    """A column of parts stands in the columns of matches with one."""
    index.add_code("x", 1)
    assert list(columns(index.query_code(1))) == ["key", "similarity", "distance"]
    index.add_code("x", far(5), part="a")
    assert columns(index.query_codes([1, far(5)]))["part"] == [None, "a"]
    assert "codes" not in columns([index.get("x")])


def test_commands_show_parts(path: Path, tmp_path: Path) -> None:
    """`neardup query` names the part of a match; `get` and `export` give all codes of a document that has several."""
    with Index(path) as index:
        index.add_code("z", 1)
    plain = {"similarity": 1.0, "distance": 0}
    expected = [{"key": "x", **plain, "part": "a"}, {"key": "z", **plain}]
    assert json.loads(good("query", path, "0000000000000001", "--json")) == {"matches": expected}
    assert good("query", path, "0000000000000001").splitlines() == ["1.0000     0 bits  x  part a", "1.0000     0 bits  z"]
    codes = [{"part": "a", "code": f"{1:016x}"}, {"part": "b", "code": f"{far(5):016x}"}]
    document = json.loads(good("get", path, "x"))
    assert (document["code"], document["codes"]) == (codes[0]["code"], codes)
    run("export", path, "-o", tmp_path / "out.jsonl")
    exported = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert exported[0] == document and "codes" not in exported[2] and exported[2]["code"] == f"{1:016x}"


def test_delete_takes_one_part(path: Path) -> None:
    """`neardup delete --part` deletes a code by its text, or by its number where no code has that text."""
    with Index(path) as index:
        index.add_code("x", far(2), part=1)
    assert good("delete", path, "x", "--part", "1") == "1 code deleted\n"
    assert json.loads(good("delete", path, "x", "y", "--part", "b", "--json")) == {"deleted": 2, "missing": []}
    result = run("delete", path, "x", "--part", "b")
    assert result.exit_code == 1 and "no document has the key x and a code with the part b" in result.stderr
    with Index(path) as index:
        assert [list(index.get(key).codes) for key in index] == [["a"], ["a"]]


def test_pages_measure_by_the_nearest_codes(path: Path) -> None:
    """A cluster's page, on a connection of Python's sqlite3 module, gives the similarity that `explain_match` gives."""
    connection = connect(path)
    with open_index(connection.cursor(), "neardup") as index:
        found = index.explain_match("x", "y")
        assert similarities(index, 1, [2]) == {2: (found.similarity, found.distance)} == {2: (1 - 1 / 64, 1)}
    connection.close()


# ---- check and repair ----------------------------------------------------------------------------------------------------------

DAMAGES = {
    "no document": (
        "UPDATE @part SET document_id = 99 WHERE id = 3",
        "parts whose document or fingerprint is missing or of another group: 3",
    ),
    "no fingerprint": (
        "UPDATE @part SET fingerprint_id = 99 WHERE id = 3",
        "parts whose document or fingerprint is missing or of another group: 3",
    ),
    "another first code": (
        "UPDATE @document SET fingerprint_id = 2 WHERE id = 1",
        "documents whose fingerprint is not that of their first part: 1",
    ),
    "two of a name": (
        "INSERT INTO @part (document_id, part, fingerprint_id) VALUES (2, NULL, 3), (2, NULL, 4)",
        "documents with a part that has no name of its own: 2",
    ),
    "no name": ("UPDATE @part SET part = 1.5 WHERE id = 2", "documents with a part that has no name of its own: 1"),
    "no such match": (
        "UPDATE @match SET distance = 2, similarity = 1 - 2 / 64.0",
        "documents with a recorded match that no two codes make: 2",
    ),
    "no such similarity": ("UPDATE @match SET similarity = 0.5", "documents with a recorded match that no two codes make: 2"),
    "no number": (
        "UPDATE @part SET id = id - (1 << 62) WHERE document_id = 1",
        f"ids of @part that are never given (restore a backup): {1 - 2**62}, {2 - 2**62}",
    ),
    "no code": ("DELETE FROM @part WHERE id = 4", "fingerprints that no document has: 4"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Documents 1 and 2 with the parts 1 to 4, of which 2 and 3 have codes that match."""
    path = tmp_path / "codes.db"
    with Index(path, BinaryCode(bits=64, max_distance=3), durability="normal") as index:
        index.add_codes(["x", "x", "y", "y"], [1, far(5), far(5) + 1, far(7)], part=["a", "b", "a", "b"])
    return path


@pytest.mark.parametrize("name", DAMAGES)
def test_check_has_a_message_for_every_damage(path: Path, name: str) -> None:
    """Each is reported, and repaired as far as the codes are there: then every invariant holds."""
    sql, message = DAMAGES[name]
    damage(path, sql)
    with Index(path) as index:
        assert message.replace("@", "neardup_") in index.check().problems
        index.check(repair=True)
        assert index.check().ok == (name != "no number"), index.check()
        assert {"x", "y"} == set(index) and (index.query_code(1)[0].part == "a" or name == "no number")


def test_a_table_of_the_applications_may_have_that_name(tmp_path: Path) -> None:
    """A table that only has the name of one of an index's is none of it."""
    connection = apsw.Connection(str(tmp_path / "codes.db"))
    connection.execute("CREATE TABLE neardup_part (a)")
    with Index(connection, BinaryCode(bits=64, max_distance=3)) as index:
        index.add_code("x", 1)
        assert index.query_code(1) == [Match("x", 1.0, 0)] and index.check().ok


def test_pairs_of_a_document_with_a_foreign_fingerprint(path: Path) -> None:
    """A document whose own fingerprint is none of its codes is damage that pairs() names, until it is repaired."""
    damage(path, "UPDATE neardup_document SET fingerprint_id = 3 WHERE id = 1")
    with Index(path) as index:
        with pytest.raises(CorruptIndexError, match=r"document 1 \('x'\).*its fingerprint is none of its codes: run check"):
            list(index.pairs())
        index.check(repair=True)
        assert index.check().ok and [(pair.key_a, pair.key_b) for pair in index.pairs()] == [("x", "y")]


def test_a_damaged_code_of_several_is_lost_alone(path: Path) -> None:
    """Repair names the key that has lost a code; the others stay, and the first one left is its code."""
    damage(path, "UPDATE neardup_fingerprint SET value = zeroblob(8) WHERE id = 1")
    with Index(path) as index:
        report = index.check(repair=True)
        assert report.problems == ("1 documents have lost a code, add it again: 'x'",)
        assert list(index.get("x").codes) == ["b"] and index.check().ok
        assert [cluster.keys for cluster in index.clusters()] == [("x", "y")]


def test_a_document_that_has_lost_its_only_code_gets_a_part(path: Path) -> None:
    """A document that a repair left without a code takes one again, alone and in a load."""
    for add in ("add_code", "add_codes"):
        with Index(path) as index:
            index.add_code("z", 7)
        damage(path, "UPDATE neardup_fingerprint SET value = x'00' WHERE value = x'0000000000000007'")
        with Index(path) as index:
            assert "lost their fingerprint" in index.check(repair=True).problems[0]
            if add == "add_code":
                index.add_code("z", 15, part="a")
            else:
                index.add_codes(["z"], [15], part="a")
            assert index.check().ok and index.query_code(15)[0] == Match("z", 1.0, 0, "a") and index.delete("z")


@pytest.mark.parametrize("kind", ["one key", "one cluster", "keys apart"])
def test_replacing_codes_costs_what_it_replaces(kind: str) -> None:
    """Four times the codes take at most five times the steps, whether they are of one key, of a cluster or match nothing."""
    taken: list[int] = []
    rng = random.Random(3)
    for count in (200, 800) if kind == "one cluster" else (100, 400):
        with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
            names = [0] * count if kind == "one key" else [number // 4 for number in range(count)]

            def codes(names: list[int] = names) -> list[int]:
                return [1 << rng.randrange(64) if kind == "one cluster" else rng.getrandbits(64) for _ in names]

            index.add_codes(names, codes(), part=range(count))
            index.add_code("z", 2**64 - 1, part=0)
            taken.append(steps(index, partial(index.add_codes, names, codes(), part=range(count), if_exists="replace")))
            assert index.check().ok
    assert taken[1] < 5 * taken[0]


def test_removing_a_code_writes_the_dismissed_pairs_of_its_key(index: Index) -> None:
    """Pairs of other keys are left alone, however many there are."""
    taken: list[int] = []
    rng = random.Random(3)
    for number in range(100):
        key, code = f"film {number}", rng.getrandbits(64)
        index.add_codes([key, key, number], [code, rng.getrandbits(64), code], part=[0, 1, 0])
        index.dismiss(key, number)
        if number in (10, 90):
            taken.append(steps(index, partial(index.delete, key, part=0)))
    assert taken[1] < 2 * taken[0] + 5 and index.check().ok


def test_two_films_are_compared_once() -> None:
    """Two documents that match by most of their codes come as one pair, whose codes are read once, not for each match."""

    class Counted(dict[int, bytes]):
        read = 0

        def __getitem__(self, number: int) -> bytes:
            self.read += 1
            return super().__getitem__(number)

    count = 20
    frames = {"a": list(range(1, count + 1)), "b": list(range(count + 1, 2 * count + 1))}
    members = Members.of_rows([(number, 1 + (key == "b"), key, 0) for key in "ab" for number in frames[key]])
    values = Counted({number: bytes([2 + (number != 7)]) for number in frames["a"]} | dict.fromkeys(frames["b"], bytes(1)))
    found = [(a, b, 0.9, 1 + (a != 7)) for a in frames["a"] for b in frames["b"]]
    codes = Codes({1: frames["a"], 2: frames["b"]}, values)
    pairs = FingerprintPairs(found, members, codes=(codes, codes))
    assert [(pair.a.key, pair.b.key, pair.distance) for pair in pairs] == [("a", "b", 1)]
    assert values.read == 2 * count


def test_documents_stand_in_sets(tmp_path: Path) -> None:
    """A document has a hash, which its codes are no part of; equal documents are one in a set."""
    with Index(tmp_path / "index.db", BinaryCode(bits=64, max_distance=3)) as index:
        index.add_code("a", 1, part="x")
        index.add_code("a", 2**40, part="y")
        assert len({index.get("a"), index.get("a")}) == 1


@pytest.mark.parametrize("call", ["add_code", "add_code_if_new", "add_codes"])
def test_other_schemes_refuse_parts(call: str) -> None:
    """Only an index of BinaryCode keeps several codes under a key; nothing is stored."""
    with Index(":memory:", SimHash()) as index:
        with pytest.raises(ParameterError, match="only an index of BinaryCode keeps several codes under a key"):
            index.add_codes(["x"], [1], part="a") if call == "add_codes" else getattr(index, call)("x", 1, part="a")
        assert len(index) == 0 and index.add_codes(["x"], [1]).added == 1
    with Index(":memory:", SimHash()) as index, pytest.raises(ParameterError, match="unknown field 'part'"):
        index.add_many([{"key": "x", "text": "a b c", "part": 1}])


def test_codes_without_parts_where_there_are_some(index: Index) -> None:
    """Codes without parts may be added with only_new= where there are parts, and new codes of parts one by one."""
    index.add_code("x", 1, part="a")
    assert index.add_codes(["y", "z"], [1, far(5)], only_new=True).added == 1
    assert list(index) == ["x", "z"]
    assert index.add_code_if_new("z", 1, part="b") == [Match("x", 1.0, 0, "a")] and list(index.get("z").codes) == [None]
