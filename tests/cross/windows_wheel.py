"""Turns a wheel of this package for Linux into one for Windows on x86-64: `python windows_wheel.py WHEEL PYTHON OUT`.

The C code is compiled by Zig (`pip install ziglang`), Python's modules for the stable ABI of 3.10, with the headers and
`libs/python3.lib` of an unpacked Python for Windows. All else of the wheel stays as it is.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TAG = "cp310-abi3-win_amd64"
COMPILER = ["python-zig", "cc", "-target", "x86_64-windows-gnu"]
FLAGS = ["-std=c11", "-O2", "-DNDEBUG", "-DPy_LIMITED_API=0x030A0000", "-w"]


def modules() -> dict[str, list[str]]:
    """The C files of Python's modules in `meson.build`, which cannot build them for a Python that it cannot run."""
    listed = re.findall(r"'(_\w+)': \[(.*?)\]", (ROOT / "meson.build").read_text("utf-8"))
    return {name: [f"csrc/python/{file}" for file in re.findall(r"'(\w+\.c)'", files)] for name, files in listed}


def build(work: Path, python: Path) -> dict[str, Path]:
    """The libraries by their names in the wheel."""
    headers = work / "sqlite"
    headers.mkdir()
    for name in ("sqlite3.h", "sqlite3ext.h"):  # alone: beside them are headers of this system
        shutil.copy(Path(os.environ.get("SQLITE_HEADERS", "/usr/include")) / name, headers)
    setup = ["meson", "setup", "--cross-file", ROOT / "tests/cross/windows-python.ini", "-Dpython_modules=false"]
    run(*setup, f"-Dsqlite_headers={headers}", work / "meson", ROOT)
    run("meson", "compile", "-C", work / "meson", "neardup", "neardup_core")

    run(sys.executable, "-c", JOIN, work / "_core.h", *(ROOT / f"csrc/neardup_{name}.h" for name in ("abi", "testing", "arrow")))
    prelude = ROOT / "csrc/python/cffi_prelude.h"
    run("cffi-gen-src", "read-sources", "neardup_db._core", work / "_core.h", prelude, work / "_core.c")
    wanted = {"_core": [work / "_core.c", work / "meson/libneardup_core.a"], **modules()}
    include = [f"-I{ROOT / 'csrc'}", f"-I{headers}", f"-I{python / 'include'}"]
    link = ["-shared", "-s", f"-L{python / 'libs'}", "-lpython3"]
    made = {"neardup.dll": work / "meson/neardup.dll"}
    for name, files in wanted.items():
        made[f"{name}.pyd"] = work / f"{name}.pyd"
        run(*COMPILER, *FLAGS, *include, "-o", made[f"{name}.pyd"], *(ROOT / file for file in files), *link)
    return made


JOIN = "import sys; open(sys.argv[1], 'w').write(''.join(open(path).read() for path in sys.argv[2:]))"


def run(*command: object) -> None:
    """Run a program; what it prints is shown if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")


def repack(wheel: Path, libraries: dict[str, Path], out: Path) -> Path:
    """The wheel with other libraries, another tag, and a record of what is in it now."""
    name, version = wheel.name.split("-")[:2]
    target = out / f"{name}-{version}-{TAG}.whl"
    record: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:

        def put(path: str, data: bytes) -> None:
            new.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append((path, f"sha256={digest}", str(len(data))))

        for path, data in _kept(old):
            put(path, data)
        for library, made in libraries.items():
            put(f"neardup_db/{library}", made.read_bytes())
        listing = io.StringIO()
        path = f"{name}-{version}.dist-info/RECORD"
        csv.writer(listing, lineterminator="\n").writerows([*record, (path, "", "")])
        new.writestr(path, listing.getvalue())
    return target


def _kept(wheel: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for path in wheel.namelist():
        data = wheel.read(path)
        if path.endswith(".dist-info/WHEEL"):
            data = re.sub(rb"(?m)^Tag: .*", f"Tag: {TAG}".encode(), data)
        if not path.endswith((".so", ".dist-info/RECORD", "/")):
            yield path, data


def main() -> None:
    """Make the wheel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("python", type=Path, help="the folder with include/ and libs/ of a Python for Windows")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        print(repack(given.wheel, build(Path(folder), given.python.absolute()), given.out))


if __name__ == "__main__":
    main()
