"""A file of an older schema version is brought up to date in one transaction, or stays as it was. (Version 3 is made up here.)"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from crash_writer import Writers
from disks import WatchedDisk, copy_files
from support import SETS, WORDS

import neardup_db.store.layout.schema as schema
from neardup_db import FormatError, Index, NearDupError

STEPS = {
    "0003_index.sql": """
        ALTER TABLE {index}_document ADD COLUMN words INTEGER;
        UPDATE {index}_document SET words = length(text) - length(replace(text, ' ', '')) + 1;
        CREATE TABLE {index}_extra (id INTEGER PRIMARY KEY, value BLOB) STRICT;
        INSERT INTO {index}_extra (value) SELECT zeroblob(1500) FROM {index}_document;
        INSERT INTO {index}_setting VALUES ('words', 1);
    """,
    "0003_minhash_band.sql": "CREATE INDEX {index}_minhash_band_owner ON {index}_minhash_band (fingerprint_id);",
}


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """The package's migrations, and those of the version to come."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for file in Path(schema.MIGRATIONS).iterdir():
        (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    for name, text in STEPS.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An index of version 2."""
    path = tmp_path / "old" / "index.db"
    path.parent.mkdir()
    with Index(path, SETS, text=WORDS, store_text=True) as index:
        index.add_many((number, f"word{number} word{number // 2} word{number // 3}") for number in range(30))
        index.connection.execute("UPDATE neardup_setting SET value = 1 WHERE name = 'generation'")
    return path


@contextmanager
def package(steps: Path, version: int = 3) -> Iterator[None]:
    """The package as it will be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", str(steps))
        patch.setattr(schema, "SCHEMA_VERSION", version)
        yield


def holds(path: Path) -> tuple[int, int]:
    """(schema version, generation) of a sound file that is opened by the package that is installed now."""
    with Index(path) as index:
        version, generation = version_of(index)
        if version == 2:  # the SQL functions, which checks and queries need, refuse the made-up version
            assert index.check().problems == ()
            assert index.query("word7 word3 word2")[0].key == 7
        assert list(index) == list(range(30)) and index.connection.execute("PRAGMA integrity_check").get == "ok"
        names = {name for _, name, *_ in index.connection.execute("PRAGMA table_info(neardup_document)")}
        names |= {name for (name,) in index.connection.execute("SELECT name FROM sqlite_schema")}
        new = {"words", "neardup_extra", "neardup_minhash_band_owner"}
        assert names & new == (new if version == 3 else set())
        return version, generation


def version_of(index: Index) -> tuple[int, int]:
    """Two settings."""
    settings = dict(index.connection.execute("SELECT name, value FROM neardup_setting").fetchall())
    assert ("words" in settings) == (settings["schema_version"] == 3)
    return settings["schema_version"], min(settings["generation"], 2)  # the first one is 1 here, others are drawn


def test_an_older_file_is_migrated_on_open_and_a_newer_one_is_refused(old: Path, steps: Path) -> None:
    """It answers as before, with the tables of the new version; the older package names both versions."""
    assert holds(old) == (2, 1)
    with package(steps):
        with pytest.raises(FormatError, match="without read_only"):
            Index(old, read_only=True)
        assert holds(old) == holds(old) == (3, 2)
        with Index(old, read_only=True) as index:
            assert index.connection.execute("SELECT words FROM neardup_document WHERE key = 7").get == 3
    with pytest.raises(FormatError, match="version 3, this package knows 2"):
        Index(old)


def test_a_file_of_a_prerelease_is_refused(old: Path) -> None:
    """Whoever opens a file of schema version 1 is told how to make a new one, and the file stays as it is."""
    with contextlib.closing(apsw.Connection(str(old))) as db:
        db.execute("UPDATE neardup_setting SET value = 1 WHERE name = 'schema_version'")
    before = old.read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(FormatError, match="schema version 1, which only prereleases .* make a new index from the texts"):
            Index(old, **options)
    assert old.read_bytes() == before


def test_a_new_file_is_made_by_all_steps(tmp_path: Path, steps: Path) -> None:
    """It is the one that a migrated file is."""
    with package(steps), Index(tmp_path / "new.db", SETS, text=WORDS, store_text=True) as index:
        assert index.connection.execute("SELECT count(*) FROM neardup_extra").get == 0
        assert version_of(index)[0] == 3


def test_a_step_that_fails_leaves_the_old_version(old: Path, steps: Path) -> None:
    """Whatever it had done is taken back; the older package goes on with the file."""
    (steps / "0003_minhash_band.sql").write_text("CREATE INDEX {index}_a ON {index}_minhash_band (no_such_column)", "utf-8")
    with package(steps), pytest.raises(NearDupError, match="no_such_column"):
        Index(old)
    assert holds(old) == (2, 1)


def test_a_migration_killed_at_any_write_leaves_the_old_version_or_the_new_one(old: Path, steps: Path, tmp_path: Path) -> None:
    """As the files are before every write, sync and truncation of the migration, they are one version or the other, whole."""
    moments: list[Path] = []
    with package(steps), WatchedDisk(lambda: moments.append(copy_files(old, tmp_path / f"moment {len(moments)}"))):
        Index(old).close()
    seen = set()
    for path in moments:
        again = copy_files(path, path.parent / "again")
        try:
            seen.add(holds(path))
        except FormatError:
            seen.add((3, 2))
        with package(steps):
            assert holds(again) == (3, 2)
        shutil.rmtree(path.parent)
    assert seen == {(2, 1), (3, 2)} and len(moments) > 20


@pytest.mark.posix("forks")
def test_a_process_killed_while_it_migrates_leaves_the_old_version_or_the_new_one(
    old: Path, steps: Path, tmp_path: Path, writers: Writers
) -> None:
    """The same with SIGKILL in the middle of a write, and the next process finishes it."""
    job: dict[str, Any] = {"operations": [], "version": 3, "migrations": str(steps)}
    seen = set()
    for countdown in range(1, 180, 6):
        path = copy_files(old, tmp_path / str(countdown))
        writers.run({**job, "path": str(path), "countdown": countdown}, None)
        try:
            seen.add(holds(path))
        except FormatError:
            seen.add((3, 2))
        with package(steps):
            assert holds(path) == (3, 2)
    assert seen == {(2, 1), (3, 2)} and writers.killed > 10


@pytest.mark.parametrize(("version", "name"), [(2, "0002_index.sql"), (2, "0002_minhash_band.sql"), (3, "0003_index.sql")])
def test_a_step_that_the_package_lacks_is_an_error(old: Path, steps: Path, tmp_path: Path, version: int, name: str) -> None:
    """No index without its tables comes of it, and no file is left; an older one stays as it is."""
    (steps / name).unlink()
    with package(steps, version):
        with pytest.raises(NearDupError, match=f"lacks migrations/{name}"):
            Index(tmp_path / "new.db", SETS, text=WORDS)
        if version == 3:
            with pytest.raises(NearDupError, match=f"lacks migrations/{name}"):
                Index(old)
    assert not (tmp_path / "new.db").exists()
    assert holds(old) == (2, 1)
