"""docs/examples/pictures.py: copies of pictures by PDQ codes; needs pdqhash and Pillow (`-m examples`)."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import keys

from neardup_db import Index

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"

pytestmark = pytest.mark.examples


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("pictures")


def test_recall_and_precision(pictures: Any, tmp_path: Path) -> None:
    """Every re-encoding and nearly every small crop is found, what is found is right, and most larger crops are the nearest."""
    pictures.write_pictures(tmp_path, 240)
    with Index(":memory:", pictures.SCHEME) as index:
        pictures.add_folder(index, tmp_path)
        found = pictures.figures(index)
    assert found["pictures"] >= 230 and found["precision"] == 1.0
    for kind in ("re-encoded", "half the size", "grey", "brighter", "cropped by 2 %"):
        assert found["recall"][kind] == found["nearest"][kind] == 1.0
    assert found["recall"]["cropped by 5 %"] > 0.8 and found["nearest"]["cropped by 5 %"] > 0.95
    assert found["recall"]["cropped by 10 %"] < 0.2 and found["nearest"]["cropped by 10 %"] > 0.7


def test_a_folder_that_grows(pictures: Any, tmp_path: Path) -> None:
    """A picture is added once, by its path, with its size; one that is blank or cannot be read is left out."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    pictures.write_pictures(folder, 16)
    pictures.Image.new("RGB", (100, 100)).save(folder / "blank.png")
    (folder / "broken.jpg").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("no picture either", "utf-8")
    with Index(tmp_path / "pictures.db", pictures.SCHEME) as index:
        assert pictures.add_folder(index, folder).added == 16
        assert pictures.add_folder(index, folder).added == 0
        assert index.get("0001/half the size.jpg").metadata["size"] == [128, 128]
        (folder / "0002").mkdir()
        (folder / "0000" / "original.png").rename(folder / "0002" / "moved.png")
        assert pictures.add_folder(index, folder).added == 1
        assert keys(index.matches("0002/moved.png"))[0] == "0000/original.png"


def test_turned_and_mirrored_copies(pictures: Any, tmp_path: Path) -> None:
    """With all codes of each picture under its key, every copy however it lies is in the cluster of its original, which stands
    there once; and a question tells how the picture lies that was asked with."""
    for number in range(6):
        (tmp_path / str(number)).mkdir()
        picture = pictures.generated(pictures.np.random.default_rng(number))
        for part, turn in pictures.TURNS.items():
            copy = picture if turn is None else picture.transpose(turn)
            copy.save(tmp_path / str(number) / f"{part}.jpg", quality=50)
    with Index(":memory:", pictures.SCHEME) as index:
        assert pictures.add_folder(index, tmp_path, turned=True).added == 6 * 8 * 8 and len(index) == 6 * 8
        assert sorted(sorted(cluster.keys) for cluster in index.clusters()) == [
            sorted(f"{number}/{part}.jpg" for part in pictures.TURNS) for number in range(6)
        ]
        asked = pictures.Image.open(tmp_path / "3" / "turned left.jpg")
        found = {match.key: match.part for match in index.query_code(pictures.code_of(asked)[0])}
        assert found["3/upright.jpg"] == "turned left" and found["3/turned left.jpg"] == "upright" and len(found) == 8
        assert index.check().ok


def test_the_command(pictures: Any, tmp_path: Path) -> None:
    """`python pictures.py pictures.db FOLDER` prints each group of near-duplicates; again it prints the same."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    pictures.write_pictures(folder, 16)
    command = [sys.executable, str(EXAMPLES / "pictures.py"), str(tmp_path / "pictures.db"), str(folder)]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert printed[0] == printed[1]
    groups = [json.loads(line) for line in printed[0].splitlines()]
    assert len(groups) == 2 and all(len({Path(key).parent for key in group}) == 1 for group in groups)
