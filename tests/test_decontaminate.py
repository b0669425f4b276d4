"""`neardup decontaminate`, `passages` and `boilerplate`: what goes, what stays, what is told."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from neardup_db import Passages, TextRules
from neardup_db.cli import main
from neardup_db.comparing import RunFilter

WORDS = [f"w{i}" for i in range(400)]
SHORTEST = 13


def made(seed: int) -> tuple[list[str], list[str]]:
    """Training texts and test questions; the questions 0, 3, 6, ... stand, whole or in part, in every seventh text."""
    draw = random.Random(seed)
    tests = [" ".join(draw.choices(WORDS, k=draw.randint(20, 30))) for _ in range(40)]
    train = []
    for number in range(140):
        words = draw.choices(WORDS, k=draw.randint(30, 80))
        if number % 7 == 0:
            asked = tests[(number // 7) * 3 % 40].split()
            part = asked if number % 2 else asked[2 : 2 + SHORTEST - (number % 4 == 0)]
            place = draw.randint(0, len(words))
            words[place:place] = part
        train.append(" ".join(words))
    return train, tests


def contaminated(train: Iterable[str], tests: Iterable[str], shortest: int = SHORTEST) -> list[int]:
    """By a set of all runs, as a script does it."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[i : i + shortest]) for i in range(len(words) - shortest + 1)}

    known = set().union(*map(runs, tests))
    return [number for number, text in enumerate(train) if runs(text) & known]


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def json_lines(path: Path, texts: Iterable[str], field: str = "text") -> Path:
    lines = "".join(json.dumps({"id": number, field: text}) + "\n" for number, text in enumerate(texts))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


def read(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


@pytest.mark.parametrize("seed", range(3))
def test_exactly_the_contaminated_records_go(tmp_path: Path, seed: int) -> None:
    """All that share 13 words in a row with a question, and no other; the report names each passage."""
    train, tests = made(seed)
    gone = contaminated(train, tests)
    assert 10 < len(gone) < 30
    source, asked = json_lines(tmp_path / "train.jsonl", train), json_lines(tmp_path / "test.jsonl.gz", tests, "question")
    clean, report = tmp_path / "clean.jsonl", tmp_path / "report.jsonl"
    given = (source, "--test", asked, "--test-field", "question", "-o", clean, "--report", report)
    told = run("decontaminate", *given, "--json")
    summary = json.loads(told.stdout)
    assert (summary["records"], summary["contaminated"], summary["tests"]) == (140, len(gone), 40)
    lines = source.read_bytes().splitlines(keepends=True)
    assert clean.read_bytes() == b"".join(line for number, line in enumerate(lines) if number not in gone)
    found = read(report)
    assert sorted({one["id"] for one in found}) == gone and len(found) == summary["passages"]
    for one in found:
        assert (
            train[one["id"]][one["start"] : one["end"]] == one["text"] == tests[one["test"]][one["test_start"] : one["test_end"]]
        )
        assert len(one["text"].split()) == one["tokens"] >= SHORTEST
    assert "--force" in run("decontaminate", *given, code=2).stderr
    assert f"{140 - len(gone)} kept" in run("decontaminate", *given, "--force").stdout


def test_passages_are_cut_out(tmp_path: Path) -> None:
    """With --drop passage all records stay, and no text shares a passage any more; other fields and other records stay as they
    are, of files, shards and folders."""
    train, tests = made(7)
    gone = contaminated(train, tests)
    asked = json_lines(tmp_path / "test.jsonl", tests)
    shards, folder = tmp_path / "shards", tmp_path / "texts"
    shards.mkdir()
    folder.mkdir()
    for first in (0, 70):
        lines = "".join(json.dumps({"id": i, "doc": {"text": train[i]}, "n": [i]}) + "\n" for i in range(first, first + 70))
        (shards / f"{first}.jsonl").write_text(lines)
    for number, text in enumerate(train):
        (folder / f"{number:03}.txt").write_text(text)
    run("decontaminate", shards, "--test", asked, "--test-field", "text", "--text-field", "doc.text", "-o", f"{tmp_path}/out/",
        "--drop", "passage")  # fmt: skip
    out = [one for path in sorted((tmp_path / "out").iterdir()) for one in read(path)]
    run("decontaminate", folder, "--test", asked, "-o", tmp_path / "cut", "--drop", "passage", "--format", "folder", code=2)
    run("decontaminate", folder, "--glob", "*.txt", "--test", asked, "-o", tmp_path / "cut", "--drop", "passage")
    for number, one in enumerate(sorted(out, key=lambda one: one["id"])):
        text = one["doc"]["text"]
        assert one["n"] == [number] and (text == train[number]) == (number not in gone)
        assert (tmp_path / "cut" / f"{number:03}.txt").read_text() == text
    assert contaminated((one["doc"]["text"] for one in out), tests) == []


def test_a_cut_leaves_no_passage(tmp_path: Path) -> None:
    """Where the words on both sides of a passage are a passage themselves, they go too."""
    outer, inner = WORDS[:16], WORDS[20:36]
    asked = json_lines(tmp_path / "test.jsonl", [" ".join(outer), " ".join(inner)])
    source = json_lines(tmp_path / "train.jsonl", [" ".join(["before", *outer[:8], *inner, *outer[8:], "after"])])
    run("decontaminate", source, "--test", asked, "-o", tmp_path / "a.jsonl", "--drop", "passage")
    assert [record["text"].split() for record in read(tmp_path / "a.jsonl")] == [["before", "after"]]


def test_a_packed_text_stays_packed_when_it_is_cut(tmp_path: Path) -> None:
    """In a folder, a text that is cut keeps the compression that its name says."""
    asked = json_lines(tmp_path / "test.jsonl", [" ".join(WORDS[:16])])
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt.gz").write_bytes(gzip.compress(" ".join(["before", *WORDS[:16], "after"]).encode()))
    run("decontaminate", tmp_path / "texts", "--glob", "*.gz", "--test", asked, "-o", tmp_path / "cut", "--drop", "passage")
    assert gzip.decompress((tmp_path / "cut" / "a.txt.gz").read_bytes()).split() == [b"before", b"after"]


def test_tables(tmp_path: Path) -> None:
    """Parquet keeps its columns; passages cannot be cut out of it, and that is said before anything is read."""
    train, tests = made(4)
    gone = contaminated(train, tests)
    pq.write_table(pa.table({"id": range(140), "text": train, "x": [1.5] * 140}), tmp_path / "train.parquet")
    pq.write_table(pa.table({"text": tests}), tmp_path / "test.parquet")
    given = ("decontaminate", tmp_path / "train.parquet", "--test", tmp_path / "test.parquet", "-o", tmp_path / "clean.parquet")
    assert "use --drop document" in run(*given, "--drop", "passage", code=2).stderr
    run(*given)
    clean = pq.read_table(tmp_path / "clean.parquet")
    assert clean["id"].to_pylist() == [number for number in range(140) if number not in gone]
    assert clean.schema.names == ["id", "text", "x"]


def test_short_questions_are_told(tmp_path: Path) -> None:
    """Questions with fewer words than a passage cannot be found, and a note says how many there are."""
    source = json_lines(tmp_path / "train.jsonl", ["one two three four", "five six seven eight"])
    asked = json_lines(tmp_path / "test.jsonl", ["two three four", "x y z two three four five six seven eight nine ten eleven"])
    result = run("decontaminate", source, "--test", asked, "-o", tmp_path / "a.jsonl")
    assert "1 test text of 2 with fewer than 13 tokens cannot be found: give a lower --shortest" in result.stderr
    result = run("decontaminate", source, "--test", asked, "-o", tmp_path / "b.jsonl", "--shortest", 3)
    assert read(tmp_path / "b.jsonl") == [] and "2 contaminated removed; 2 of 2 test texts found" in result.stdout


def test_skipped_questions_are_told(tmp_path: Path) -> None:
    """An invalid record of the test texts is never searched for; notes and the counts say so, and name its line."""
    source = json_lines(tmp_path / "train.jsonl", [" ".join(WORDS[:20])])
    asked, more = tmp_path / "test.jsonl", tmp_path / "more.jsonl"
    asked.write_bytes(b'{"text": "a b c"}\n{"te\n')
    more.write_bytes(b'{"text": "d e f"}\n{"text": 1}\n[]\n')
    arguments = ("decontaminate", source, "--test", asked, "--test", more, "--on-error", "skip", "--json")
    result = run(*arguments, "-o", tmp_path / "a.jsonl")
    counts = json.loads(result.stdout)
    assert (counts["tests"], counts["tests_skipped"], counts["skipped"]) == (2, 3, 0)
    assert "test.jsonl: 1 record skipped" in result.stderr and "more.jsonl: 2 records skipped" in result.stderr
    assert "line 2" in result.stderr


def test_wrong_arguments_of_decontaminate(tmp_path: Path) -> None:
    """Outputs that would overwrite an input, or each other, and tests that are none, are refused."""
    source = json_lines(tmp_path / "train.jsonl", ["a b c"])
    asked, empty = json_lines(tmp_path / "test.jsonl", ["a b c"]), json_lines(tmp_path / "empty.jsonl", [])
    for given, told in (
        (("--test", asked, "-o", source, "--force"), "is the input"),
        (("--test", source, "-o", tmp_path / "x.jsonl", "--report", asked.with_name("missing") / "r"), "does not exist"),
        (("--test", empty, "-o", tmp_path / "x.jsonl"), "there is no record"),
        (("--test", asked, "-o", "-", "--report", "-"), "Only one of"),
        (("--test", tmp_path / "none.jsonl", "-o", tmp_path / "x.jsonl"), "no such file"),
        (("-o", tmp_path / "x.jsonl"), "--test"),
    ):
        assert told in run("decontaminate", source, *given, code=2).stderr
    given = ("-", "--test", "-", "--format", "jsonl", "-o", tmp_path / "x.jsonl")
    assert "Only one of TRAIN and --test can be standard input" in run("decontaminate", *given, code=2).stderr
    assert not (tmp_path / "x.jsonl").exists() and read(source) == [{"id": 0, "text": "a b c"}]


def test_passages_of_an_index(tmp_path: Path) -> None:
    """Tokens, key, both places and the passage; of a document, of long ones, as JSON; exit code 1 without any."""
    index, essay = tmp_path / "a.db", tmp_path / "essay.txt"
    source = json_lines(tmp_path / "in.jsonl", ["the quick brown fox jumps", "a quick brown fox sleeps all day"])
    run("add", index, source, "--scheme", "passages", "--shortest", 3, "--store-text", "--key-type", "int")
    essay.write_text("Look: the Quick, brown fox jumps!")
    assert run("passages", index, "--file", essay).stdout == (
        "5\t0\t6-32\t0-25\tthe Quick, brown fox jumps\n3\t1\t10-26\t2-17\tQuick, brown fox\n"
    )
    told = run("passages", index, "--file", essay, "--in", 1, "--key-type", "int", "--json").stdout
    assert json.loads(told) == {
        "key": 1, "start": 10, "end": 26, "other_start": 2, "other_end": 17, "tokens": 3, "text": "Quick, brown fox",
    }  # fmt: skip
    assert run("passages", index, "--key", 0, "--in", 1, "--key-type", "int").stdout == "3\t1\t4-19\t2-17\tquick brown fox\n"
    assert run("passages", index, essay).stdout == run("passages", index, "--file", essay).stdout
    run("passages", index, "nothing of that", code=1)
    other = tmp_path / "other.db"
    run("add", other, json_lines(tmp_path / "other.jsonl", ["so a quick brown fox", "no fox"]), "--store-text")
    assert run("passages", index, "--against", other).stdout == "0\t4\t1\t3-20\t0-17\ta quick brown fox\n" + (
        "0\t3\t0\t5-20\t4-19\tquick brown fox\n"
    )
    told = run("passages", index, "--against", other, "--limit", 1, "--json").stdout
    assert json.loads(told)["against"] == "0" and json.loads(told)["tokens"] == 4
    assert "--shortest 2" in run("passages", index, "a", "--shortest", 2, code=2).stderr.replace("'", "").replace(": 2", " 2")
    assert "Give one of FILE or TEXT" in run("passages", index, code=2).stderr
    plain = tmp_path / "plain.db"
    run("add", plain, source)
    assert "--scheme passages" in run("passages", plain, "a", code=2).stderr
    assert "make it with --store-text" in run("passages", index, "--against", plain, code=2).stderr


def test_boilerplate(tmp_path: Path) -> None:
    """The most frequent passage first, with a record that has it; exit code 1 and a remedy without any."""
    texts = [f"page {i} {' '.join(f'w{i}x{j}' for j in range(9))} all rights reserved by the shop" for i in range(12)]
    source = json_lines(tmp_path / "in.jsonl", texts)
    assert run("boilerplate", source, "--shortest", 5).stdout == "12\t6\t0\tall rights reserved by the shop\n"
    assert json.loads(run("boilerplate", source, "--shortest", 5, "--json").stdout)["texts"] == 12
    assert "give a lower --shortest or --at-least" in run("boilerplate", source, code=1).stderr


def test_texts_shorter_than_a_passage_are_told(tmp_path: Path) -> None:
    """add and query say how many tokens a text needs, not that it has no word."""
    index, source = tmp_path / "a.db", json_lines(tmp_path / "in.jsonl", ["one two three", "one two three four five"])
    told = run("add", index, source, "--scheme", "passages", "--shortest", 4).stdout
    assert "1 document with fewer than 4 tokens: they match nothing" in told
    assert "the text is one with fewer than 4 tokens" in run("query", index, "one two", code=1).stderr


@pytest.mark.parametrize("shortest", [3, 4, 5, 8, 13, 25, 60, 300])
def test_the_filter_passes_all_that_share_a_passage(shortest: int) -> None:
    """A planted passage at any place of a text is found, in words and in Chinese characters; of texts with one token less, most
    are not."""
    draw, scheme, rules = random.Random(shortest), Passages(shortest=shortest), TextRules()
    for joiner, alphabet in ((" ", [f"Wé{i}" for i in range(3000)]), ("", [chr(0x4E00 + i) for i in range(3000)])):

        def text(count: int, joiner: str = joiner, alphabet: list[str] = alphabet) -> str:
            return joiner.join(draw.choices(alphabet, k=count))

        planted = [text(shortest) for _ in range(50)]
        tests = [joiner.join([text(draw.randint(0, 20)), passage, text(draw.randint(0, 20))]) for passage in planted]
        run_filter = RunFilter(scheme.native, rules.native)
        run_filter.add(tests)
        around = [(text(place), text(draw.randint(0, 30))) for place in range(50)]
        whole = [joiner.join([before, passage, after]) for (before, after), passage in zip(around, planted, strict=True)]
        assert run_filter.meet(whole).all()
        cut = [one.split() if joiner else list(one) for one in planted]
        cuts = [joiner.join([before, *part[1:], "x", after]) for (before, after), part in zip(around, cut, strict=True)]
        assert run_filter.meet(cuts).sum() < 10
        assert not run_filter.meet(["", text(shortest - 1), text(1000)]).any()
