"""Damaged settings of a file: what Python, SQL and the command line say of each."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import apsw
import pytest
from commands import refused
from support import CASES

from neardup_db import BinaryCode, CorruptIndexError, FormatError, Index, MinHash, NearDupError, SimHash, load

TEXT = "one two three four"
SEARCH = f"SELECT * FROM neardup_search('neardup', '{TEXT}')"
SIMILARITY = f"SELECT neardup_similarity('neardup', '{TEXT}', 'a b')"
STORED = ["SELECT * FROM neardup_keys('neardup', {0})", "SELECT * FROM neardup_probe('neardup', {0})"]
STORED += ["SELECT neardup_similarity('neardup', {0}, {0})"]
"""What works on stored values, by any rules for texts."""

GONE = object()
"""The setting is not there."""

REMEDY = "which this neardup-db does not know: install a newer neardup-db, or restore"
UNKNOWN = REMEDY, "which neardup .* does not know: install a newer one"
RULE = REMEDY, "cannot be|does not know"
RANGE = REMEDY, "cannot be|must be"
ODD = "is {}, not a number: restore a backup", None
FILES: dict[str, Any] = {"minhash": MinHash(threshold=0.8, exact=True), "simhash": SimHash(), "codes": BinaryCode(64, 3)}

DAMAGED: list[tuple[str, str, Any, str, str | None]] = [
    # file, setting, value; what Python says after the name of the setting, and SQL, where that reads the setting
    ("minhash", "schema_version", 99, "99, .*knows 2: install a newer", "99.*update"),
    ("minhash", "schema_version", 1, "1, which only prereleases .* make a new index from the texts", "1, "),
    ("minhash", "schema_version", "1", "", ""),
    ("minhash", "schema_version", 0, "", ""),
    *(("minhash", "algorithm_version", version, f"{version}, .*build it again", "has 1|cannot be") for version in (0, 2, 99)),
    *(("minhash", name, "newer", *UNKNOWN) for name in ("scheme", "evidence", "plan", "family", "text.hash", "text.tokens")),
    ("minhash", "scheme", 5, *RANGE),
    ("codes", "plan", "bands", *UNKNOWN[:1], "is 3"),
    ("codes", "plan", b"blocks", *RANGE),
    ("minhash", "threshold", 2.0, *RANGE),
    ("minhash", "threshold", "0.8", REMEDY, None),  # SQL compares with no threshold here
    ("minhash", "bands", 0, *RANGE),
    ("minhash", "bands", 10_000, "is 10000; .* it must be from 1 to 25; restore", "cannot be|must be"),
    *(("minhash", name, value, *RANGE) for name, value in (("num_perm", 0), ("rows", 0), ("slot_bits", 8), ("seed", -1))),
    *(("codes", "bits", value, *RANGE) for value in ("16", 12, 2**40, -8)),
    *(("codes", "max_distance", value, "", "must be|is 4") for value in (4, 5000)),
    *(("codes", "blocks", value, "", "must be|is") for value in (0, 100)),
    *(("simhash", "text.normalize", value, *RULE) for value in ("NFD", 5)),
    *(("simhash", "text.case", value, *RULE) for value in ("upper",)),
    ("simhash", "text.tokens", "lines", *RULE),
    *(("simhash", "text.shingle", value, *RULE) for value in (0, 1001, "3", None)),
    ("simhash", "text.joiner", 5, *RULE),
    ("simhash", "text.nonword", "x", *RULE),
    ("simhash", "text.short", None, *RULE),
    *(("simhash", "text.stopwords", value, "", "") for value in ("[1]", "[", "the", 3)),
    ("simhash", "text.filter", "x", "", ""),
    ("simhash", "text.strip_accents", 2, *RULE),
    ("simhash", "text.hash", "crc32", *RULE),
    ("simhash", "text.hash_seed", -1, *RULE),
    *(("simhash", "text.min_tokens", value, *RULE) for value in (-1, 1_000_001, "3")),
    *(("minhash", "crowds", value, *ODD) for value in ("maybe", 2.5)),
    ("minhash", "generation", "x", *ODD),
    ("minhash", "window_documents", "many", "many", None),
]


@functools.cache
def file_of(name: str) -> bytes:
    """A file of one document, whose window is of a thousand."""
    connection = apsw.Connection(":memory:")
    with Index(connection, FILES.get(name) or CASES[name].scheme, window=1000) as index:
        index.add("a", TEXT) if index.scheme.takes_text else index.add_code("a", bytes(index.scheme.bits // 8))
        return connection.serialize("main")


def damage(connection: apsw.Connection, name: str, value: Any) -> None:
    """Give a setting another value behind the index's back."""
    connection.execute("DELETE FROM neardup_setting WHERE name = ?", (name,))
    if value is not GONE:
        connection.execute("INSERT INTO neardup_setting VALUES (?, ?)", (name, value))


def pattern_of(name: str) -> str:
    """A setting as messages name it, which is as an option on the command line."""
    return f"(?s){re.sub('_', '[-_ ]', name)}"


def said_by_sql(connection: apsw.Connection, sql: str) -> str | None:
    """The error of a statement, if there is one."""
    try:
        connection.execute(sql).fetchall()
    except apsw.SQLError as error:
        return str(error)
    return None


def test_what_is_said_of_a_damaged_setting(path: Path) -> None:
    """Python names the setting and what may be there, however the file is opened; so does the command line in one sentence, and
    SQL where it needs the setting: for rules of texts only where a text is asked for."""
    for file, name, value, python, sql in DAMAGED:
        path.write_bytes(file_of(file))
        connection = apsw.Connection(str(path))
        load(connection)
        damage(connection, name, value)
        (stored,) = connection.execute("SELECT quote(value) FROM neardup_fingerprint").fetchone()
        before, pattern = path.read_bytes(), f"{pattern_of(name)}.*{python.format(repr(value))}"
        for options in ({}, {"read_only": True}, {"scheme": FILES[file]}):
            with pytest.raises((CorruptIndexError, FormatError)) as raised:
                Index(path, **options)
                pytest.fail(f"{file}, {name} = {value!r}: opened with {options}")
            assert re.search(pattern, str(raised.value)), (file, name, value)
        asked = [] if file == "codes" else [SEARCH, SIMILARITY]
        for statement in (*asked, *(one.format(stored) for one in STORED)):
            told = said_by_sql(connection, statement)
            if sql is None or (name.startswith("text.") and statement not in asked):
                assert told is None, (file, name, value)
            else:
                assert told and 'index "neardup"' in told and re.search(f"{pattern_of(name)}.*{sql}", told), (name, value, told)
        connection.close()
        assert re.search(pattern, refused("stats", path)) and path.read_bytes() == before, (file, name, value)


NOT_READ = {"created_at", "fingerprints"}
"""Settings that no answer depends on."""

POSSIBLE = {("text.joiner", "?"), ("window_documents", GONE)}

SQL_READS = set("schema_version algorithm_version scheme plan bits num_perm bands rows slot_bits k shortest".split())  # noqa: SIM905
"""Those without which SQL has no answer."""


@pytest.mark.parametrize("name", [*CASES, *FILES])
def test_no_setting_may_be_missing(name: str) -> None:
    """Of every scheme each setting is needed: without it, and with a word or a number in its place that it cannot have, Python
    names it, and SQL refuses the index if it needs it."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", file_of(name))
    load(connection)
    settings = connection.execute("SELECT name, value FROM neardup_setting").fetchall()
    ask = STORED[0].format(*connection.execute("SELECT quote(value) FROM neardup_fingerprint").fetchone())
    for setting, value in settings:
        for wrong in (GONE, "?"):
            damage(connection, setting, wrong)
            told = said_by_sql(connection, ask)
            assert told is None or 'index "neardup"' in told
            assert told or wrong is not GONE or setting not in SQL_READS, setting
            if setting not in NOT_READ and (setting, wrong) not in POSSIBLE:
                with pytest.raises(NearDupError, match=pattern_of(setting)):
                    Index(connection)
        damage(connection, setting, value)
    Index(connection).close()
    connection.close()
