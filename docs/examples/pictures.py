"""A folder of pictures: which are copies of each other, re-encoded, scaled, recoloured or cropped? By PDQ codes of 256 bits.

python docs/examples/pictures.py pictures.db FOLDER           adds what is new in the folder, and prints its near-duplicates
python docs/examples/pictures.py pictures.db FOLDER --turned  the same, with copies that were turned or mirrored
python docs/examples/pictures.py                              2,000 generated pictures: how many of each kind are found
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pdqhash
from PIL import Image, ImageDraw, ImageFilter

from neardup_db import AddReport, BinaryCode, Index

SCHEME = BinaryCode(bits=256, max_distance=60)
"""Pictures that have nothing in common differ in about 128 bits of 256. PDQ's own bound is 31, for billions of pictures; among
thousands there is room for more, and copies that are cropped by a twentieth differ in 40 to 60."""

LEAST_QUALITY = 50
"""PDQ's own bound: pictures of less quality, such as blank ones, have codes that say little."""

TURNS = {
    "upright": None,
    "turned left": Image.Transpose.ROTATE_90,
    "upside down": Image.Transpose.ROTATE_180,
    "turned right": Image.Transpose.ROTATE_270,
    "mirrored": Image.Transpose.FLIP_LEFT_RIGHT,
    "mirrored, upside down": Image.Transpose.FLIP_TOP_BOTTOM,
    "mirrored, turned left": Image.Transpose.TRANSPOSE,
    "mirrored, turned right": Image.Transpose.TRANSVERSE,
}
"""The eight ways in which a picture may lie. Each has another code."""

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}


# ---- a folder in an index ----------------------------------------------------------------------------------------------------


def code_of(picture: Image.Image) -> tuple[Any, int]:
    """The PDQ code of a picture, bool[256], and its quality, 0 to 100."""
    bits, quality = pdqhash.compute(np.asarray(picture.convert("RGB")))
    return bits.astype(bool), quality


def codes_of(picture: Image.Image) -> dict[str, Any]:
    """The PDQ codes of a picture in each of the ways in which it may lie."""
    return {part: code_of(picture if turn is None else picture.transpose(turn))[0] for part, turn in TURNS.items()}


def add_folder(index: Index, folder: Path, turned: bool = False) -> AddReport:
    """Add the pictures of a folder that the index does not have yet, by their paths. What cannot be read is left out.

    turned: each with all its codes, under one key, so that a picture finds those that are turned or mirrored copies of it. The
    report counts codes."""
    keys, codes, metadata, parts = [], [], [], []
    for path in sorted(folder.rglob("*")):
        key = str(path.relative_to(folder))
        if path.suffix.lower() not in SUFFIXES or key in index:
            continue
        try:
            with Image.open(path) as picture:
                code, quality = code_of(picture)
                size = picture.size
                several = codes_of(picture) if turned and quality >= LEAST_QUALITY else {None: code}
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        if quality >= LEAST_QUALITY:
            keys += [key] * len(several)
            codes += several.values()
            metadata += [{"size": size, "quality": quality}, *[None] * (len(several) - 1)]  # the first one brings it
            parts += several
    return index.add_codes(keys, codes, metadata=metadata, part=parts if turned else None)


def show_folder(index_path: str, folder: Path, turned: bool) -> None:
    """Print a line of JSON for each group of near-duplicates."""
    with Index(index_path, SCHEME) as index:
        add_folder(index, folder, turned)
        for cluster in index.clusters():
            print(json.dumps(cluster.keys))


# ---- generated pictures ------------------------------------------------------------------------------------------------------

SIZE = 256


def generated(rng: np.random.Generator) -> Image.Image:
    """A colour gradient, soft noise, and some ellipses, rectangles and lines."""
    corners, spots = (rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in (2, 12))
    gradient = Image.fromarray(corners).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    picture = Image.blend(gradient, Image.fromarray(spots).resize((SIZE, SIZE), Image.Resampling.BICUBIC), 0.4)
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(5, 15)):
        (left, right), (top, bottom) = np.sort(rng.integers(0, SIZE, (2, 2))).tolist()
        box, colour = (left, top, right, bottom), tuple(rng.integers(0, 256, 3).tolist())
        shape = rng.integers(3)
        if shape == 0:
            draw.line(box, colour, width=int(rng.integers(2, 12)))
        else:
            (draw.ellipse if shape == 1 else draw.rectangle)(box, colour)
    return picture.filter(ImageFilter.GaussianBlur(1))


def cropped(picture: Image.Image, share: float) -> Image.Image:
    """The picture without a share of its width and height."""
    edge = round(SIZE * share / 2)
    return picture.crop((edge, edge, SIZE - edge, SIZE - edge))


COPIES: dict[str, tuple[str, Callable[[Image.Image], Image.Image]]] = {
    "re-encoded": (".jpg", lambda picture: picture),
    "half the size": (".jpg", lambda picture: picture.resize((SIZE // 2, SIZE // 2))),
    "grey": (".webp", lambda picture: picture.convert("L")),
    "brighter": (".jpg", lambda picture: picture.point(lambda value: min(255, value + 30))),
    "cropped by 2 %": (".jpg", lambda picture: cropped(picture, 0.02)),
    "cropped by 5 %": (".jpg", lambda picture: cropped(picture, 0.05)),
    "cropped by 10 %": (".jpg", lambda picture: cropped(picture, 0.10)),
}
"""What becomes of a picture, with the kind of file that it is written to."""


def write_pictures(folder: Path, count: int) -> None:
    """So many pictures of files 'NUMBER/original.png', each with its copies beside it."""
    rng = np.random.default_rng(1)
    for number in range(count // (1 + len(COPIES))):
        picture = generated(rng)
        (folder / f"{number:04}").mkdir()
        picture.save(folder / f"{number:04}" / "original.png")
        for kind, (suffix, change) in COPIES.items():
            change(picture).save(folder / f"{number:04}" / f"{kind}{suffix}", quality=50)


def figures(index: Index) -> dict[str, Any]:
    """Of the pictures that `write_pictures` wrote, how much is found.

    precision: pairs that the index finds whose pictures are copies of one original. recall: of each kind, copies that the index
    pairs with their original. nearest: of each kind, copies of which the nearest of all originals is their own."""
    keys = [Path(key) for key in index]
    pairs = [(Path(pair.key_a), Path(pair.key_b)) for pair in index.pairs()]
    right = {frozenset(pair) for pair in pairs if pair[0].parent == pair[1].parent}
    original = {key.parent: key for key in keys if key.stem == "original"}
    counts = {name: Counter[str]() for name in ("all", "recall", "nearest")}
    with Index(":memory:", SCHEME) as originals:
        originals.add_codes(map(str, original.values()), [index.get(str(key)).code for key in original.values()])
        for key in keys:
            counts["all"][key.stem] += 1
            counts["recall"][key.stem] += frozenset((key, original[key.parent])) in right
            counts["nearest"][key.stem] += originals.nearest(index.get(str(key)).code, 1)[0].key == str(original[key.parent])
    shares = {name: {kind: counts[name][kind] / counts["all"][kind] for kind in COPIES} for name in ("recall", "nearest")}
    return {"pictures": len(keys), "pairs": len(pairs), "precision": len(right) / len(pairs), **shares}


def show() -> None:
    """2,000 generated pictures in a folder, one in eight of them an original."""
    with tempfile.TemporaryDirectory() as folder, Index(":memory:", SCHEME) as index:
        write_pictures(Path(folder), 2000)
        add_folder(index, Path(folder))
        print(json.dumps(figures(index)))


if __name__ == "__main__":
    if len(sys.argv) in (3, 4):
        show_folder(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] == ["--turned"])
    else:
        show()
