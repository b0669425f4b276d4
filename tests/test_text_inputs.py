"""What `neardup dedup` and `neardup add` read of text: several inputs, lines, delimiters, encodings, fields."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from neardup_db import Index
from neardup_db.cli import main

FOX = "the quick brown fox jumps over the lazy dog near the river bank"
CAT = "a cat sat on the mat and looked at the birds in the old tree"
OWL = "at night the owl flies over the silent fields and hunts for mice"


def run(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def good(*arguments: object, stdin: str | bytes | None = None) -> Result:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object, stdin: str | bytes | None = None) -> str:
    """The one sentence with which a command refuses."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
    return result.stderr


def rows(*texts: str) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def keys_of(path: Path) -> list[object]:
    with Index(path) as index:
        return sorted(index, key=str)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- several inputs ----------------------------------------------------------------------------------------------------------


def test_files_folders_and_patterns_are_read_in_their_order(here: Path) -> None:
    """Records of all inputs go into one output in the order in which they were named; near-duplicates are found across them."""
    write(here / "b.jsonl", rows(FOX).rstrip(b"\n"))
    write(here / "a.jsonl", rows(CAT, FOX))
    write(here / "more" / "x" / "1.jsonl.gz", gzip.compress(rows(OWL)))
    write(here / "late" / "2.jsonl", rows("two"))
    write(here / "late" / "10.jsonl", rows("ten"))
    good("dedup", "b.jsonl", "a.jsonl", "more", "late/*.jsonl", "-o", "out.jsonl", "--clusters", "c.csv")
    assert Path("out.jsonl").read_bytes() == rows(FOX, CAT, OWL, "ten", "two")
    assert [line.split(",")[1] for line in Path("c.csv").read_text().splitlines()[1:]] == ["b.jsonl:1", "a.jsonl:2"]
    good("add", "i.db", "b.jsonl", "a.jsonl", "more", "late/*.jsonl")
    assert keys_of(here / "i.db") == ["10.jsonl:1", "2.jsonl:1", "a.jsonl:1", "a.jsonl:2", "b.jsonl:1", "x/1.jsonl.gz:1"]


def test_files_of_one_name_are_told_apart_by_their_paths(here: Path) -> None:
    """Keys of file and line stay different, and --source stands before them."""
    for name in ("one", "two"):
        write(here / name / "a.jsonl", rows(FOX, CAT))
    good("add", "i.db", "one/a.jsonl", "two/a.jsonl")
    assert keys_of(here / "i.db") == ["one/a.jsonl:1", "one/a.jsonl:2", "two/a.jsonl:1", "two/a.jsonl:2"]
    good("add", "folders.db", "one", "two")
    assert keys_of(here / "folders.db") == keys_of(here / "i.db")
    good("add", "named.db", "one", "two", "--source", "s")
    assert keys_of(here / "named.db") == [f"s/{key}" for key in keys_of(here / "i.db")]


def test_patterns_are_sorted_go_deep_and_name_folders(here: Path) -> None:
    """A pattern gives what a shell gives, ** files of all depths, each once; hidden files fit none."""
    for name in ("s/2.jsonl", "s/10.jsonl", "s/deep/er/1.jsonl", "s/.hidden.jsonl", "s-2/0.jsonl"):
        write(here / name, rows(f"text of {name}"))
    for pattern, names in {
        "s/*.jsonl": ["s/10.jsonl", "s/2.jsonl"],
        "s/**": ["s/10.jsonl", "s/2.jsonl", "s/deep/er/1.jsonl"],
        "**/*.jsonl": ["s/10.jsonl", "s/2.jsonl", "s/deep/er/1.jsonl", "s-2/0.jsonl"],
        "s*": ["s/10.jsonl", "s/2.jsonl", "s/deep/er/1.jsonl", "s-2/0.jsonl"],
        "s/[0-9].jsonl": ["s/2.jsonl"],
    }.items():
        good("dedup", pattern, "-o", "../out.jsonl" if pattern == "**/*.jsonl" else "out.jsonl", "--force")
        out = here.parent / "out.jsonl" if pattern == "**/*.jsonl" else here / "out.jsonl"
        assert out.read_bytes() == rows(*(f"text of {name}" for name in names)), pattern
        out.unlink()


def test_a_path_that_exists_is_no_pattern(here: Path) -> None:
    """A file whose name has the characters of patterns is read as it is named."""
    write(here / "a[1].jsonl", rows(FOX))
    write(here / "a1.jsonl", rows(CAT))
    assert good("dedup", "a[1].jsonl", "-o", "-").stdout_bytes == rows(FOX)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("dedup no*.jsonl -o out.jsonl", "no*.jsonl: no file fits this pattern"),
        ("dedup a.jsonl no.jsonl -o out.jsonl", "no.jsonl: no such file or folder"),
        ("dedup a.jsonl a.jsonl -o out.jsonl", "a.jsonl is given twice: name it once"),
        ("dedup s/*.jsonl s -o out.jsonl", "s/0.jsonl is given twice"),
        ("dedup a.jsonl link.jsonl -o out.jsonl", "link.jsonl is given twice, as a.jsonl,"),
        ("dedup a.jsonl b.csv -o out.jsonl", "different kinds (a.jsonl and b.csv)"),
        ("dedup a.jsonl texts -o out.jsonl", "different kinds (a.jsonl and texts/one)"),
        ("dedup texts texts2 -o out", "a folder of texts goes with no other input"),
        ("dedup a.jsonl - -o out.jsonl", "standard input (-) goes with no other input"),
        ("dedup a.jsonl s -o out", "so its name must end in .jsonl"),
        ("dedup a.jsonl s -o out.csv", "so its name must end in .jsonl"),
        ("dedup a.jsonl s -o s/out.jsonl", "one is inside the other"),
        ("dedup *.jsonl s -o a.jsonl --force", "a.jsonl is the input"),
        ("dedup s/*.jsonl -o s/0.jsonl --force", "is the input"),
        ("dedup b.csv c.csv -o out.csv", "c.csv, line 1: the columns are 'text', 'id', those of b.csv 'id', 'text'"),
        ("dedup a.jsonl nothing.what -o out.jsonl", "nothing.what: its name does not tell the format"),
        ("add i.db no*.jsonl", "no*.jsonl: no file fits this pattern"),
        ("add i.db a.jsonl a.jsonl", "is given twice"),
        ("add i.db - a.jsonl", "standard input (-) goes with no other input"),
        ("add i.db x.jsonl y.jsonl", "y.jsonl, line 1: key 'k' stands in x.jsonl, line 1 already"),
    ],
)
def test_inputs_that_do_not_go_together_are_refused(here: Path, command: str, message: str) -> None:
    """One sentence names what is wrong, and nothing is written."""
    write(here / "a.jsonl", rows(FOX))
    (here / "link.jsonl").symlink_to("a.jsonl")
    write(here / "s" / "0.jsonl", rows(CAT))
    write(here / "b.csv", "id,text\n1,x\n")
    write(here / "c.csv", "text,id\nx,1\n")
    write(here / "nothing.what", "x")
    for name in ("x.jsonl", "y.jsonl"):
        write(here / name, f'{{"id": "k", "text": "text of {name}"}}\n')
    for folder in ("texts", "texts2"):
        write(here / folder / "one", FOX)
    before = sorted(here.rglob("*"))
    if command == "dedup *.jsonl s -o a.jsonl --force":
        (here / "link.jsonl").unlink()
        before.remove(here / "link.jsonl")
    assert message in refused(*command.split())
    assert sorted(here.rglob("*")) == before and (here / "a.jsonl").read_bytes() == rows(FOX)


def test_folders_of_texts_are_added_together(here: Path) -> None:
    """Their keys are paths, with the folders where two texts have the same one."""
    for folder in ("texts", "texts2"):
        write(here / folder / "one", f"{folder} of {FOX}")
    good("add", "i.db", "texts", "texts2")
    assert keys_of(here / "i.db") == ["texts/one", "texts2/one"]


def test_several_pipes_are_inputs(here: Path) -> None:
    """Each is copied to a file of its own."""
    for name, text in (("one.jsonl", FOX), ("two.jsonl", CAT)):
        os.mkfifo(here / name)
        threading.Thread(target=(here / name).write_bytes, args=(rows(text, FOX),)).start()
    assert good("dedup", "one.jsonl", "two.jsonl", "-o", "-").stdout_bytes == rows(FOX, CAT)


def test_an_error_in_a_later_input_names_it(here: Path) -> None:
    """File and line of a broken record are those of its file."""
    write(here / "a.jsonl", rows(FOX))
    write(here / "b.jsonl", rows(CAT) + b"broken\n")
    assert "b.jsonl, line 2: not JSON" in refused("dedup", "a.jsonl", "b.jsonl", "-o", "out.jsonl")
    told = json.loads(good("dedup", "a.jsonl", "b.jsonl", "-o", "out.jsonl", "--on-error", "skip", "--json").stdout)
    assert [(problem["file"], problem["line"]) for problem in told["problems"]] == [("b.jsonl", 2)]
