"""A file with page checksums: every damaged byte of it is an error, never a wrong answer, and all else is as without them."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from disks import copy_files
from load import run_threads
from support import SETS, SOON, WORDS, sqlite_shell

from neardup_db import BinaryCode, CorruptIndexError, Index, MinHash, MismatchError, NearDupError, ParameterError, limits
from neardup_db.store.database import checksums

PAGE = 4096
WRONG = "pages with a wrong checksum (restore a backup): "


def wrong_pages(path: Path) -> list[int]:
    """Pages whose sums are not those of SQLite's cksumvfs, computed here word by word."""
    data = path.read_bytes()
    assert data[20] == 8 and len(data) % PAGE == 0
    wrong = []
    for number, start in enumerate(range(0, len(data), PAGE), 1):
        words, first, second = struct.unpack(f"<{PAGE // 4}I", data[start : start + PAGE]), 0, 0
        for i in range(0, len(words) - 2, 2):
            first = (first + words[i] + second) % 2**32
            second = (second + words[i + 1] + first) % 2**32
        if words[-2:] != (first, second):
            wrong.append(number)
    return wrong


def flip(path: Path, place: int, bit: int = 0) -> None:
    """Change one bit of a byte."""
    with path.open("r+b") as file:
        file.seek(place)
        old = file.read(1)[0]
        file.seek(place)
        file.write(bytes([old ^ 1 << bit]))


def fill(index: Index) -> None:
    """A few documents."""
    if index.scheme.takes_text:
        index.add("long", "word " * 3000, metadata={"of": "x" * 9000})  # in overflow pages
        for number in range(12):
            index.add(number, f"one two three four five {number % 4}", metadata=[number], group=number % 2 or None)
        index.delete(3)
    else:
        index.add_codes(range(200), [bytes([number % 7, number]) * 4 for number in range(200)], expires_at=SOON)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of texts."""
    path = tmp_path / "index.db"
    with Index(path, SETS, text=WORDS, store_text=True, checksums=True, durability="normal") as index:
        fill(index)
    return path


# ---- damage --------------------------------------------------------------------------------------------------------------


def questions(index: Index) -> Iterator[Callable[[], Any]]:
    """What reads all tables."""
    if index.scheme.takes_text:
        yield lambda: index.query("one two three four five 1")
        yield lambda: index.query("word " * 3000, limit=1)
    else:
        yield lambda: index.query_code(bytes([1, 1]) * 4)
        yield lambda: index.matches(7)
    yield lambda: index.get_many(list(index))
    yield lambda: list(index.pairs())
    yield lambda: index.clusters()
    yield lambda: index.stats()["groups"]


def answers(index: Index) -> list[Any]:
    """Of each question the answer, or None where it is that the file is damaged."""

    def answer(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except CorruptIndexError:
            return None

    return [answer(ask) for ask in questions(index)]


@pytest.mark.parametrize("scheme", [SETS, BinaryCode(bits=64, max_distance=3)], ids=["texts", "codes"])
def test_every_flipped_bit_is_an_error_and_is_named(scheme: Any, tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """One bit of one byte of a file flipped: it cannot be opened, or check() names the page and no other; and no question has
    another answer than before. In the long run each byte of the file in turn."""
    path = tmp_path / "index.db"
    with Index(path, scheme, text=WORDS if scheme.takes_text else None, checksums=True, durability="normal") as index:
        fill(index)
        right = answers(index)
    assert None not in right
    sound, rng = path.read_bytes(), random.Random(8)
    places = range(len(sound))
    some = rng.sample(places, 80)[:: 1 if more_rounds else 8]
    chosen = places if long_run else [*range(0, 100, 5 if more_rounds else 15), *range(PAGE - 8, PAGE, 3), *some]
    refused = met = 0
    for place in chosen:
        flip(path, place, bit := rng.randrange(8))
        try:
            with Index(path, read_only=place % 2 == 0) as index:
                assert index.check().problems == (f"{WRONG}{place // PAGE + 1}",), place
                now = answers(index)
                assert all(one in (None, other) for one, other in zip(now, right, strict=True)), place
                met += None in now
        except NearDupError:
            refused += 1
        flip(path, place, bit)
    assert path.read_bytes() == sound
    assert refused and met
    print(f"\n{len(chosen)} bits flipped: {refused} times not opened, {met} times an error of a question, all others named")


def test_the_error_names_the_page_in_every_kind_of_call(path: Path) -> None:
    """Reading, writing, many at once by a second thread, listing, copying, compacting: the error has the page's number."""
    with Index(path) as index:
        root = index.connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'neardup_document'").get
    flip(path, (root - 1) * PAGE + 700)
    calls: list[Callable[[Index], Any]] = [
        lambda index: index.query("one two three four five 1"),
        lambda index: index.get(0),
        lambda index: index.add("new", "one two three four five 1"),
        lambda index: index.add_many((number, f"some {number} words") for number in range(100, 3000)),
        lambda index: index.delete(0),
        lambda index: index.expire(),
        lambda index: index.rebuild(),
        lambda index: list(index.pairs()),
        lambda index: index.backup(path.with_name("copy.db")),
        lambda index: index.compact(),
    ]
    for call in calls:
        with Index(path) as index, pytest.raises(CorruptIndexError, match=f"page {root} of the file is damaged"):
            call(index)
    with Index(path) as index:
        report = index.check(repair=True)
    assert report.problems == (f"{WRONG}{root}",) and not report.repaired
    assert wrong_pages(path) == [root]
    assert not path.with_name("copy.db").exists()


def test_pages_in_each_other_s_place_are_found(path: Path) -> None:
    """A page that is whole, but of another place of the file, is no index that check() takes for sound."""
    data = path.read_bytes()
    path.write_bytes(data[: 2 * PAGE] + data[3 * PAGE : 4 * PAGE] + data[2 * PAGE : 3 * PAGE] + data[4 * PAGE :])
    with pytest.raises(CorruptIndexError), Index(path) as index:
        assert not index.check().ok
        raise CorruptIndexError


def test_apsw_without_the_checksums_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the installed apsw lacks them, such a file is neither made nor opened, and the error names what to install."""
    monkeypatch.setattr("apsw.sqlite_extra.has", lambda name: None)
    checksums.vfs.cache_clear()
    for target, choice in ((path, None), (path.with_name("new.db"), True)):
        with pytest.raises(ParameterError, match="install apsw from its wheel"):
            Index(target, SETS, text=WORDS, checksums=choice)
    assert not path.with_name("new.db").exists()


def test_a_header_that_denies_the_checksums_is_an_error(path: Path) -> None:
    """The byte by which the checksums are known is one that can be damaged too."""
    flip(path, 20, 3)
    with pytest.raises(CorruptIndexError, match="page 1, is damaged"):
        Index(path)


def test_a_file_cut_short_is_an_error(path: Path) -> None:
    """Whole pages or parts of one missing at the end."""
    data = path.read_bytes()
    for cut in (1, PAGE - 1, PAGE, 3 * PAGE):
        path.write_bytes(data[:-cut])
        with pytest.raises(CorruptIndexError), Index(path) as index:
            assert not index.check().ok
            raise CorruptIndexError


def test_damage_while_it_is_open_is_met_by_readers_too(path: Path) -> None:
    """Threads that ask at the same time do so by connections that check as well, the header of the file included."""
    with Index(path) as index:
        found: list[Any] = []

        def ask() -> None:
            try:
                found.append(index.get(0))
            except NearDupError as error:
                found.append(error)

        for _ in range(2):
            with index.transaction():
                run_threads(ask)
            for place in range(PAGE + 700, path.stat().st_size, PAGE):
                flip(path, place)
            index.connection.execute("PRAGMA user_version = 1")  # readers drop what they remember
        readers = [view.store.db.connection for view in index._readers._others]
        assert [one.open_vfs for one in readers] == [checksums.VFS]
    assert found[0].key == 0
    assert isinstance(found[1], CorruptIndexError)


# ---- everything else is as without ---------------------------------------------------------------------------------------


def test_operations_are_as_without_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same history with a cache that holds next to nothing, in a file with and in one without: the same answers; each page of
    the file, and of its copies, has the checksum of the documentation."""
    monkeypatch.setattr(limits, "CACHE_KIB", 600)
    states = []
    for sums in (True, False):
        path, copy = (tmp_path / f"{name}{sums}.db" for name in ("index", "copy"))
        with Index(path, SETS, text=WORDS, store_text=True, checksums=sums, durability="normal") as index:
            index.connection.execute("PRAGMA cache_size = 10; PRAGMA cache_spill = 1; PRAGMA wal_autocheckpoint = 30")
            fill(index)
            records = [(f"many{n}", " ".join(f"word{n // 2}of{i}" for i in range(300))) for n in range(200)]
            index.add_many(records, commit_every=70)
            index.add("soon", "one two three", expires_at=SOON)
            index.add("many1", "one two three", if_exists="replace")
            index.expire(SOON + 1)
            index.keep_newest(180)
            index.delete_many(f"many{number}" for number in range(100, 120))
            index.rebuild(MinHash(threshold=0.5, exact=True, num_perm=64, bands=64, rows=1, seed=5))
            with pytest.raises(KeyError), index.transaction():
                index.delete_many(list(index))
                raise KeyError
            index.backup(copy)
            index.compact()
            assert index.check().ok
            states.append(([index.get(key).text for key in index], index.clusters(), list(index.pairs())))
            assert ("checksums" in index.stats()["settings"]) == sums
        for file in (path, copy):
            assert file.stat().st_size > 800_000 or file != copy  # more than SQLite's cache holds
            with Index(file, checksums=sums) as index:
                assert index.check().ok
                assert ([index.get(key).text for key in index], index.clusters(), list(index.pairs())) == states[-1]
            assert not sums or wrong_pages(file) == []
    assert states[0] == states[1]


def test_a_torn_page_that_the_log_holds_is_no_damage(path: Path, tmp_path: Path) -> None:
    """A process was killed while it moved the log into the file: the next one reads the log."""
    with Index(path) as index:
        index.add("last", "one two three four five 1")
        copy = copy_files(path, tmp_path / "killed")
    frames = (copy.with_name(copy.name + "-wal").stat().st_size - 32) // (24 + PAGE)
    log = copy.with_name(copy.name + "-wal").read_bytes()
    numbers = {int.from_bytes(log[32 + n * (24 + PAGE) :][:4], "big") for n in range(frames)} - {1}
    number = min(numbers)
    flip(copy, number * PAGE - 100)
    with Index(copy, read_only=True) as index:
        assert index.check().ok and index.get("last").key == "last"
    with Index(copy) as index:
        assert index.check().ok
    assert wrong_pages(copy) == []


def test_a_file_that_does_not_change_is_checked(path: Path) -> None:
    """So are connections by which a folder that cannot be written is read."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = checksums.connect(f"file:{path}?immutable=1", flags)
    assert checksums.has_checksums(connection) and checksums.damaged_pages(connection.filename) == []
    flip(path, path.stat().st_size - 1)
    assert checksums.damaged_pages(connection.filename) == [path.stat().st_size // PAGE]
    connection.close()


def test_other_files_on_the_connection_are_as_they_are(path: Path, tmp_path: Path) -> None:
    """A database that is attached, new or not, keeps the last bytes of its pages, however large the transaction."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    numbers = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 2000)"
    make = f"CREATE TABLE {{}}t AS {numbers} SELECT randomblob(3000) FROM n"
    new.touch()
    plain = apsw.Connection(str(old))
    plain.execute(make.format(""))
    plain.close()
    with Index(path) as index:
        for file in (old, new):
            index.connection.execute("ATTACH ? AS a", (str(file),))
            index.connection.execute("DROP TABLE IF EXISTS a.t; " + make.format("a."))
            index.connection.execute("DETACH a")
    for file in (old, new):
        assert file.read_bytes()[20] == 0
        plain = apsw.Connection(str(file))
        assert plain.execute("PRAGMA integrity_check").get == "ok"
        plain.close()


# ---- the choice ----------------------------------------------------------------------------------------------------------


def test_the_choice_is_made_once(tmp_path: Path) -> None:
    """It is the file's, for all indexes in it; who asks for another one is told so."""
    without, with_sums = tmp_path / "without.db", tmp_path / "with.db"
    Index(without, SETS).close()
    Index(with_sums, SETS, checksums=True).close()
    for path, other in ((without, True), (with_sums, False)):
        with pytest.raises(
            MismatchError, match=f"checksums={other}, the file has {not other}, and that only a new file can change"
        ):
            Index(path, checksums=other)
        Index(path, checksums=not other).close()
        with pytest.raises(ParameterError, match="decided when a file is created"):
            Index(path, SETS, name="second", checksums=other)
        Index(path, SETS, name="second").close()
        with Index(path, name="second") as index:
            assert bool(index.stats()["settings"].get("checksums")) is not other
    assert wrong_pages(with_sums) == []


def test_only_a_file_opened_by_its_path_has_checksums(path: Path) -> None:
    """In memory, and by a connection that does not check, they would be a promise that nobody keeps."""
    with pytest.raises(ParameterError, match="by its path"):
        Index(":memory:", SETS, checksums=True)
    connection = apsw.Connection(":memory:")
    with pytest.raises(ParameterError, match="by its path"):
        Index(connection, SETS, checksums=True)
    connection.close()
    connection = apsw.Connection(str(path))
    with pytest.raises(ParameterError, match="open it by its path"):
        Index(connection)
    connection.close()
    assert not path.with_name("new.db").exists()


@pytest.mark.parametrize("empty", [False, True])
def test_who_comes_second_takes_the_file_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: bool) -> None:
    """Two processes create one file at the same moment, one with checksums, one without, where there is none or an empty one:
    both work with what the first made."""
    create = checksums.create
    if empty:
        (tmp_path / "a.db").touch()

    def late(path: str) -> apsw.Connection:
        connection = create(path)
        with monkeypatch.context() as patch:
            patch.setattr(checksums, "create", create)
            Index(tmp_path / "a.db", SETS, name="other").close()
        return connection

    monkeypatch.setattr(checksums, "create", late)
    with pytest.raises(ParameterError, match="without page checksums"):
        Index(tmp_path / "a.db", SETS, checksums=True)
    with Index(tmp_path / "a.db", name="other") as index:
        assert index.check().ok


# ---- other programs ------------------------------------------------------------------------------------------------------


def test_any_client_reads_the_file_and_its_writes_are_found(path: Path, tmp_path: Path) -> None:
    """What SQLite's own shell writes has no checksum and is an error; its dump, without the setting, is an index again."""
    shell = [sqlite_shell(), "-init", "/dev/null"]
    count = subprocess.run(
        [*shell, str(path), "SELECT count(*) FROM neardup_documents"], capture_output=True, text=True, check=True
    )
    assert count.stdout.strip() == "12"
    assert wrong_pages(path) == []
    subprocess.run([*shell, str(path), "UPDATE neardup_document SET metadata = '[0]' WHERE key = 4"], check=True)
    assert wrong_pages(path)
    with Index(path) as index:
        assert index.check().problems == (WRONG + ", ".join(map(str, wrong_pages(path))),)
        with pytest.raises(CorruptIndexError):
            index.get(4)
    dump = subprocess.run([*shell, str(path), ".dump"], capture_output=True, check=True).stdout
    mended = tmp_path / "mended.db"
    subprocess.run([*shell, str(mended)], input=dump, check=True)
    subprocess.run([*shell, str(mended), "DELETE FROM neardup_setting WHERE name = 'checksums'"], check=True)
    with Index(mended, checksums=False) as index:
        assert index.check().ok
        assert index.get(4).metadata == [0] and len(index) == 12
