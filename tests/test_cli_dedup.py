"""`neardup dedup`, and where commands write what they give out."""

from __future__ import annotations

import csv
import errno
import functools
import gzip
import itertools
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import zstandard
from commands import FOX, RECORDS, good, lines, refused, run
from support import components, duplicates_in, shared

from neardup_db import DiskFullError, Index
from neardup_db.cli import dedup as deduplicate
from neardup_db.cli.inputs import opening, passes
from neardup_db.cli.inputs.passes import Numbers
from neardup_db.compute import shingles
from neardup_db.demo import documents
from neardup_db.system import IS_WINDOWS

# ---- dedup -----------------------------------------------------------------------------------------------------------------


TEXTS = dict(itertools.islice(documents(), 180))  # chapters in several translations each


def sample(path: Path) -> Path:
    return lines(path, [{"id": key, "text": text} for key, text in TEXTS.items()])


@functools.cache
def exact_pairs() -> dict[tuple[str, str], float]:
    """The Jaccard similarity of all documents of the sample that share a shingle, by sets of shingles in plain Python."""
    keys, sets = list(TEXTS), [frozenset(shingles(text)) for text in TEXTS.values()]
    return {(keys[a], keys[b]): n / (len(sets[a]) + len(sets[b]) - n) for (a, b), n in shared(sets).items()}


def exact_clusters(threshold: float) -> tuple[dict[tuple[str, str], float], list[list[str]]]:
    """All pairs at or above the threshold and the clusters that they make: the oracle of dedup."""
    pairs = {pair: similarity for pair, similarity in exact_pairs().items() if similarity >= threshold}
    return pairs, [list(cluster) for cluster in components(pairs)]


@pytest.mark.parametrize(
    ("keep", "threshold", "connected"),
    [("first", 0.8, False), ("longest", 0.8, True), ("first", 0.6, True), ("longest", 0.6, False)],
)
def test_dedup_equals_an_exact_script_on_real_text(tmp_path: Path, keep: str, threshold: float, connected: bool) -> None:
    """Pairs, clusters and the records kept are those of comparing every document with every other."""
    pairs, clusters = exact_clusters(threshold)
    assert len(clusters) > 10
    order = list(TEXTS)
    best = {"first": order.index, "longest": lambda key: (-len(TEXTS[key]), order.index(key))}[keep]
    kept_of = {key: min(cluster, key=best) for cluster in clusters for key in cluster}
    if not connected:
        names = sorted(order, key=best)
        gone = duplicates_in(range(len(names)), lambda a, b: pairs.get((names[a], names[b]), pairs.get((names[b], names[a]))))
        kept_of = {names[number]: names[kept] for number, (kept, _) in gone.items()}
        clusters = [[kept, *(key for key in kept_of if kept_of[key] == kept)] for kept in set(kept_of.values())]
    removed = {key for key, kept in kept_of.items() if key != kept}
    out, found_pairs, found_clusters = tmp_path / "out.jsonl", tmp_path / "pairs.csv", tmp_path / "clusters.jsonl"
    source = sample(tmp_path / "in.jsonl")
    options = ["--threshold", threshold, "--keep", keep, "--pairs", found_pairs, "--clusters", found_clusters, "--json"]
    options += ["--connected"] if connected else []
    told = json.loads(good("dedup", source, "-o", out, *options))

    with open(found_pairs, newline="") as file:
        rows = {(row["id_a"], row["id_b"]): float(row["similarity"]) for row in csv.DictReader(file)}
    assert rows == pytest.approx(pairs)
    members: dict[int, set[str]] = {}
    for line in found_clusters.read_text().splitlines():
        row = json.loads(line)
        members.setdefault(row["cluster"], set()).add(row["id"])
    assert sorted(map(sorted, members.values())) == sorted(map(sorted, clusters))

    raw = source.read_bytes().splitlines(keepends=True)
    assert out.read_bytes() == b"".join(line for line, key in zip(raw, order, strict=True) if key not in removed)
    assert (told["records"], told["duplicates"], told["clusters"]) == (len(order), len(removed), len(clusters))


def test_dedup_keeps_the_bytes_of_rows(tmp_path: Path) -> None:
    """A CSV file keeps header, quoting and line ends; packed inputs and outputs go by their names."""
    data = f'id,text\r\n1,"{FOX}"\r\n2,"{FOX} again"\r\n3,"other,\r\nwords"\r\n'.encode()
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(data))
    assert "3 records: 2 kept" in good("dedup", tmp_path / "in.csv.gz", "-o", tmp_path / "out.csv.zst")
    with zstandard.open(tmp_path / "out.csv.zst", "rb") as file:
        assert file.read() == data.replace(f'2,"{FOX} again"\r\n'.encode(), b"")


def test_dedup_of_a_folder_is_a_folder(tmp_path: Path) -> None:
    """Files that stay are copied to the same relative paths."""
    for name, text in (("a.txt", FOX), ("sub/b.txt", FOX + "!"), ("sub/c.txt", "other words of no likeness")):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    good("dedup", tmp_path / "in", "-o", tmp_path / "out")
    copied = {path.relative_to(tmp_path / "out").as_posix(): path.read_text() for path in (tmp_path / "out").rglob("*.txt")}
    assert copied == {"a.txt": FOX, "sub/c.txt": "other words of no likeness"}
    assert "exists already" in refused("dedup", tmp_path / "in", "-o", tmp_path / "out")
    good("dedup", tmp_path / "in", "-o", tmp_path / "out", "--force", "--keep", "longest")
    assert not (tmp_path / "out" / "a.txt").exists() and (tmp_path / "out" / "sub" / "b.txt").exists()
    assert "one is inside the other" in refused("dedup", tmp_path / "in", "-o", tmp_path / "in" / "out")
    assert "name a folder" in refused("dedup", tmp_path / "in", "-o", tmp_path / "out.jsonl")


def test_dedup_streams_from_and_to_the_terminal(source: Path) -> None:
    """- reads standard input and writes standard output; the summary goes to standard error."""
    result = run("dedup", "-", "--format", "jsonl", "-o", "-", stdin=source.read_bytes())
    assert result.exit_code == 0
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["a", "c", "d"]
    assert "4 records: 3 kept, 1 near-duplicate removed" in result.stderr
    assert "name a file" in refused("dedup", "-", "--format", "jsonl", "-o", "-", "--json")


def test_dedup_keeps_empty_texts_unless_told(tmp_path: Path) -> None:
    """Empty texts are near-duplicates of nothing, not of each other; equal ids do not matter."""
    source = lines(tmp_path / "in.jsonl", [{"id": "same", "text": text} for text in ("", "x y z", " ... ")])
    assert json.loads(good("dedup", source, "-o", tmp_path / "a.jsonl", "--json"))["kept"] == 3
    told = json.loads(good("dedup", source, "-o", tmp_path / "b.jsonl", "--drop-empty", "--json"))
    assert (told["kept"], told["empty"], told["empty_dropped"]) == (1, 2, 2)
    assert json.loads((tmp_path / "b.jsonl").read_text())["text"] == "x y z"


def test_dedup_replaces_nothing_by_itself(source: Path, tmp_path: Path) -> None:
    """An existing output needs --force, the input is never the output, and a broken run leaves all as it was."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    assert "--force" in refused("dedup", source, "-o", out)
    assert "is the input" in refused("dedup", source, "-o", source, "--force")
    assert "must end in .jsonl" in refused("dedup", source, "-o", tmp_path / "out.csv")
    with open(source, "a") as file:
        file.write("broken\n")
    before = sorted(tmp_path.iterdir())
    assert "line 5" in refused("dedup", source, "-o", out, "--force", "--pairs", tmp_path / "p.csv")
    assert out.read_text() == "old" and sorted(tmp_path.iterdir()) == before
    result = run("dedup", source, "-o", out, "--force", "--on-error", "skip")
    assert result.exit_code == 0 and "1 record skipped" in result.stderr
    assert len(out.read_text().splitlines()) == 3


def test_an_output_that_nobody_may_write(source: Path, tmp_path: Path) -> None:
    """--force replaces it by one that nobody may write either; where Windows does not, it stays. Nothing else is left."""
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"old")
    out.chmod(0o444)
    told = run("dedup", source, "-o", out, "--force")
    replaced = told.exit_code == 0
    assert replaced or IS_WINDOWS and "out.jsonl: cannot be put in place" in told.stderr
    assert len(out.read_bytes().splitlines()) == (3 if replaced else 1) and (IS_WINDOWS or out.stat().st_mode & 0o222 == 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]
    out.chmod(0o644)  # else Windows does not remove it


def test_dedup_says_that_it_met_invalid_utf8(tmp_path: Path) -> None:
    """Wrong bytes are compared as U+FFFD, reported, and copied as they are."""
    data = b'{"text": "caf\xe9 au lait"}\n'
    (tmp_path / "in.jsonl").write_bytes(data)
    result = run("dedup", tmp_path / "in.jsonl", "-o", "-")
    assert result.stdout_bytes == data and "1 line with invalid UTF-8" in result.stderr


# ---- outputs -----------------------------------------------------------------------------------------------------------------


WRITERS = {
    "-o": "dedup in.jsonl --force -o",
    "--pairs": "dedup in.jsonl --force -o other.jsonl --pairs",
    "--clusters": "dedup in.jsonl --force -o other.jsonl --clusters",
    "--html": "explain index.db a b --force --html",
}
"""Commands that write a file, whose name follows, by what they write."""


@pytest.fixture
def folder(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the source and the index, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.posix("permissions")
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_replaced_keeps_its_mode_and_links_stay(folder: Path, writer: str) -> None:
    """A new file has the mode that the umask leaves, a replaced one its own; a link's target is replaced, the link stays."""
    path, link = folder / "out.jsonl", folder / "link.jsonl"
    before = os.umask(0o002)
    try:
        assert run(*WRITERS[writer].split(), path).exit_code == 0
        assert stat.S_IMODE(path.stat().st_mode) == 0o664
        written = path.stat().st_size
        path.write_bytes(b"")
        path.chmod(0o640)
        link.symlink_to("out.jsonl")
        assert run(*WRITERS[writer].split(), link).exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and path.stat().st_size == written
    assert link.is_symlink() and os.readlink(link) == "out.jsonl"


@pytest.mark.posix("named pipes")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_pipe_is_written_into(folder: Path, writer: str) -> None:
    """A FIFO as an output stays one, and its reader gets the bytes of a file."""
    command = WRITERS[writer].split()
    assert run(*command, "file.jsonl").exit_code == 0
    pipe = folder / "pipe.jsonl"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert run(*command, pipe).exit_code == 0
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert read[0] == Path("file.jsonl").read_bytes()


@pytest.mark.posix("devices")
@pytest.mark.skipif(not hasattr(os, "mknod") or os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_replaced(folder: Path) -> None:
    """As root, too, a null device stays a device."""
    device = folder / "null"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    try:
        os.close(os.open(device, os.O_WRONLY))
    except OSError:
        pytest.skip("devices cannot be opened here")
    for command in WRITERS.values():
        assert run(*command.split(), device).exit_code == 0
        assert stat.S_ISCHR(device.stat().st_mode) and not list(folder.glob(".neardup-*"))


def test_tables_and_pages_go_to_standard_output(folder: Path, source: Path) -> None:
    """- prints JSON lines, or a page, and the summary stands apart; two outputs there are refused."""
    assert good("explain", "index.db", "a", "b", "--html", "-").rstrip().endswith("</html>")
    result = run("dedup", source, "-o", "o.jsonl", "--pairs", "-")
    assert result.exit_code == 0 and "3 kept" in result.stderr
    assert [(row["id_a"], row["id_b"]) for row in map(json.loads, result.stdout.splitlines())] == [("a", "b")]
    rows = run("dedup", source, "-o", "o.jsonl", "--force", "--clusters", "-").stdout.splitlines()
    assert [json.loads(row)["id"] for row in rows] == ["a", "b"]
    for both in (("-o", "-", "--pairs", "-"), ("-o", "p.jsonl", "--pairs", "-", "--json")):
        refused("dedup", source, *both)
    assert not Path("-").exists() and not Path("p.jsonl").exists()


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path, source: Path) -> None:
    """--force replaces a file by a file: a folder and its files stay."""
    kept = tmp_path / "folder" / "kept"
    kept.parent.mkdir()
    kept.write_text("kept")
    for writer in ("-o", "--pairs", "--clusters"):
        others = () if writer == "-o" else ("-o", tmp_path / "o.jsonl")
        assert "is a folder" in refused("dedup", source, writer, kept.parent, *others, "--force")
    assert kept.read_text() == "kept"


@pytest.mark.posix("links")
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("option", ["--pairs", "--clusters"])
def test_no_output_replaces_a_file_of_the_input(tmp_path: Path, option: str, link: bool) -> None:
    """A shard, or a text of a folder, stays even with --force, behind a link too; so does a folder that holds one."""
    kept, name = RECORDS, tmp_path / "link.jsonl"
    for folder, made in (("in", "a.jsonl"), ("texts", "a.txt")):
        (tmp_path / folder).mkdir()
        shard = lines(tmp_path / folder / made, kept)
        lines(tmp_path / folder / made.replace("a", "b"), [])
        name.unlink(missing_ok=True)
        name.symlink_to(shard)
        out = tmp_path / ("out.jsonl" if folder == "in" else "out")
        told = refused("dedup", shard.parent, "-o", out, option, name if link else shard, "--force")
        assert "is the input" in told and "name another output" in told
        assert [json.loads(line) for line in shard.read_text().splitlines()] == kept and not out.exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "c.txt").write_text("kept")
    (tmp_path / "texts" / "c.txt").symlink_to(tmp_path / "out" / "c.txt")
    assert "holds the input" in refused("dedup", tmp_path / "texts", "-o", tmp_path / "out", "--force")
    assert (tmp_path / "out" / "c.txt").read_text() == "kept"


@pytest.mark.parametrize("failing", ["p.csv", "o.jsonl"])
def test_an_output_that_cannot_be_put_in_place_is_named(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """All outputs are complete before the first is replaced, the records last; the error names the one that failed."""
    monkeypatch.chdir(tmp_path)
    for name in ("o.jsonl", "p.csv"):
        Path(name).write_text("old")
    real, put = os.replace, []

    def replace(new: Path, old: Path) -> None:
        assert put or len([*tmp_path.glob(".neardup-*/new-*")]) == 3
        put.append(old.name)
        if old.name == failing:
            raise OSError(errno.EBUSY, "Device or resource busy", str(new), None, str(old))
        real(new, old)

    monkeypatch.setattr(os, "replace", replace)
    told = refused("dedup", source, "-o", "o.jsonl", "--pairs", "p.csv", "--clusters", "c.csv", "--force")
    assert f"neardup: {failing}: cannot be put in place (Device or resource busy)" in told
    last = failing == "o.jsonl"
    assert put == ["p.csv", "c.csv", "o.jsonl"][: 3 if last else 1]
    assert (Path("p.csv").read_text() != "old") == Path("c.csv").exists() == last and Path("o.jsonl").read_text() == "old"
    assert not [*tmp_path.glob(".neardup-*")]


def test_a_full_disk_is_named_with_the_remedy(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever finds no room, the message has its folder, and --tmp where temporary files are in it; no output is left."""
    for name in ("tmp", "out", "kept"):
        (tmp_path / name).mkdir()
    command = ("dedup", source, "-o", tmp_path / "out" / "o.jsonl", "--tmp", tmp_path / "tmp")

    def full(*arguments: Any, **named: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full_database(*arguments: Any, **named: Any) -> Any:
        raise DiskFullError("the disk is full: go on with the same object")

    for place, broken, arguments, folder, remedy in (
        (Numbers, ("extend", full), (), "tmp", "--tmp"),
        (Index, ("add_many", full_database), (), "tmp", "--tmp"),
        (passes.TextSource, ("write", full), (), "out", "name an output"),
        (deduplicate, ("_write_pairs", full), ("--pairs", tmp_path / "kept" / "p.csv"), "kept", "name an output"),
        (opening, ("spool", full), (), "tmp", "--tmp"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, *broken)
            stdin = ("-", "--format", "jsonl") if broken[0] == "spool" else (source,)
            told = refused("dedup", *stdin, *command[2:], *arguments, stdin=source.read_bytes())
        assert f"neardup: {tmp_path / folder}: no room is left: make room on its disk, or name a" in told
        assert remedy in told and ("--tmp" in told) == (remedy == "--tmp")
        assert not [path for name in ("tmp", "out", "kept") for path in (tmp_path / name).iterdir()]


def test_short_texts_are_a_note(tmp_path: Path) -> None:
    """add and dedup name the share of short texts, and the option, in one line; with that option they say nothing."""
    source = tmp_path / "names.jsonl"
    source.write_text("".join(json.dumps({"id": n, "text": f"number {n} of some short titles"}) + "\n" for n in range(30)))
    output, index = tmp_path / "unique.jsonl", tmp_path / "index.db"
    says = "neardup: 100% of 30 texts have fewer than 20 words, and shingles of 3 words miss most near-duplicates of such texts: "
    for command in (("dedup", source, "-o", output), ("add", index, source)):
        result = run(*command)
        assert (result.exit_code, result.stderr) == (0, says + "give --tokens chars --shingle 3 --threshold 0.8\n")
    good("dedup", source, "-o", output, "--force", "--tokens", "chars")
