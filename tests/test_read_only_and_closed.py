"""An index that is open for reading only, and one that is closed: which methods are refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from test_opening import TEXT, made

from neardup_db import ClosedError, Index, MinHash, Passages, ReadOnlyError, SimHash

EXPORTS = tempfile.TemporaryDirectory()
EXPORTED = f"{EXPORTS.name}/one.parquet"
"""The fingerprint of one document. Made here: a forked child, of threads that it lacks, must open no index to make it."""

MERGED = f"{EXPORTS.name}/one.db"
"""An index of the same document."""

with Index(MERGED, MinHash()) as _index:
    _index.add("x", TEXT)
    _index.export_fingerprints(EXPORTED)

WRITES: dict[str, Callable[[Index], Any]] = {
    "add": lambda index: index.add("x", TEXT),
    "add_if_new": lambda index: index.add_if_new("x", TEXT),
    "add_many": lambda index: index.add_many([("x", TEXT)]),
    "import_fingerprints": lambda index: index.import_fingerprints(EXPORTED),
    "merge": lambda index: index.merge(MERGED),
    "update": lambda index: index.update("a", metadata=1),
    "delete": lambda index: index.delete("a"),
    "delete_many": lambda index: index.delete_many(["a"]),
    "delete_group": lambda index: index.delete_group("g"),
    "expire": lambda index: index.expire(),
    "set_window": lambda index: index.set_window(5),
    "keep_newest": lambda index: index.keep_newest(1),
    "dismiss": lambda index: index.dismiss("a", "b"),
    "undismiss": lambda index: index.undismiss("a", "b"),
    "allow": lambda index: index.allow("chapter one of the report"),
    "disallow": lambda index: index.disallow("chapter one of the report"),
    "changes": lambda index: index.changes(),
    "forget_changes": lambda index: index.forget_changes(),
    "transaction": lambda index: index.transaction().__enter__(),
    "rebuild": lambda index: index.rebuild(),
    "compact": lambda index: index.compact(),
    "follow": lambda index: index.follow("articles"),
    "sync": lambda index: index.sync(),
    "unfollow": lambda index: index.unfollow(),
}

READS: dict[str, Callable[[Index], Any]] = {
    "query": lambda index: index.query(TEXT),
    "query_many": lambda index: index.query_many([TEXT] * 100),
    "matches": lambda index: index.matches("a"),
    "count": lambda index: index.count(TEXT),
    "pairs": lambda index: list(index.pairs()),
    "passages": lambda index: index.passages(TEXT),
    "passages_of": lambda index: index.passages_of("a", "b"),
    "common_passages": lambda index: index.common_passages(),
    "pairs_with": lambda index: list(index.pairs_with(index)),
    "clusters": lambda index: index.clusters(),
    "dismissed": lambda index: list(index.dismissed()),
    "allowed": lambda index: index.allowed(),
    "get": lambda index: index.get("a"),
    "get_many": lambda index: index.get_many(["a"]),
    "check": lambda index: index.check(),
    "explain": lambda index: index.explain(TEXT),
    "explain_match": lambda index: index.explain_match("a", "b"),
    "stats": lambda index: index.stats(),
    "__contains__": lambda index: "a" in index,
    "__len__": lambda index: len(index),
    "__iter__": lambda index: list(index),
}


def test_reading_only_refuses_every_write(path: Path) -> None:
    """With read_only=True what writes is a ReadOnlyError, and what reads works."""
    made(path)
    with Index(path, read_only=True) as index:
        for write in WRITES.values():
            with pytest.raises(ReadOnlyError, match="read_only"):
                write(index)
            assert [one.key for one in index.query(TEXT)] == ["a"]


def test_reading_only_reads_everything(tmp_path: Path) -> None:
    """What only reads gives the same from an index opened for reading only."""
    for kind, scheme in (("texts", None), ("passages", Passages(shortest=3))):
        path = made(tmp_path / kind, scheme)
        with Index(path, read_only=True) as one, Index(path) as other:
            for name, read in READS.items():
                if ("passages" in name) == (kind == "passages"):
                    assert read(one) if name in ("explain", "stats") else read(one) == read(other), name


def test_backup_needs_no_writing(path: Path, tmp_path: Path) -> None:
    """An index opened for reading only can be copied."""
    with Index(made(path), read_only=True) as index:
        index.backup(tmp_path / "copy.db")
    with Index(tmp_path / "copy.db") as copy:
        assert list(copy) == ["a", "b"]


CODE_CALLS: dict[str, Callable[[Index], Any]] = {
    "add_code": lambda index: index.add_code("x", 1),
    "add_code_if_new": lambda index: index.add_code_if_new("x", 1),
    "add_codes": lambda index: index.add_codes(["x"], [1]),
    "nearest": lambda index: index.nearest(TEXT, 1),
    "nearest_code": lambda index: index.nearest_code(1, 1),
    "query_code": lambda index: index.query_code(1),
    "query_codes": lambda index: index.query_codes([1] * 100),
    "count_code": lambda index: index.count_code(1),
}
CLOSED: dict[str, Callable[[Index], Any]] = {
    **WRITES,
    **READS,
    **CODE_CALLS,
    "backup": lambda index: index.backup("never.db"),
    "export_fingerprints": lambda index: index.export_fingerprints("never.parquet"),
    "connection": lambda index: index.connection,
    "__enter__": lambda index: index.__enter__(),
}
OPEN_OR_NOT = {"close", "name", "scheme", "text_rules", "window"}


def test_every_public_method_is_in_the_tables() -> None:
    """The tests of closed and read-only indexes leave no method out."""
    public = {name for name in dir(Index) if not name.startswith("_")}
    assert public == {name for name in CLOSED if not name.startswith("_")} | OPEN_OR_NOT


@pytest.mark.parametrize("owned", [True, False], ids=["a path", "a connection"])
@pytest.mark.parametrize("scheme", [MinHash(), SimHash()], ids=["texts", "codes"])
def test_a_closed_index_says_so(path: Path, scheme: Any, owned: bool) -> None:
    """Every method of a closed index is a ClosedError; closing again does nothing."""
    index = Index(path if owned else apsw.Connection(str(path)), scheme)
    index.add("a", TEXT)
    index.close()
    index.close()
    for name, call in CLOSED.items():
        if (name in CODE_CALLS) == isinstance(scheme, SimHash):
            with pytest.raises(ClosedError, match="closed"):
                call(index)
    assert not Path("never.db").exists()
    shown = repr(str(path)) if owned else f"connection to {str(path)!r}"
    assert index.name == "neardup" and repr(index).startswith(f"<neardup_db.Index {shown} ") and repr(index).endswith(", closed>")
