"""What in a wheel the tools of others do not look at: python tests/package/wheel.py WHEEL...

The tag, the ABI and the libraries that a binary needs are read by abi3audit, auditwheel and delocate."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

BINARIES = {"_core", "_python", "neardup"}
"""Modules of Python, and the extension of SQLite."""

DATA = (".css", ".html", ".jsonl.gz", ".md", ".py", ".pyi", ".sql", "py.typed")
"""Ends of the names of all other files of the package."""

BUILD_PATHS = re.compile(rb"[\w./-]*/(?:tmp|root|home|Users|private|project)/[\w./-]*|[A-Z]:\\(?:[\w.~ -]+\\){2}[\w.-]*")
"""Folders of the machine that built a binary."""


def problems(path: Path) -> list[str]:
    """What is wrong with a wheel; a list that should be empty."""
    with zipfile.ZipFile(path) as wheel:
        files = [name for name in wheel.namelist() if not name.endswith("/")]
        binaries = [name for name in files if PurePosixPath(name).suffix in (".so", ".pyd", ".dll", ".dylib")]
        found = [f"{name} has the path {one.decode()}" for name in binaries for one in {*BUILD_PATHS.findall(wheel.read(name))}]
    found += [f"{name} has no business in it" for name in files if not belongs(name, binaries)]
    names = {PurePosixPath(name).name.split(".")[0] for name in binaries}
    found += [f"{name} is missing" for name in sorted((BINARIES - names) | (sources() - {*files}))]
    return found


def sources() -> set[str]:
    """Names in a wheel of all Python and SQL of the checkout."""
    names = {path.relative_to(ROOT).as_posix() for path in (ROOT / "neardup_db").rglob("*.[ps][yq]*")}
    names |= {f"neardup_db/migrations/{path.name}" for path in (ROOT / "migrations").glob("*.sql")}
    return {name for name in names if "__pycache__" not in name}


def belongs(name: str, binaries: list[str]) -> bool:
    """Whether a file is one that users need."""
    folder = name.split("/")[0]
    return folder.endswith(".dist-info") or (folder == "neardup_db" and (name in binaries or name.endswith(DATA)))


def main() -> int:
    """Names what is wrong; 1 if anything is."""
    wrong = [f"{path}: {problem}" for path in map(Path, sys.argv[1:]) for problem in problems(path)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(sys.argv) - 1} wheels, {len(wrong)} problems")
    return 1 if wrong or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
