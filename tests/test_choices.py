"""`neardup dedup`: the record of a cluster that stays, marks, what another index knows; questions and pairs of records."""

from __future__ import annotations

import csv
import json
import random
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest
from commands import good, lines, refused, run
from support import jaccard

from neardup_db import BinaryCode, BottomK, Index, MinHash, Passages, SimHash, limits
from neardup_db.arrow import texts_of
from neardup_db.cli.choices import KnownRecords, open_against
from neardup_db.compute import shingles
from neardup_db.frames import drop_near_duplicates

FOX = "the quick brown fox jumps over the lazy dog and runs away from all the hounds that follow it"

Record = dict[str, Any]


@pytest.fixture(autouse=True)
def cut(request: pytest.FixtureRequest) -> None:
    """Tiny limits, but for a test that asks for the usual ones."""
    if getattr(request, "param", "tiny") == "tiny":
        request.getfixturevalue("small_limits")


both = pytest.mark.parametrize("cut", ["usual", "tiny"], indirect=True)


def usual_once(name: str, values: Iterable[Any]) -> Any:
    """Each value with tiny limits, and the first of them with the usual ones."""
    tiny = [("tiny", value) for value in values]
    return pytest.mark.parametrize(("cut", name), [("usual", tiny[0][1]), *tiny], indirect=["cut"], ids=str)


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of which half are edits of earlier ones; one has no word."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(300)]
    made = ["!!!"]
    while len(made) < count:
        text = chance.choices(words, k=chance.randint(8, 50))
        if len(made) > 2 and chance.random() < 0.5:
            text = made[chance.randrange(1, len(made))].split(" ")
            text[chance.randrange(len(text))] = chance.choice(words)
        made.append(" ".join(text))
    return made


def records(count: int, seed: int = 1) -> list[Record]:
    """Records with fields of several kinds, of which some are null and some are not there."""
    chance = random.Random(seed)
    made = []
    for number, text in enumerate(texts(count, seed)):
        record: Record = {"id": f"k{number}", "text": text, "meta": {"score": chance.choice([None, 1, 2.5, -3, 10**20])}}
        if chance.random() < 0.7:
            record["day"] = chance.choice([None, "2025-01-09", "2025-01-10", "2024-12-31"])
        made.append(record)
    return made


def true_similarity(a: Record, b: Record) -> float:
    return jaccard(set(shingles(a["text"])), set(shingles(b["text"])))


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- the record that stays -----------------------------------------------------------------------------------------------


def by(value: Callable[[Record], Any], sign: int = 1) -> Callable[[list[Record]], Record]:
    """Keeps the first of the records with the largest value, or with the smallest."""

    def keep(cluster: list[Record]) -> Record:
        valued = [record for record in cluster if value(record) is not None]
        if not valued:
            return cluster[0]
        best = sorted({value(record) for record in valued})[-1 if sign > 0 else 0]
        return next(record for record in valued if value(record) == best)

    return keep


RULES: dict[str, Callable[[list[Record]], Record]] = {
    "first": lambda cluster: cluster[0],
    "last": lambda cluster: cluster[-1],
    "longest": by(lambda record: len(record["text"])),
    "by:meta.score": by(lambda record: record["meta"]["score"]),
    "by:-meta.score": by(lambda record: record["meta"]["score"], -1),
    "by:day": by(lambda record: record.get("day")),
    "by:-day": by(lambda record: record.get("day"), -1),
    "by:id": by(lambda record: record["id"]),
}
"""What each rule keeps of a cluster, whose records come in the order of the input."""


@usual_once("rule", RULES)
def test_the_record_that_stays_is_that_of_the_rule(folder: Path, rule: str) -> None:
    """Of each cluster the rule's record stays, of equal ones the first, and a null or missing value loses against any other."""
    made = records(80)
    lines(folder / "in.jsonl", made)
    good("dedup", "in.jsonl", "-o", "out.jsonl", "--keep", rule, "--clusters", "c.jsonl")
    clusters: dict[int, list[Record]] = {}
    for row in read(folder / "c.jsonl"):
        clusters.setdefault(row["cluster"], []).append(made[int(row["id"][1:])])
    assert len(clusters) > 5
    gone = []
    for cluster in clusters.values():
        cluster.sort(key=made.index)
        stays = RULES[rule](cluster)
        gone += [record["id"] for record in cluster if record is not stays]
    assert read(folder / "out.jsonl") == [record for record in made if record["id"] not in gone]


def copies(*values: object) -> list[Record]:
    return [{"id": f"k{number}", "text": FOX, "score": value} for number, value in enumerate(values)]


def test_numbers_of_csv_are_numbers_where_all_are(folder: Path) -> None:
    """Values of CSV that are numbers are compared as numbers; others come after them."""
    for values, kept in (
        (["9", " 10", "", "1e1"], "k1"),
        (["9", "10", "nan"], "k1"),
        (["", "nan", ""], "k0"),
        (["9", "10", "n/a"], "k1"),
        (["9", "1_000"], "k0"),
        (["2025-01-09", "2025-01-10"], "k1"),
    ):
        with open("in.csv", "w", newline="") as file:
            rows = [*copies(*values), {"id": "alone", "text": "another text", "score": "x"}]
            csv.writer(file).writerows([["id", "text", "score"], *(row.values() for row in rows)])
        good("dedup", "in.csv", "-o", "out.csv", "--keep", "by:score", "--force")
        with open("out.csv", newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == [kept, "alone"]


def test_values_of_several_kinds_have_an_order(folder: Path) -> None:
    """Numbers come before texts, these before other values; null, lists and objects come last."""
    for values, rule, kept in (
        ([None, "high", 3], "score", "k2"), ([True, 1], "score", "k1"), ([[1], 2], "-score", "k1"),
        ([{"a": 2}, "x"], "score", "k1"), ([float("nan"), float("-inf"), None], "-score", "k1"), ([{"a": 2}, [1]], "score", "k0"),
    ):  # fmt: skip
        lines(folder / "in.jsonl", copies(*values))
        good("dedup", "in.jsonl", "-o", "out.jsonl", "--keep", f"by:{rule}", "--force")
        assert [record["id"] for record in read(folder / "out.jsonl")] == [kept], values


def test_a_field_that_is_not_there_is_told_before_the_work(folder: Path) -> None:
    """A column that CSV lacks is an error at once; for JSON lines it is a note."""
    Path("in.csv").write_text(f'id,text,score\n1,"{FOX}",2\n2,"{FOX}",3\n')
    told = refused("dedup", "in.csv", "-o", "out.csv", "--keep", "by:scroe")
    assert told == "neardup: in.csv: --keep by:scroe: there is no column 'scroe'; a record has 'score'\n"
    lines(folder / "in.jsonl", copies(1, 2))
    result = run("dedup", "in.jsonl", "-o", "out.jsonl", "--keep", "by:scroe")
    assert result.exit_code == 0 and "none of the first records has a field 'scroe'; the first one has 'score'" in result.stderr
    lines(folder / "in.jsonl", [{"text": FOX}] * 200 + [{"score.x": 1, "text": FOX}])
    assert run("dedup", "in.jsonl", "-o", "out.jsonl", "--keep", "by:score.x", "--force").exit_code == 0
    assert read(folder / "out.jsonl") == [{"score.x": 1, "text": FOX}]
    Path("texts").mkdir()
    Path("texts", "a.txt").write_text(FOX)
    for option in ("--keep by:score", "--mark"):
        told = refused("dedup", "texts", "-o", "out", *option.split())
        assert told == f"neardup: texts: {option} needs records with fields, and these are texts alone: leave it out\n"


def test_a_rule_that_is_none_is_refused(folder: Path) -> None:
    """Another word than those that --keep knows, and by: without a name, is an error that names it."""
    for rule in ("by:", "by:-", "by", "best", "first:x", "LAST", ""):
        assert f"Invalid value for '--keep': {rule!r}" in refused("dedup", "in.jsonl", "-o", "out.jsonl", "--keep", rule)


# ---- marks ---------------------------------------------------------------------------------------------------------------


@both
def test_marks_say_what_would_be_removed(folder: Path) -> None:
    """Every record is written, with the number of its cluster and the id of the record that stays; none where it stays itself."""
    made = records(60)
    lines(folder / "in.jsonl", made)
    told = good("dedup", "in.jsonl", "-o", "out.jsonl", "--keep", "by:meta.score", "--clusters", "c.jsonl", "--mark")
    rows = read(folder / "c.jsonl")
    stays = {row["cluster"]: row["id"] for row in rows if row["kept"]}
    of_record, by_id = {row["id"]: row for row in rows}, {record["id"]: record for record in made}
    for record, marked in zip(made, read(folder / "out.jsonl"), strict=True):
        row = of_record.get(record["id"])
        name = None if row is None or row["kept"] else stays[row["cluster"]]
        similarity = None if name is None else true_similarity(record, by_id[name])
        assert marked == {**record, "cluster": row and row["cluster"], "duplicate_of": name, "similarity": similarity}
    duplicates = len(rows) - len(stays)
    assert f"60 records: {60 - duplicates} without a mark, {duplicates} near-duplicates marked" in told and duplicates >= 5


def test_marks_name_what_another_index_has(folder: Path) -> None:
    """With --against a record that an index knows has the key of a document there, as text, and is in no cluster."""
    made = [*copies(1, 2), {"text": "some other words that nobody knows at all"}, {"text": "known words of one"}]
    lines(folder / "in.jsonl", made)
    for name, key, text in (("a.db", 7, FOX), ("b.db", b"\x01", "known words of one")):
        with Index(name, MinHash(threshold=0.8, exact=True)) as index:
            index.add(key, text)
    told = good("dedup", "in.jsonl", "-o", "out.jsonl", "--mark", "--against", "a.db", "--against", "b.db")
    alone = {"cluster": None, "duplicate_of": None, "similarity": None}
    assert read(folder / "out.jsonl") == [
        {**record, **alone, "against": key} for record, key in zip(made, ["7", "7", None, "x'01'"], strict=True)
    ]
    assert "4 records: 1 without a mark, 0 near-duplicates marked, 3 like a document of --against marked\n" in told


def test_marks_that_cannot_be_written_are_refused(folder: Path) -> None:
    """--mark with --drop-empty, and a field that is there already, are errors before the work."""
    lines(folder / "in.jsonl", [{"text": "a b c", "cluster": 1}])
    assert "give one of them" in refused("dedup", "in.jsonl", "-o", "out.jsonl", "--mark", "--drop-empty")
    told = refused("dedup", "in.jsonl", "-o", "out.jsonl", "--mark")
    assert told == "neardup: in.jsonl has a field 'cluster' already, which --mark adds: rename it first\n"


# ---- against an index ----------------------------------------------------------------------------------------------------

SCHEMES: list[Any] = [MinHash(threshold=0.6, exact=True), MinHash(threshold=0.8), BottomK(threshold=0.5), SimHash(max_distance=7)]
SCHEMES += [Passages(shortest=5)]


@usual_once("scheme", SCHEMES)
def test_what_an_index_knows_is_left_out_as_of_data_frames(folder: Path, scheme: Any) -> None:
    """The records that stay, with --against, are those that `drop_near_duplicates(against=)` keeps."""
    made = records(50)
    frame = polars.DataFrame({"id": [record["id"] for record in made], "text": [record["text"] for record in made]})
    with Index("old.db", scheme) as index:
        index.add_many((number, text) for number, text in enumerate([*texts(12), *texts(50)[20:32], FOX]))
        expected = drop_near_duplicates(frame, "text", against=index)["id"].to_list()
    lines(folder / "in.jsonl", made)
    told = json.loads(good("dedup", "in.jsonl", "-o", "out.jsonl", "--against", "old.db", "--json"))
    assert [record["id"] for record in read(folder / "out.jsonl")] == expected
    assert (told["records"], told["kept"]) == (50, len(expected)) and told["known"] >= 22
    assert told["records"] == told["kept"] + told["known"] + told["duplicates"]


@pytest.mark.parametrize("scheme", [MinHash(threshold=0.8, exact=True), BottomK(containment=True)], ids=repr)
def test_what_an_index_contains_is_left_out(folder: Path, scheme: Any) -> None:
    """With --measure containment a record goes that a document contains, however long that is, as `query` finds it."""
    asked = [FOX, "words of its own, none of them there", "!!!", *texts(20)[1:]]
    made = [{"id": f"k{number}", "text": text} for number, text in enumerate(asked)]
    with Index("old.db", scheme) as index:
        index.add("long", " ".join([*texts(10, 5), FOX, *texts(8)[1:5]]))
        contained = [bool(index.query(record["text"], measure="containment", threshold=0.9)) for record in made]
    lines(folder / "in.jsonl", made)
    options = ("--against", "old.db", "--measure", "containment", "--threshold", 0.9, "--pairs", "p.jsonl")
    told = good("dedup", "in.jsonl", "-o", "out.jsonl", *options)
    assert f"{sum(contained)} contained in a document of --against removed" in told and sum(contained) >= 5
    known = {record["id"] for record, is_contained in zip(made, contained, strict=True) if is_contained}
    duplicates = {row["id_b"] for row in read(folder / "p.jsonl")}
    assert [record["id"] for record in read(folder / "out.jsonl")] == [
        record["id"] for record in made if record["id"] not in known | duplicates
    ]
    assert not known & {row[name] for row in read(folder / "p.jsonl") for name in ("id_a", "id_b")}


def test_an_index_of_passages_knows_texts_by_its_own_rule(folder: Path) -> None:
    """--threshold is a Jaccard similarity, which says nothing about passages: one passage is enough."""
    lines(folder / "in.jsonl", [{"id": "quotes", "text": f"{FOX} {texts(3)[2]}"}, {"id": "other", "text": texts(3)[1]}])
    with Index("old.db", Passages(shortest=12)) as index:
        index.add("a", f"{FOX} and {texts(9, seed=2)[8]}")
    good("dedup", "in.jsonl", "-o", "out.jsonl", "--against", "old.db")
    assert [record["id"] for record in read(folder / "out.jsonl")] == ["other"]


@both
def test_several_indexes_are_asked_one_after_another(folder: Path) -> None:
    """A record that one of them knows is left out; the indexes stay as they were."""
    made = records(40)
    lines(folder / "in.jsonl", made)
    for name, first in (("a.db", 0), ("b.db", 13), ("c.db", 26)):
        with Index(name, MinHash(threshold=0.8), name="old") as index:
            index.add_many((record["id"], record["text"]) for record in made[first : first + 13])
    against = [word for name in ("a.db", "b.db", "c.db") for word in ("--against", name)]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = json.loads(good("dedup", "in.jsonl", "-o", "out.jsonl", *against, "--against-name", "old", "--json"))
    assert [record["id"] for record in read(folder / "out.jsonl")][0] == "k0"  # has no word
    assert (told["known"], told["empty"]) == (40 - told["kept"] - told["duplicates"], 1) and told["known"] >= 38
    assert {name: Path(name).read_bytes() for name in before} == before


def test_an_error_ends_the_questions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error, or Ctrl-C, no more questions are asked than the one that is under way."""
    calls: list[object] = []
    stopped, stop, ask = threading.Event(), KnownRecords.stop, Index.query_many

    def query_many(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        assert stopped.wait(60)
        return ask(*arguments, **named)

    monkeypatch.setattr(limits, "SKETCHED_RECORDS", 4)
    monkeypatch.setattr(limits, "SKETCHED_BYTES", 1 << 20)
    monkeypatch.setattr(Index, "query_many", query_many)
    monkeypatch.setattr(KnownRecords, "stop", lambda known: (stop(known), stopped.set()))
    with Index("old.db", MinHash(exact=True)) as index:
        index.add("a", FOX)
    with open(lines(folder / "in.jsonl", copies(1, 2, 3, 4)), "a") as file:
        file.write("broken\n")
    assert "line 5" in refused("dedup", "in.jsonl", "-o", "o.jsonl", "--against", "old.db", "--measure", "containment")
    assert len(calls) <= 1 and stopped.is_set()


@both
def test_texts_in_memory_are_asked_for_like_a_list(folder: Path) -> None:
    """Texts that Arrow holds have the answers of the same texts as a list, whichever index knows them."""
    made = [*texts(20), "caf\u00e9 au lait with words around it", FOX]
    for name, some in (("a.db", made[3:9]), ("b.db", [FOX, *made[5:12]])):
        with Index(name, MinHash()) as index:
            index.add_many(enumerate(some))
    for one in (made, texts_of("texts", pyarrow.array(made), None, "")):
        with open_against([Path("a.db"), Path("b.db")], "neardup", 0.8, None, folder) as known:
            assert known is not None and known.names([]) == []
            asked = [known.search(one[first : first + 5]).tolist() for first in range(0, len(made), 5)]
            assert sum(asked, []) == known.flags.tolist()
            assert known.names(range(1, len(made) + 1)) == [None] * 3 + [*"012345"] + [*"567"] + [None] * 9 + ["0"]
        (folder / "against.db").unlink()


def test_an_index_that_cannot_be_asked_is_an_error(folder: Path) -> None:
    """A missing file, another name, codes, a looser threshold and a measure that it lacks are told with the remedy at once."""
    lines(folder / "in.jsonl", records(5))
    with Index("old.db", MinHash(threshold=0.9)) as index:
        index.add("a", FOX)
    with Index("codes.db", BinaryCode(bits=64)) as index:
        index.add_code("a", 1)
    for arguments, told in (
        ("--against nowhere.db", "nowhere.db: no such file; create an index with: neardup add nowhere.db RECORDS"),
        ("--against in.jsonl", "file is not a database: give the path of an index"),
        ("--against old.db --against-name x", "Give its --against-name, or make one with neardup add"),
        ("--against codes.db", "codes.db: the index holds codes, and records have texts: name an index of texts for --against"),
        ("--against old.db", "old.db: --threshold 0.8 is below 0.9, the one that the index was built for; ask for 0.9 or more"),
        ("--against old.db --measure containment", "old.db: "),
        ("--against old.db --threshold nan", "nan is not a number"),
        ("--against old.db --pairs old.db --force", "old.db is the input: name another output"),
        ("--measure containment", "--measure and --against-name require --against"),
        ("--against-name x", "--measure and --against-name require --against"),
    ):
        assert told in refused("dedup", "in.jsonl", "-o", "out.jsonl", *arguments.split())
    assert sorted(path.name for path in folder.iterdir()) == ["codes.db", "in.jsonl", "old.db"]


# ---- questions of records ------------------------------------------------------------------------------------------------


@usual_once("options", ["--limit 3", "", "--limit 1", "--limit 500", "--threshold 0.9", "--measure containment"])
def test_records_are_asked_for_as_single_texts(folder: Path, options: str) -> None:
    """The lines of `query --from` are the answers of `Index.query` to each record, with its id before them."""
    name, _, value = options.removeprefix("--").partition(" ")
    question: dict[str, Any] = {name: value if name == "measure" else json.loads(value)} if name else {}
    made = records(40)
    lines(folder / "in.jsonl", made)
    with Index("old.db", MinHash(threshold=0.6, exact=True)) as index:
        index.add_many([*enumerate(texts(40)[:26]), *((f"copy {number}", FOX) for number in range(5))])
        expected = [(record["id"], match) for record in made for match in index.query(record["text"], **question)]
    printed = [line.split("\t") for line in good("query", "old.db", "--from", "in.jsonl", *options.split()).splitlines()]
    assert printed == [[name, f"{match.similarity:.4f}", "", str(match.key)] for name, match in expected]
    told = [json.loads(line) for line in good("query", "old.db", "--from", "in.jsonl", "--json", *options.split()).splitlines()]
    assert told == [{"id": name, "key": match.key, "similarity": match.similarity, "distance": None} for name, match in expected]
    assert len(expected) >= 25


def test_records_with_codes_are_asked_for(folder: Path) -> None:
    """In an index of codes the text of a record is its code; a wrong one is named by its line, or left out."""
    with Index("codes.db", BinaryCode(bits=64, max_distance=3)) as index:
        index.add_codes(["a", "b"], [1, 0xFF00])
    made = [{"id": n, "text": text} for n, text in enumerate(["0000000000000000", "zz", " 000000000000ff01\n"])]
    lines(folder / "in.jsonl", made)
    assert "in.jsonl, line 2: " in (told := refused("query", "codes.db", "--from", "in.jsonl", "--json").replace("\t", " "))
    assert "hex" in told
    result = run("query", "codes.db", "--from", "in.jsonl", "--on-error", "skip")
    assert result.stdout == "0\t0.9844\t1\ta\n2\t0.9844\t1\tb\n" and "1 record skipped" in result.stderr
    assert "requires texts" in refused("query", "codes.db", "--from", "in.jsonl", "--measure", "containment")


def test_questions_without_an_answer_end_with_exit_code_1(folder: Path) -> None:
    """Exit code 1 and no line where no record matches; options of inputs without --from are an error."""
    with Index("old.db", MinHash()) as index:
        index.add("a", FOX)
    lines(folder / "in.jsonl", [{"text": "nothing like that at all"}, {"text": "!!!"}])
    result = run("query", "old.db", "--from", "in.jsonl")
    assert (result.exit_code, result.output) == (1, "")
    lines(folder / "more.jsonl", copies(1))
    assert good("query", "old.db", "--from", "in.jsonl", "--from", "more.jsonl") == "k0\t1.0000\t\ta\n"
    assert "--text-field requires --from" in refused("query", "old.db", "fox", "--text-field", "body")
    assert "Give one of TEXT, --file, --key and --from" in refused("query", "old.db", "fox", "--from", "in.jsonl")
    assert "--threshold nan: give a number" in refused("query", "old.db", "--from", "in.jsonl", "--threshold", "nan")
    assert "no such file" in refused("query", "old.db", "--from", "nowhere.jsonl")


# ---- pairs of records ----------------------------------------------------------------------------------------------------


@usual_once("options", ["", "--threshold 0.5", "--tokens chars --threshold 0.7"])
def test_pairs_of_records_are_those_of_an_index(folder: Path, options: str) -> None:
    """The pairs of a file are those of an exact index of its records, under their ids."""
    made = records(40, 2)
    lines(folder / "in.jsonl", made)
    good("add", "all.db", "in.jsonl", "--exact", *options.split())
    of_index, of_records = (sorted(good("pairs", *words).splitlines()) for words in (["all.db"], ["in.jsonl", *options.split()]))
    assert of_records == of_index and len(of_index) > 5
    told = [json.loads(line) for line in good("pairs", "in.jsonl", "--json", *options.split()).splitlines()]
    assert sorted(f"{row['similarity']:.4f}\t\t{row['key_a']}\t{row['key_b']}" for row in told) == of_index
    assert good("pairs", "in.jsonl", "--limit", 1, *options.split()).count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["all.db", "in.jsonl"]


def test_an_index_is_told_by_its_first_bytes(folder: Path) -> None:
    """A database is an index whatever its name; what is none is records; each refuses the options of the other."""
    lines(folder / "in.jsonl", copies(1, 2))
    good("add", "odd.jsonl", "in.jsonl")
    assert good("pairs", "odd.jsonl") == good("pairs", "in.jsonl") == "1.0000\t\tk0\tk1\n"
    lines(folder / "more.jsonl", copies(1))
    of_both = "1.0000\t\tk0\tk1\n1.0000\t\tk0\tk0\n1.0000\t\tk1\tk0\n"
    for paths in (["in.jsonl", "more.jsonl"], ["[im]*.jsonl"], ["[im]*", "--format", "jsonl"]):
        assert sorted(good("pairs", *paths).splitlines()) == sorted(of_both.splitlines())
    assert "no file fits this pattern" in refused("pairs", "nothing*")
    Path("in.jsonl").rename("records")
    assert good("pairs", "records", "--format", "jsonl") == "1.0000\t\tk0\tk1\n"
    assert "its name does not show the format" in refused("pairs", "records")
    assert "--recall is for records, and this is an index" in refused("pairs", "odd.jsonl", "--recall", 0.9)
    assert "--shingle is for records" in refused("pairs", "odd.jsonl", "--shingle", 2)
    assert "--name is for an index" in refused("pairs", "records", "--format", "jsonl", "--name", "x")
    assert "create an index with" in refused("pairs", "nowhere.db")
    assert "nowhere.jsonl: no such file or folder" in refused("pairs", "nowhere.jsonl")
    for wrong in ("nan", "0", "1.5"):
        assert "give a number above 0" in refused("pairs", "records", "--format", "jsonl", "--threshold", wrong)
    lines(folder / "none.jsonl", [{"text": "one text"}, {"text": "another text"}])
    assert (run("pairs", "none.jsonl").exit_code, run("pairs", "none.jsonl").output) == (1, "")
