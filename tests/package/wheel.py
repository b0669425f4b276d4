"""What must be in a wheel, and what must not: python tests/package/wheel.py WHEEL..."""

from __future__ import annotations

import re
import struct
import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

MODULES = ("_core", "_python")
"""Extension modules of Python; all have the stable ABI."""

DATA = (".css", ".html", ".jsonl.gz", ".md", ".py", ".pyi", ".sql", "py.typed")
"""Ends of the names of all other files of the package."""

ELF = {(2, 62): "x86_64", (2, 183): "aarch64"}
"""Class (2: 64 bits) and machine of a binary of Linux."""

BUILD_PATHS = re.compile(rb"[\w./-]*/(?:tmp|root|home|Users|private|project)/[\w./-]*|[A-Z]:\\(?:[\w.~ -]+\\){2}[\w.-]*")
"""Folders of the machine that built a binary."""

MACH_O = {0x01000007: "x86_64", 0x0100000C: "arm64"}
PE = {0x8664: "amd64", 0xAA64: "arm64"}


def problems(path: Path) -> list[str]:
    """What is wrong with a wheel; a list that should be empty."""
    python, abi, platforms = path.stem.split("-")[2:]
    found = [] if abi == "abi3" else [f"its ABI is {abi}, not abi3"]
    found += [f"{platforms}: a wheel for two processors" for _ in re.findall("universal2", platforms)]
    with zipfile.ZipFile(path) as wheel:
        files = [name for name in wheel.namelist() if not name.endswith("/")]
        binaries = [name for name in files if PurePosixPath(name).suffix in (".so", ".pyd", ".dll", ".dylib")]
        for name in binaries:
            data = wheel.read(name)
            processor = processor_of(data)
            found += [f"{name} has the path {place.decode()}" for place in dict.fromkeys(BUILD_PATHS.findall(data))]
            if not all(one.endswith(f"_{processor}") for one in platforms.split(".")):
                found.append(f"{name} is for {processor}, the wheel for {platforms}")
    found += [f"{name} has no business in it" for name in files if not belongs(name, binaries)]
    names = {PurePosixPath(name).name.split(".")[0] for name in binaries}
    if names != {*MODULES, "neardup"}:
        found.append(f"its binaries are {', '.join(sorted(names))}")
    found += [f"{name} has not the name of the stable ABI" for name in binaries if name.endswith(".so") and not stable(name)]
    return found + [f"{name} is missing" for name in sorted(sources() - {*files})]


def sources() -> set[str]:
    """Names in a wheel of all Python and SQL of the checkout."""
    names = {path.relative_to(ROOT).as_posix() for path in (ROOT / "neardup_db").rglob("*.[ps][yq]*")}
    names |= {f"neardup_db/migrations/{path.name}" for path in (ROOT / "migrations").glob("*.sql")}
    return {name for name in names if "__pycache__" not in name}


def stable(name: str) -> bool:
    """Whether a binary of Linux or macOS says in its name that it has the stable ABI, or is no module of Python."""
    return name.endswith((".abi3.so", "/neardup.so"))


def belongs(name: str, binaries: list[str]) -> bool:
    """Whether a file is one that users need."""
    folder = name.split("/")[0]
    return folder.endswith(".dist-info") or (folder == "neardup_db" and (name in binaries or name.endswith(DATA)))


def processor_of(data: bytes) -> str:
    """The processor that a binary is for, as the tag of a wheel names it."""
    if data[:4] == b"\x7fELF":
        return ELF.get((data[4], struct.unpack_from("<H", data, 18)[0]), "another processor")
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return MACH_O.get(struct.unpack_from("<I", data, 4)[0], "another processor")
    if data[:2] == b"MZ":
        header = struct.unpack_from("<I", data, 60)[0]
        return PE.get(struct.unpack_from("<H", data, header + 4)[0], "another processor")
    return "several processors or none"


def main() -> int:
    """Names what is wrong; 1 if anything is."""
    wrong = [f"{path}: {problem}" for path in map(Path, sys.argv[1:]) for problem in problems(path)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(sys.argv) - 1} wheels, {len(wrong)} problems")
    return 1 if wrong or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
