"""What `neardup dedup` and `neardup add` read of text: several inputs, lines, delimiters, encodings, fields."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import zstandard
from commands import printed, refused, run

from neardup_db import Index
from neardup_db.cli.inputs.files import FileError
from neardup_db.cli.inputs.opening import open_source
from neardup_db.cli.inputs.source import Marks, ReadOptions

FOX = "the quick brown fox jumps over the lazy dog near the river bank"
CAT = "a cat sat on the mat and looked at the birds in the old tree"
OWL = "at night the owl flies over the silent fields and hunts for mice"


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
    printed("dedup", "b.jsonl", "a.jsonl", "more", "late/*.jsonl", "-o", "out.jsonl", "--clusters", "c.csv")
    assert Path("out.jsonl").read_bytes() == rows(FOX, CAT, OWL, "ten", "two")
    assert [line.split(",")[1] for line in Path("c.csv").read_text().splitlines()[1:]] == ["b.jsonl:1", "a.jsonl:2"]
    printed("add", "i.db", "b.jsonl", "a.jsonl", "more", "late/*.jsonl")
    assert keys_of(here / "i.db") == ["10.jsonl:1", "2.jsonl:1", "a.jsonl:1", "a.jsonl:2", "b.jsonl:1", "x/1.jsonl.gz:1"]


def test_files_of_one_name_are_told_apart_by_their_paths(here: Path) -> None:
    """Keys of file and line stay different, and --source stands before them."""
    for name in ("one", "two"):
        write(here / name / "a.jsonl", rows(FOX, CAT))
    printed("add", "i.db", "one/a.jsonl", "two/a.jsonl")
    assert keys_of(here / "i.db") == ["one/a.jsonl:1", "one/a.jsonl:2", "two/a.jsonl:1", "two/a.jsonl:2"]
    printed("add", "folders.db", "one", "two")
    assert keys_of(here / "folders.db") == keys_of(here / "i.db")
    printed("add", "named.db", "one", "two", "--source", "s")
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
        printed("dedup", pattern, "-o", "../out.jsonl" if pattern == "**/*.jsonl" else "out.jsonl", "--force")
        out = here.parent / "out.jsonl" if pattern == "**/*.jsonl" else here / "out.jsonl"
        assert out.read_bytes() == rows(*(f"text of {name}" for name in names)), pattern
        out.unlink()


def test_a_path_that_exists_is_no_pattern(here: Path) -> None:
    """A file whose name has the characters of patterns is read as it is named."""
    write(here / "a[1].jsonl", rows(FOX))
    write(here / "a1.jsonl", rows(CAT))
    assert printed("dedup", "a[1].jsonl", "-o", "-").encode() == rows(FOX)


APART = [
    ("dedup no*.jsonl -o out.jsonl", "no*.jsonl: no file fits this pattern"),
    ("dedup a.jsonl no.jsonl -o out.jsonl", "no.jsonl: no such file or folder"),
    ("dedup a.jsonl a.jsonl -o out.jsonl", "a.jsonl is given twice: name it once"),
    ("dedup s/*.jsonl s -o out.jsonl", "s/0.jsonl is given twice"),
    ("dedup a.jsonl link.jsonl -o out.jsonl", "link.jsonl is given twice, as a.jsonl,"),
    ("dedup a.jsonl b.csv -o out.jsonl", "different kinds (a.jsonl and b.csv)"),
    ("dedup a.jsonl texts -o out.jsonl", "different kinds (a.jsonl and texts/one)"),
    ("dedup texts texts2 -o out", "a folder of texts cannot be combined with other inputs"),
    ("dedup a.jsonl - -o out.jsonl", "standard input (-) cannot be combined with other inputs"),
    ("dedup a.jsonl s -o out", "so its name must end in .jsonl"),
    ("dedup a.jsonl s -o out.csv", "so its name must end in .jsonl"),
    ("dedup a.jsonl s -o s/out.jsonl", "one is inside the other"),
    ("dedup s/*.jsonl -o s/0.jsonl --force", "is the input"),
    ("dedup b.csv c.csv -o out.csv", "c.csv, line 1: the columns are 'text', 'id', those of b.csv 'id', 'text'"),
    ("dedup a.jsonl nothing.what -o out.jsonl", "nothing.what: its name does not show the format"),
    ("add i.db no*.jsonl", "no*.jsonl: no file fits this pattern"),
    ("add i.db a.jsonl a.jsonl", "is given twice"),
    ("add i.db - a.jsonl", "standard input (-) cannot be combined with other inputs"),
    ("add i.db x.jsonl y.jsonl", "y.jsonl, line 1: key 'k' is already in the index"),
]
"""Commands whose inputs do not go together, and what they say."""


@pytest.mark.posix("links")
def test_inputs_that_do_not_go_together_are_refused(here: Path) -> None:
    """One sentence names what is wrong, and nothing is written."""
    write(here / "a.jsonl", rows(FOX))
    write(here / "s" / "0.jsonl", rows(CAT))
    write(here / "b.csv", "id,text\n1,x\n")
    write(here / "c.csv", "text,id\nx,1\n")
    write(here / "nothing.what", "x")
    for name in ("x.jsonl", "y.jsonl"):
        write(here / name, f'{{"id": "k", "text": "text of {name}"}}\n')
    for folder in ("texts", "texts2"):
        write(here / folder / "one", FOX)
    before = sorted(here.rglob("*"))
    assert "a.jsonl is the input" in refused("dedup", "*.jsonl", "s", "-o", "a.jsonl", "--force")
    assert sorted(here.rglob("*")) == before
    (here / "link.jsonl").symlink_to("a.jsonl")
    before = sorted(here.rglob("*"))
    for command, message in APART:
        assert message in refused(*command.split()), command
        assert sorted(here.rglob("*")) == before and (here / "a.jsonl").read_bytes() == rows(FOX), command


def test_folders_of_texts_are_added_together(here: Path) -> None:
    """Their keys are paths, with the folders where two texts have the same one."""
    for folder in ("texts", "texts2"):
        write(here / folder / "one", f"{folder} of {FOX}")
    printed("add", "i.db", "texts", "texts2")
    assert keys_of(here / "i.db") == ["texts/one", "texts2/one"]


@pytest.mark.posix("named pipes")
def test_several_pipes_are_inputs(here: Path) -> None:
    """Each, packed or not, is copied to a file of its own, since it cannot be read twice: a FIFO, or <(...) of a shell."""
    given = {"one.jsonl": rows(FOX, FOX), "two.jsonl": gzip.compress(rows(CAT, FOX))}
    for name in given:
        os.mkfifo(here / name)
    for command in (["dedup", *given, "-o", "out.jsonl"], ["add", "i.db", *given]):
        for name, data in given.items():
            threading.Thread(target=(here / name).write_bytes, args=(data,)).start()
        printed(*command)
    assert Path("out.jsonl").read_bytes() == rows(FOX, CAT)
    assert keys_of(here / "i.db") == ["one.jsonl:1", "one.jsonl:2", "two.jsonl:1", "two.jsonl:2"]


def test_an_error_in_a_later_input_names_it(here: Path) -> None:
    """File and line of a broken record are those of its file."""
    write(here / "a.jsonl", rows(FOX))
    write(here / "b.jsonl", rows(CAT) + b"broken\n")
    assert "b.jsonl, line 2: not JSON" in refused("dedup", "a.jsonl", "b.jsonl", "-o", "out.jsonl")
    told = json.loads(printed("dedup", "a.jsonl", "b.jsonl", "-o", "out.jsonl", "--on-error", "skip", "--json"))
    assert [(problem["file"], problem["line"]) for problem in told["problems"]] == [("b.jsonl", 2)]


# ---- lines of text -----------------------------------------------------------------------------------------------------------


def test_each_line_of_a_text_file_is_a_record(here: Path) -> None:
    """A .txt that is named by itself, packed or not, is lines: a line's key is file and line, and its bytes stay."""
    data = f"{FOX}\r\n\n{CAT}\n\n{FOX}!\n{OWL}".encode()
    write(here / "in.txt", data)
    write(here / "in.txt.gz", gzip.compress(data))
    write(here / "in.txt.zst", zstandard.ZstdCompressor().compress(data))
    expected = f"{FOX}\r\n\n{CAT}\n\n{OWL}".encode()
    for name in ("in.txt", "in.txt.gz", "in.txt.zst"):
        assert run("dedup", name, "-o", "-").stdout_bytes == expected
    assert run("dedup", "-", "--format", "lines", "-o", "-", stdin=data).stdout_bytes == expected
    printed("dedup", "in.txt", "-o", "out.txt", "--pairs", "p.jsonl")
    assert Path("out.txt").read_bytes() == expected
    pair = json.loads(Path("p.jsonl").read_text())
    assert (pair["id_a"], pair["line_a"], pair["id_b"], pair["line_b"]) == ("in.txt:1", 1, "in.txt:5", 5)
    printed("add", "i.db", "in.txt", "--store-text")
    with Index("i.db") as index:
        assert index.get("in.txt:1").text == FOX and index.get("in.txt:6").text == OWL and len(index) == 6


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_short_lines_of_packed_and_plain_files_stay_apart(here: Path, mark: bytes) -> None:
    """A line end that is missing is put between two files, and only the first mark stays, however short the lines are."""
    for name, line in (("a", b"1"), ("b", b"2"), ("c", b"\xc3\xa9"), ("d", b""), ("e", b"3\n"), ("f", b"4")):
        write(here / "plain" / f"{name}.txt", mark + line)
        write(here / "packed" / f"{name}.txt.gz", gzip.compress(mark + line))
    for pattern in ("plain/*", "packed/*", "p*/[aef]*"):
        printed("dedup", pattern, "-o", "out.txt", "--force")
        lines = Path("out.txt").read_bytes().removeprefix(mark).decode().splitlines()
        assert [line for line in lines if line] == list("134" if "[" in pattern else "12\xe934"), lines
        assert Path("out.txt").read_bytes().count(codecs.BOM_UTF8) == bool(mark)


def test_a_folder_of_texts_stays_one_unless_its_format_is_lines(here: Path) -> None:
    """Of files that are named, also by a pattern, each line is a record; the files of a folder are texts without --format."""
    write(here / "texts" / "a.txt", f"{FOX}\n{CAT}")
    write(here / "texts" / "b.txt", f"{FOX}\n")
    printed("dedup", "texts", "-o", "copy")
    assert sorted(path.name for path in (here / "copy").iterdir()) == ["a.txt", "b.txt"]
    for arguments in (["texts", "--format", "lines"], ["texts/*.txt"]):
        printed("dedup", *arguments, "-o", "out.txt", "--force")
        assert Path("out.txt").read_text() == f"{FOX}\n{CAT}"
    assert "must end in .txt" in refused("dedup", "texts/*.txt", "-o", "out.jsonl")
    assert "must end in .txt" in refused("dedup", "texts/a.txt", "-o", "out.csv")


def test_options_that_do_not_fit_the_input_are_refused(here: Path) -> None:
    """One sentence names the option or the file, and no index is left."""
    write(here / "a.txt", FOX)
    write(here / "a.jsonl", rows(FOX))
    write(here / "texts" / "a", FOX)
    write(here / "wide.txt", codecs.BOM_UTF16_LE + f"{FOX}\n".encode("utf-16-le"))
    for arguments, message in (
        (["a.txt", "--text-field", "body"], "a.txt: lines of text have no fields"),
        (["a.txt", "--id-field", "url"], "a.txt: lines of text have no fields"),
        (["texts", "--text-field", "body"], "texts: texts of a folder have no fields"),
        (["a.txt", "--key-type", "int"], "have no ids, as --key-type int needs"),
        (["a.txt", "--delimiter", ";"], "--delimiter is for CSV and TSV"),
        (["a.jsonl", "--delimiter", ";"], "--delimiter is for CSV and TSV"),
        (["a.jsonl", "--encoding", "klingon"], "--encoding 'klingon' is not known"),
        (["a.jsonl", "--encoding", "base64"], "--encoding 'base64' is not known"),
        (["a.jsonl", "--encoding", ""], "--encoding '' is not known"),
        (["wide.txt"], "wide.txt: this is UTF-16: add --encoding utf-16"),
    ):
        assert message in refused("add", "i.db", *arguments), arguments
        assert not Path("i.db").exists(), arguments


# ---- delimiters --------------------------------------------------------------------------------------------------------------


def test_columns_stand_between_any_character(here: Path) -> None:
    """--delimiter names it, \\t is a tab; the bytes of rows stay. What cannot stand there is refused by name."""
    for given, between in ((";", ";"), ("|", "|"), ("\\t", "\t"), ("\t", "\t"), ("\u00a6", "\u00a6")):
        made = [between.join(row) for row in (["id", "text"], ["1", f'"{FOX}, {between}"'], ["2", FOX], ["3", CAT])]
        write(here / "in.csv", "\r\n".join(made))
        printed("dedup", "in.csv", "-o", "out.csv", "--delimiter", given, "--pairs", "p.csv", "--force")
        assert Path("out.csv").read_bytes().decode() == "\r\n".join([*made[:2], made[3]]), given
        assert Path("p.csv").read_text().startswith("id_a,id_b,")
    for given in ("", ";;", '"', "\n", "\r", "\\n", "tab"):
        result = run("dedup", "in.csv", "-o", "out.csv", "--delimiter", given)
        assert result.exit_code == 2 and f"{given!r} is not a column delimiter" in result.stderr


def test_a_header_that_is_not_cut_asks_for_its_delimiter(here: Path) -> None:
    """The whole header is one column then. What was done is said after the remedy, without a full stop between."""
    write(here / "in.csv", "id;text\n1;a\n")
    told = refused("dedup", "in.csv", "-o", "out.csv")
    assert "no column 'text'; the header has 'id;text'; give --delimiter" in told
    write(here / "in.csv", "id,body\n1,a\n")
    told = refused("add", "i.db", "in.csv")
    assert "the header has 'id', 'body'; name the fields with --id-field and --text-field; nothing was added" in told


def test_an_address_is_said_to_be_none_of_this_machine(here: Path) -> None:
    """Object storage and web pages are not read: the error says how their records get in."""
    for name in ("s3://bucket/part.jsonl", "s3://bucket/*.jsonl", "https://example.com/part.jsonl"):
        assert "; copy it to this machine first, or pipe it in as - with --format" in refused("dedup", name, "-o", "out.jsonl")
    assert "copy it" not in refused("dedup", "part.jsonl", "-o", "out.jsonl")


# ---- encodings ---------------------------------------------------------------------------------------------------------------

ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "utf-7", "latin-1", "cp1252", "gb18030", "shift_jis", "cp037")


@pytest.mark.parametrize(
    ("encoding", "ending"),
    [("utf-16", "jsonl"), ("utf-16", "csv"), *zip(ENCODINGS, itertools.cycle(["txt", "jsonl", "csv"]), strict=False)],
)
def test_text_in_any_encoding_is_read_as_in_utf8(here: Path, encoding: str, ending: str) -> None:
    """The output is that of the same input in UTF-8, also of packed files, shards and standard input."""
    head = {"csv": "id,text\r\n"}.get(ending, "")
    for name, text in (("a", FOX), ("b", f"{FOX}!"), ("c", CAT)):
        line = {"jsonl": json.dumps({"id": name, "text": text}), "csv": f"{name},{text}", "txt": text}[ending]
        write(here / "plain" / f"{name}.{ending}", f"{head}{line}")
        write(here / "coded" / f"{name}.{ending}", f"{head}{line}".encode(encoding))
        write(here / "packed" / f"{name}.{ending}.gz", gzip.compress(f"{head}{line}".encode(encoding)))
    printed("dedup", "plain/*", "-o", f"plain.{ending}")
    for folder in ("coded", "packed"):
        printed("dedup", f"{folder}/*", "-o", f"{folder}.{ending}", "--encoding", encoding)
        assert Path(f"{folder}.{ending}").read_bytes() == Path(f"plain.{ending}").read_bytes()
    if encoding != "utf-16":
        return
    printed("dedup", "coded/*", "-o", "shards/", "--encoding", encoding)
    assert [path.name for path in sorted(Path("shards").iterdir())] == [f"{name}.{ending}" for name in "abc"]
    assert Path(f"shards/a.{ending}").read_text() == Path(f"plain/a.{ending}").read_text()


def test_texts_of_a_folder_are_converted(here: Path) -> None:
    for name, text in (("a", FOX), ("b", f"{FOX}!"), ("c", CAT)):
        write(here / "texts" / "in" / f"{name}.txt", text.encode("utf-16"))
    printed("dedup", "texts", "-o", "copies", "--encoding", "utf-16", "--pairs", "p.jsonl")
    copies = sorted(Path("copies", "in").iterdir())
    assert [(path.name, path.read_text()) for path in copies] == [("a.txt", FOX), ("c.txt", CAT)]
    assert json.loads(Path("p.jsonl").read_text())["id_b"] == "in/b.txt"


def test_bytes_that_an_encoding_has_not_are_refused(here: Path) -> None:
    for encoding, data in (("cp1252", b"caf\x81"), ("gb18030", b"\xff"), ("utf-16-le", b"a\0b")):
        write(here / "a.txt", data)
        told = refused("dedup", "a.txt", "-o", "-", "--encoding", encoding)
        assert f"a.txt: not valid {encoding} (" in told and "name another --encoding" in told


# ---- fields ------------------------------------------------------------------------------------------------------------------


def test_fields_in_objects_and_several_texts(here: Path) -> None:
    """Dots lead into objects unless there is a field of the whole name; texts of several fields are joined by line ends."""
    made = [
        {"doc": {"body": FOX, "id": 1, "n": 2}, "title": "T"},
        {"doc.body": CAT, "doc": {"body": FOX, "id": "1"}, "title": None},
        {"doc": {"body": None, "id": "b"}, "title": OWL},
    ]
    write(here / "in.jsonl", "".join(json.dumps(record) + "\n" for record in made))
    fields = ("--text-field", "title", "--text-field", "doc.body", "--id-field", "doc.id")
    printed("add", "i.db", "in.jsonl", *fields, "--store-text", "--metadata", "--if-exists", "replace")
    with Index("i.db") as index:
        assert {key: index.get(key).text for key in index} == {"1": f"\n{CAT}", "b": f"{OWL}\n"}
        assert index.get("1").metadata == {"doc": {"body": FOX}} and index.get("b").metadata == {"doc": {}}
    told = refused("add", "j.db", "in.jsonl", "--text-field", "doc.body", "--id-field", "doc.id")
    assert "line 3: no field 'doc.body'; it has 'doc', 'title'" in told
    assert "no field 'x.y' or 'z'; it has" in refused("add", "j.db", "in.jsonl", "--text-field", "x.y", "--text-field", "z")
    assert "no field 'title.id'" in refused("add", "j.db", "in.jsonl", "--text-field", "doc.body", "--id-field", "title.id")
    assert "field 'doc.n' must be text, it is a number" in refused("add", "j.db", "in.jsonl", "--text-field", "doc.n")
    assert "--text-field a is given twice" in run("add", "j.db", "in.jsonl", "--text-field", "a", "--text-field", "a").stderr


def test_columns_are_joined_and_each_must_be_there(here: Path) -> None:
    """CSV has no objects: a dot is a part of the column's name."""
    write(here / "in.csv", f"id,a.b,c\n1,{FOX},{CAT}\n2,{FOX},{OWL}\n3,{FOX},{CAT}\n")
    out = printed("dedup", "in.csv", "-o", "-", "--text-field", "a.b", "--text-field", "c")
    assert out == f"id,a.b,c\n1,{FOX},{CAT}\n2,{FOX},{OWL}\n"
    told = refused("dedup", "in.csv", "-o", "-", "--text-field", "c", "--text-field", "d")
    assert "in.csv, line 1: no column 'd'; the header has 'id', 'a.b', 'c'" in told


def test_an_empty_name_is_no_default(here: Path) -> None:
    """A field whose name is empty is neither the id nor the text of a record."""
    write(here / "in.jsonl", json.dumps({"": "x", "a": FOX, "b": CAT}) + "\n")
    printed("add", "i.db", "in.jsonl", "--text-field", "a", "--text-field", "b", "--store-text")
    with Index("i.db") as index:
        assert index.get("in.jsonl:1").text == f"{FOX}\n{CAT}"


def test_dedup_gives_ids_with_their_types(here: Path) -> None:
    """The number 1 and the text "1" differ in the outputs, however large the number; an index gets text unless told otherwise."""
    large = 10**30
    write(here / "in.jsonl", "".join(json.dumps({"id": id_, "text": FOX}) + "\n" for id_ in (1, "1", large, "a")))
    printed("dedup", "in.jsonl", "-o", "out.jsonl", "--clusters", "c.jsonl", "--pairs", "p.jsonl")
    assert [json.loads(line)["id"] for line in Path("c.jsonl").read_text().splitlines()] == [1, "1", large, "a"]
    pairs = {(pair["id_a"], pair["id_b"]) for pair in map(json.loads, Path("p.jsonl").read_text().splitlines())}
    assert (1, "1") in pairs or ("1", 1) in pairs
    printed("add", "i.db", "in.jsonl", "--if-exists", "ignore")
    assert keys_of(here / "i.db") == ["1", str(large), "a"]


# ---- marks -------------------------------------------------------------------------------------------------------------------


def marked(paths: list[Path], kept: list[bool], target: str, against: bool = False, **options: object) -> bytes:
    """The records of an input with marks: the second is like the first, the others are alone."""
    reading = ReadOptions(one_header=True, typed_ids=True, **options)  # type: ignore[arg-type]
    source, output = open_source(paths, reading, paths[0].parent), paths[0].parent / target
    keys = {number: record.key for piece in [list(source)] for number, record in enumerate(piece, 1)}
    count = sum(len(piece.texts) for piece in source.pieces())
    cluster, duplicate_of = np.zeros(count, np.int64), np.zeros(count, np.int64)
    cluster[:2], duplicate_of[1:2] = 1, 1
    names = (lambda numbers: ["x" if number == 3 else None for number in numbers]) if against else None
    marks = Marks(cluster, duplicate_of, np.full(count, 0.5), lambda numbers: [keys[number] for number in numbers], names)
    source.write(np.array(kept[:count]), output, Path(target), marks)
    source.close()
    return output.read_bytes()


@pytest.mark.parametrize("cut", ["usual", "tiny"])
def test_marks_are_members_behind_those_of_an_object(tmp_path: Path, cut: str, request: pytest.FixtureRequest) -> None:
    """The rest of a line stays byte for byte, whatever stands in it; a missing line end is put in between two files."""
    if cut == "tiny":
        request.getfixturevalue("small_limits")
    first = '{"id":1, "text": "a } \u00e9", "x": {"cluster": 1}}\r\n\n{"text":"}"  } \n'
    second = '{"id": "\u00e9,\\"", "text": "the cluster, \\u0063luster"}'
    a, b = write(tmp_path / "a.jsonl", first), write(tmp_path / "b.jsonl", second)
    got = marked([b, a], [True] * 3, "out.jsonl").decode()
    own = '\u00e9,\\"'
    assert got == (
        second[:-1] + ', "cluster": 1, "duplicate_of": null, "similarity": null}\n'
        + '{"id":1, "text": "a } \u00e9", "x": {"cluster": 1}, "cluster": 1, "duplicate_of": "' + own + '"'
        + ', "similarity": 0.5}\r\n'
        + '{"text":"}"  , "cluster": null, "duplicate_of": null, "similarity": null} \n'
    )  # fmt: skip
    got = marked([a, b], [False, True, True], "out2.jsonl", True).decode()
    assert [json.loads(line)["duplicate_of"] for line in got.splitlines()] == [1, None]
    assert [json.loads(line)["against"] for line in got.splitlines()] == [None, "x"]


@pytest.mark.parametrize(("ending", "between"), [("csv", ","), ("tsv", "\t"), ("csv", ";")])
def test_marks_are_columns_behind_those_of_a_row(tmp_path: Path, ending: str, between: str) -> None:
    """Null is empty, an id is quoted where it must be, and the rest of a row stays byte for byte."""
    first = 'id,text\r\n"a,;\t""",one\r\n"k","two\n2"\r\n'.replace(",", between)
    second = "id,text\nz,three\n\ny,four".replace(",", between)
    paths = [write(tmp_path / f"{name}.{ending}", text) for name, text in (("a", first), ("b", second))]
    delimiter = None if (ending, between) != ("csv", ";") else ";"
    got = marked(paths, [True] * 4, "out.csv", delimiter=delimiter).decode()
    rows = list(csv.reader(io.StringIO(got, newline=""), delimiter=between))
    quoted = 'a,;\t"'.replace(",", between)
    assert rows == [
        ["id", "text", "cluster", "duplicate_of", "similarity"], [quoted, "one", "1", "", ""],
        ["k", "two\n2", "1", quoted, "0.5"],
        ["z", "three", "", "", ""], ["y", "four", "", "", ""],
    ]  # fmt: skip
    assert got.startswith("id,text,cluster,duplicate_of,similarity\r\n".replace(",", between)) and not got.endswith("\n")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", '{"text": "x"}\n{"text": "y", "cluster": 1}\n', "a.jsonl, line 2: there is a field 'cluster' already"),
        ("a.jsonl", '{"text": "x", "\\u0064uplicate\\u005fof": 1}\n', "line 1: there is a field 'duplicate_of' already"),
        ("a.csv", "text,cluster\nx,y\n", "a.csv, line 1: there is a field 'cluster' already"),
        ("a.txt", "x\n", "a.txt: marks are fields, and these records have none: leave out --mark"),
    ],
)
def test_records_that_cannot_be_marked_are_refused(tmp_path: Path, name: str, data: str, message: str) -> None:
    """A field is never written twice, nor into what has no fields."""
    with pytest.raises(FileError) as caught:
        marked([write(tmp_path / name, data)], [True] * 2, "out")
    assert message in str(caught.value)


def test_an_empty_input_is_marked_as_it_is(tmp_path: Path) -> None:
    """Nothing in, nothing out; of a header alone, the header with its new columns."""
    assert marked([write(tmp_path / "a.jsonl", "")], [], "out") == marked([write(tmp_path / "a.csv", "")], [], "out2") == b""
    assert marked([write(tmp_path / "b.csv", "id,text")], [], "out3") == b"id,text,cluster,duplicate_of,similarity"
