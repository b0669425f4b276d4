"""Draws the pictures of these pages: `python docs/understanding/draw.py [FOLDER]`, this folder unless another is given.

Every number in them is computed by the installed package, so a picture changes when the package does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import draw_clusters
import draw_finding
import draw_promises
import draw_schemes
import draw_thresholds


def main(folder: Path) -> None:
    for module in (draw_finding, draw_schemes, draw_thresholds, draw_clusters, draw_promises):
        for picture in module.pictures():
            (folder / f"{picture.name}.svg").write_text(picture.file(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
