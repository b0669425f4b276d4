"""What is left of a deleted document in the bytes of the file and of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from neardup_db import Index, MinHash

SECRETS = (b"key-that-is-secret", b"group-that-is-secret", b"metadata-that-is-secret", b"word-that-is-secret")
TEXT = " ".join(f"word-that-is-secret {number}" for number in range(2000))
"""Of several pages, so that most of them are not used again after a delete."""


def left(folder: Path) -> set[bytes]:
    """The secrets that some file of the folder holds."""
    return {secret for file in folder.iterdir() for secret in SECRETS if secret in file.read_bytes()}


@pytest.mark.parametrize("checksums", [False, True])
def test_compact_leaves_nothing_of_deleted_documents(tmp_path: Path, checksums: bool) -> None:
    """After a delete and compact() no key, group, metadata or text of the document is in the file or in its log."""
    with Index(tmp_path / "secrets.db", MinHash(), store_text=True, checksums=checksums) as index:
        index.add_many((number, f"{number} and {number + 1} and {number + 2} are numbers") for number in range(500))
        index.add(SECRETS[0].decode(), TEXT, group=SECRETS[1].decode(), metadata={"secret": SECRETS[2].decode()})
    assert left(tmp_path) == set(SECRETS)
    with Index(tmp_path / "secrets.db") as index:
        index.delete(SECRETS[0].decode())
        assert SECRETS[3] in left(tmp_path), "nothing to compact away"
        index.compact()
        assert left(tmp_path) == set()
        assert len(index) == 500
    assert left(tmp_path) == set()
