"""What goes is a near-duplicate of what stays: the command, data frames and `add_many(only_new=True)` against brute force."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import random
from pathlib import Path
from typing import Any

import polars
import pyarrow.parquet
import pytest
from click.testing import Result
from commands import dedup as run
from support import duplicates_in, jaccard

from neardup_db import Index, MinHash, TextRules
from neardup_db.cli.inputs import passes
from neardup_db.compute import shingles
from neardup_db.frames import drop_near_duplicates, mark_near_duplicates

Record = dict[str, Any]

CHARS = TextRules.chars(shingle=3)
OPTIONS = ("--tokens", "chars", "--shingle", "3", "--threshold", "0.6")


def good(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def titles() -> list[str]:
    """150 different titles of products, near one another in long chains."""
    makers, cables = ["Anker", "Belkin", "Ugreen", "Baseus", "Aukey"], ["USB-C cable", "Lightning cable", "USB-C charger"]
    lengths, colours = ["1 m", "2 m", "3 m", "0.5 m", "10 ft"], ["black", "white"]
    return [" ".join(parts) for parts in itertools.product(makers, cables, lengths, colours)]


def reviews(count: int, seed: int) -> list[Record]:
    """Texts in chains: each is one of a few with some words replaced; some are equal, some have no word."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(40)]
    made: list[Record] = []
    for number in range(count):
        text = chance.choice([record["text"] for record in made] or ["!!!"]).split(" ")
        if chance.random() < 0.2:
            text = chance.choices(words, k=chance.randint(5, 14))
        for _ in range(chance.randint(0, 2)):
            text[chance.randrange(len(text))] = chance.choice(words)
        score = chance.choice([None, 1, 2, 3])
        made.append({"id": f"k{number}", "text": " ".join(text), "score": score, "shop": chance.choice([None, "a", "b"])})
    return made


def preference(records: list[Record], keep: str) -> list[int]:
    """Numbers of the records from 0 on, in the order of preference."""
    numbers = list(range(len(records)))
    if keep in ("first", "last"):
        return numbers if keep == "first" else numbers[::-1]
    if keep == "longest":
        return sorted(numbers, key=lambda number: -len(records[number]["text"]))
    sign = 1 if keep == "by:-score" else -1
    return sorted(numbers, key=lambda number: (records[number]["score"] is None, sign * (records[number]["score"] or 0)))


def brute_force(records: list[Record], keep: str, grouped: bool = False, threshold: float = 0.5) -> dict[int, tuple[int, float]]:
    """The records that go, with the one that stays and the similarity, over all pairs that an index has."""
    with Index(":memory:", MinHash(threshold=threshold, exact=True), record_matches=False) as index:
        index.add_many((number, record["text"]) for number, record in enumerate(records))
        pairs = {(pair.key_a, pair.key_b): pair.similarity for pair in index.pairs()}
    if grouped:
        pairs = {(a, b): value for (a, b), value in pairs.items() if records[a]["shop"] == records[b]["shop"]}
    return duplicates_in(preference(records, keep), lambda a, b: pairs.get((min(a, b), max(a, b))))


def write(path: Path, records: list[Record]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif path.suffix == ".csv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    else:
        schema = {"id": polars.String, "text": polars.String, "score": polars.Int64, "shop": polars.String}
        polars.DataFrame(records, schema=schema).write_parquet(path)
    return path


def read(path: Path) -> list[Record]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    return list(pyarrow.parquet.read_table(path).to_pylist())


def test_each_title_that_goes_is_like_one_that_stays(tmp_path: Path) -> None:
    """Of 150 titles that chains connect, each that goes has the threshold to the one it is marked with, and that one stays."""
    made = [{"id": str(number), "text": title} for number, title in enumerate(titles())]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in made))
    good(source, "-o", tmp_path / "marked.jsonl", "--mark", *OPTIONS)
    good(source, "-o", tmp_path / "out.jsonl", *OPTIONS)
    marked, sets = read(tmp_path / "marked.jsonl"), [set(shingles(record["text"], CHARS)) for record in made]
    stays = {record["id"] for record in marked if record["duplicate_of"] is None}
    gone = [record for record in marked if record["duplicate_of"] is not None]
    assert [record["id"] for record in read(tmp_path / "out.jsonl")] == [record["id"] for record in made if record["id"] in stays]
    assert len(gone) > 75
    for record in gone:
        similarity = jaccard(sets[int(record["id"])], sets[int(record["duplicate_of"])])
        assert record["duplicate_of"] in stays and record["similarity"] == similarity >= 0.6
    result = good(source, "-o", tmp_path / "one.jsonl", "--connected", *OPTIONS)
    assert len(read(tmp_path / "one.jsonl")) < len(stays) and "150 records" in result.stdout


@pytest.mark.parametrize(
    ("cut", "keep"), [("usual", "first"), *(("tiny", keep) for keep in ("first", "last", "longest", "by:score", "by:-score"))]
)
def test_the_command_is_brute_force(tmp_path: Path, keep: str, cut: str, request: pytest.FixtureRequest) -> None:
    """JSON lines, CSV and Parquet, in one file and in shards, with and without a kept index, have the rows and the marks of brute
    force in the order of preference."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    records = reviews(50, 3)
    gone = brute_force(records, keep)
    assert len(gone) > 10
    stays = [record["id"] for number, record in enumerate(records) if number not in gone]
    options = ("--threshold", "0.5", "--keep", keep)
    kinds = ("jsonl", "csv", "parquet")
    for kind in kinds if cut == "usual" else kinds[len(keep) % 3 :][:1]:
        source = write(tmp_path / f"in.{kind}", records)
        shards = tmp_path / f"shards_{kind}"
        shards.mkdir()
        for first in range(0, 50, 20):
            write(shards / f"{first:02}.{kind}", records[first : first + 20])
        for number, given in enumerate([source, shards]):
            good(given, "-o", tmp_path / f"out{number}.{kind}", *options)
            assert [record["id"] for record in read(tmp_path / f"out{number}.{kind}")] == stays
        good(source, "-o", tmp_path / f"marked.{kind}", "--mark", *options)
        for number, record in enumerate(read(tmp_path / f"marked.{kind}")):
            kept, similarity = gone.get(number, (None, None))
            assert (record["duplicate_of"] or None) == (None if kept is None else f"k{kept}")
            assert float(record["similarity"] or 0) == (similarity or 0)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_records_are_compared_within_their_group(tmp_path: Path, kind: str) -> None:
    """--group-field: a record goes for one of equal value in the field; records without a value are a group too."""
    records = reviews(70, 5)
    gone = brute_force(records, "last", grouped=True)
    assert 5 < len(gone) < len(brute_force(records, "last"))
    source = write(tmp_path / f"in.{kind}", records)
    output = tmp_path / f"out.{kind}"
    good(source, "-o", output, "--threshold", "0.5", "--keep", "last", "--group-field", "shop")
    assert [record["id"] for record in read(output)] == [f"k{number}" for number in range(70) if number not in gone]


@pytest.mark.parametrize("keep", ["first", "last", "longest"])
def test_data_frames_and_an_index_that_takes_only_what_is_new_agree(keep: Any) -> None:
    """The rows that a data frame keeps are those that `add_many(only_new=True)` stores, fed in the order of preference."""
    records = reviews(120, 11)
    gone = brute_force(records, keep)
    frame = polars.DataFrame({"id": range(120), "text": [record["text"] for record in records]})
    assert drop_near_duplicates(frame, "text", 0.5, keep=keep)["id"].to_list() == [n for n in range(120) if n not in gone]
    marked = mark_near_duplicates(frame, "text", 0.5, keep=keep)
    assert list(zip(marked["duplicate_of"], marked["similarity"], strict=True)) == [gone.get(n, (None, None)) for n in range(120)]
    with Index(":memory:", MinHash(threshold=0.5, exact=True)) as index:
        index.add_many(((number, records[number]["text"]) for number in preference(records, keep)), only_new=True)
        assert sorted(index) == [n for n in range(120) if n not in gone]


def test_a_component_of_a_chain_is_told(tmp_path: Path) -> None:
    """--connected: a component of more than 1 % of 1,000 records that a chain made is a note, with its lowest similarity; without
    --connected there is none, and the summary names the largest cluster."""
    chance = random.Random(1)
    words = [f"w{number}" for number in range(1000)]
    texts = [" ".join(chance.choices(words, k=24)) for _ in range(977)]
    texts += [" ".join(f"x{number + place}" for place in range(24)) for number in range(23)]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    result = good(source, "-o", tmp_path / "a.jsonl", "--connected")
    assert "chains of near-duplicates connect 23 of 1,000 records" in result.stderr and "down to 0.00" in result.stderr
    result = good(source, "-o", tmp_path / "b.jsonl", "--json")
    told = json.loads(result.stdout)
    assert (result.stderr, told["largest_cluster"], told["largest_similarity"]) == ("", 3, 20 / 24)


def in_shards(folder: Path, kind: str, records: list[Record]) -> Path:
    """The records in files below a folder, packed where the kind says so; of one all records are copies of earlier ones."""
    for name, part in (("a", records[:30]), ("sub/b", records[30:]), ("sub/c", records[:1] * 4)):
        path = folder / f"{name}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = write(path.with_name(path.name.removesuffix(".gz")), part)
        if kind.endswith(".gz"):
            path.write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()
    return folder


def read_shard(path: Path) -> list[Record]:
    if path.suffix != ".gz":
        return read(path)
    plain = path.with_name(f"plain-{path.stem}")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    return read(plain)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "jsonl.gz"])
@pytest.mark.parametrize(("cut", "mark"), [("usual", ()), ("tiny", ("--mark",))], ids=["usual", "tiny-mark"])
def test_shards_go_into_shards(
    tmp_path: Path, kind: str, mark: tuple[str, ...], cut: str, request: pytest.FixtureRequest
) -> None:
    """A folder as output has each shard under its name, packed as it was, with the rows that one file of all would have of it."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    made = [record for record in reviews(60, 7) if record["text"] != "!!!"]
    source, output = in_shards(tmp_path / "in", kind, made), tmp_path / "out"
    good(source, "-o", f"{output}/", "--threshold", "0.5", *mark)
    one = tmp_path / f"one.{kind}"
    good(source, "-o", one, "--threshold", "0.5", *mark)
    names = [f"a.{kind}", f"sub/b.{kind}", f"sub/c.{kind}"]
    assert sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()) == names
    parts = [read_shard(output / name) for name in names]
    assert [record for part in parts for record in part] == read_shard(one)
    assert len(parts[2]) == (4 if mark else 0) and len(parts[0]) > 5
    assert run(source, "-o", output).exit_code == 2  # it exists
    good(source, "-o", output, "--force")


def test_a_folder_of_shards_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error in a later shard there is no folder, and one that was there stays as it was."""
    source = in_shards(tmp_path / "in", "csv", reviews(60, 7))
    real = passes.TextSource._copy

    def fail(source: Any, batches: Any, like: Path, output: Path, *rest: Any) -> None:
        if output.name == "b.csv":
            raise OSError(5, "Input/output error", str(output))
        real(source, batches, like, output, *rest)

    monkeypatch.setattr(passes.TextSource, "_copy", fail)
    assert run(source, "-o", f"{tmp_path}/out/").exit_code == 2 and not (tmp_path / "out").exists()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_text("x")
    assert run(source, "-o", f"{tmp_path}/old", "--force").exit_code == 2
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["x"]


def test_shards_without_names_of_their_own_are_refused(tmp_path: Path) -> None:
    """Two inputs of one name, and a stream, cannot go into a folder: an error says so."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "x.jsonl", reviews(5, 1))
    result = run(tmp_path / "a" / "x.jsonl", tmp_path / "b" / "x.jsonl", "-o", f"{tmp_path}/out/")
    assert result.exit_code == 2 and "would be one file of the output" in result.stderr
    result = run("-", "--format", "jsonl", "-o", f"{tmp_path}/out/", stdin='{"text": "a"}\n')
    assert result.exit_code == 2 and "a stream has no name" in result.stderr and not (tmp_path / "out").exists()
    result = run(tmp_path / "a", "-o", f"{tmp_path}/a/out/")
    assert result.exit_code == 2 and "one is inside the other" in result.stderr
