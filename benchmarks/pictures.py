"""How far apart PDQ codes of altered and of unrelated pictures are, and what a `max_distance` finds among how many pictures.

    pip install pdqhash pillow
    python benchmarks/pictures.py FOLDER ... [--most 4000] [--altered 500] [--near FILE]

Pictures of Debian's packages: `openclipart-png` (drawings), `tuxpaint-stamps-default` (photographs and drawings of single
things), `gnome-backgrounds`, `mate-backgrounds`, `plasma-workspace-wallpapers`, `ukui-wallpapers`, `lomiri-wallpapers-*`
(photographs and paintings); unpack them by `dpkg -x`. Each folder is a set. Pictures below 64 pixels and those whose PDQ
quality is below 50 are left out, of pictures of one file name the largest is taken. Transparent pictures are laid on white.

Recall: of up to `--altered` pictures, how many of the altered copies are within a distance. Unrelated: the share of the pairs
of different pictures within a distance. A query against n pictures has n times that share of false matches, and n pictures
have n (n - 1) / 2 times that share of false pairs. Series of real collections (one drawing in several colours) are among the
pairs: `--near FILE` lists the nearest for a person to look at.
"""

from __future__ import annotations

import argparse
import io
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pdqhash
from PIL import Image, ImageDraw, ImageEnhance

DISTANCES = (23, 31, 40, 50, 60, 70, 80, 90)
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp"}
LARGEST = 1024


def opened(path: Path) -> Image.Image | None:
    """A picture in RGB, at most 1,024 pixels wide and high."""
    try:
        with Image.open(path) as picture:
            picture.draft("RGB", (LARGEST, LARGEST))
            picture.thumbnail((LARGEST, LARGEST))
            if picture.mode in ("RGBA", "LA", "P", "PA"):
                picture = picture.convert("RGBA")
                ground = Image.new("RGBA", picture.size, "white")
                picture = Image.alpha_composite(ground, picture)
            return picture.convert("RGB") if min(picture.size) >= 64 else None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None


def code(picture: Image.Image) -> tuple[np.ndarray, int]:
    """256 bits, packed, and the quality."""
    bits, quality = pdqhash.compute(np.asarray(picture))
    return np.packbits(bits.astype(bool)), quality


def jpeg(picture: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return Image.open(file).convert("RGB")


def cropped(picture: Image.Image, share: float, rng: random.Random) -> Image.Image:
    """Less of the width and of the height, from the sides in random parts."""
    width, height = picture.size
    left, top = rng.uniform(0, share), rng.uniform(0, share)
    box = (left * width, top * height, (1 - share + left) * width, (1 - share + top) * height)
    return picture.crop(tuple(round(edge) for edge in box))


def marked(picture: Image.Image) -> Image.Image:
    """With a line of text in a corner."""
    copy = picture.copy()
    width, height = copy.size
    ImageDraw.Draw(copy).text((width * 0.55, height * 0.88), "www.example.com", fill="white", stroke_fill="black", stroke_width=1,
                              font_size=max(10, height // 16))  # fmt: skip
    return copy


VARIANTS: dict[str, Callable[[Image.Image, random.Random], Image.Image]] = {
    "JPEG, quality 40": lambda picture, rng: jpeg(picture, 40),
    "JPEG, quality 10": lambda picture, rng: jpeg(picture, 10),
    "half the size": lambda picture, rng: picture.resize((max(1, picture.width // 2), max(1, picture.height // 2))),
    "64 pixels wide": lambda picture, rng: picture.resize((64, max(1, picture.height * 64 // picture.width))),
    "cropped by 1 %": lambda picture, rng: cropped(picture, 0.01, rng),
    "cropped by 3 %": lambda picture, rng: cropped(picture, 0.03, rng),
    "cropped by 5 %": lambda picture, rng: cropped(picture, 0.05, rng),
    "cropped by 10 %": lambda picture, rng: cropped(picture, 0.10, rng),
    "30 % brighter": lambda picture, rng: ImageEnhance.Brightness(picture).enhance(1.3),
    "a watermark": lambda picture, rng: marked(picture),
}


def pictures(folder: Path, most: int) -> Iterator[tuple[Path, Image.Image, np.ndarray]]:
    """The different pictures of a folder, with their codes."""
    largest: dict[str, Path] = {}
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    for path in sorted(path for path in files if path.suffix.lower() in SUFFIXES):
        name = path.name if any(letter.isalpha() for letter in path.stem) else str(path.parent)
        if name not in largest or path.stat().st_size > largest[name].stat().st_size:
            largest[name] = path
    seen: set[bytes] = set()
    paths = list(largest.values())
    random.Random(3).shuffle(paths)
    for path in paths[:most]:
        picture = opened(path)
        if picture is None:
            continue
        bits, quality = code(picture)
        if quality >= 50 and bits.tobytes() not in seen:
            seen.add(bits.tobytes())
            yield path, picture, bits


def distances(codes: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Pairs by distance, and the nearest 300 pairs."""
    words = codes.view(np.uint64)
    counts, near = np.zeros(257, np.int64), []
    for row in range(len(words) - 1):
        bits = np.bitwise_count(words[row + 1 :] ^ words[row])
        apart = bits.sum(axis=1, dtype=np.int64)
        counts += np.bincount(apart, minlength=257)
        near += [(int(apart[other]), row, row + 1 + int(other)) for other in np.nonzero(apart <= 60)[0]]
    return counts, sorted(near)


def measure(folder: Path, most: int, altered: int, near: Path | None) -> np.ndarray:
    """Print the tables of one set; its codes."""
    found = [(path, bits) for path, _, bits in pictures(folder, most)]
    codes = np.array([bits for _, bits in found])
    rng = random.Random(1)
    chosen = rng.sample(range(len(found)), min(altered, len(found)))
    apart: dict[str, list[int]] = {name: [] for name in VARIANTS}
    for row in chosen:
        picture = opened(found[row][0])
        assert picture is not None
        for name, alter in VARIANTS.items():
            apart[name].append(int(np.unpackbits(code(alter(picture, rng))[0] ^ codes[row]).sum()))
    print(f"\n{folder.name}: {len(found):,} pictures, {len(chosen)} altered\n")
    print("| within | " + " | ".join(map(str, DISTANCES)) + " | median |\n" + "|---" * (len(DISTANCES) + 2) + "|")
    for name, bits in apart.items():
        shares = " | ".join(f"{sum(one <= distance for one in bits) / len(bits):.0%}" for distance in DISTANCES)
        print(f"| {name} | {shares} | {sorted(bits)[len(bits) // 2]} |")
    counts, nearest = distances(codes)
    total = counts.sum()
    spread = np.repeat(np.arange(257), counts // max(1, total // 1_000_000))
    within = " | ".join(str(int(counts[: distance + 1].sum())) for distance in DISTANCES)
    print(f"| pairs of different pictures | {within} | {int(np.median(spread))} |")
    print(f"\n{total:,} pairs; mean {spread.mean():.1f} bits, standard deviation {spread.std():.2f}")
    print("by distance: " + ", ".join(f"{bits} {counts[bits]}" for bits in range(91) if counts[bits]), flush=True)
    if near is not None:
        with open(near, "a", encoding="utf-8") as file:
            for bits_, a, b in nearest:
                print(bits_, found[a][0], found[b][0], sep="\t", file=file)
    return codes


def across(sets: list[np.ndarray]) -> None:
    """Pairs of pictures of different sets by distance: hardly any of them are of one series."""
    counts = np.zeros(257, np.int64)
    for number, codes in enumerate(sets):
        for others in sets[number + 1 :]:
            for row in codes:
                apart = np.bitwise_count(others.view(np.uint64) ^ row.view(np.uint64)).sum(axis=1, dtype=np.int64)
                counts += np.bincount(apart, minlength=257)
    mean = (counts * np.arange(257)).sum() / counts.sum()
    spread = ((counts * (np.arange(257) - mean) ** 2).sum() / counts.sum()) ** 0.5
    print(f"\nacross sets: {counts.sum():,} pairs; mean {mean:.1f} bits, standard deviation {spread:.2f}")
    print("by distance: " + ", ".join(f"{bits} {counts[bits]}" for bits in range(257) if counts[bits] and bits <= 96))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--near", type=Path)
    parser.add_argument("--most", type=int, default=4000, help="files of a folder, at random")
    parser.add_argument("--altered", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    across([measure(folder, options.most, options.altered, options.near) for folder in options.folders])


if __name__ == "__main__":
    main()
