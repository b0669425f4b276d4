"""Wheels for other platforms than this one, from the sdist: `python tests/package/build.py SDIST OUT [PLATFORM...]`.

Each is made as pip makes one, with Zig as compiler, which brings the C libraries of all of them; those for macOS by another
Python than Debian's own, whose headers know Linux alone. Needs meson-python, cffi, wheel and ziglang (pip), and the headers of
SQLite, in the folder $SQLITE_HEADERS or in /usr/include.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Platform:
    """What a wheel is built for."""

    tag: str
    """Of the wheel."""
    target: str
    """As Zig names it."""
    python: str
    """As `sysconfig.get_platform()` names it there."""

    def cross_file(self, headers: Path) -> str:
        """What meson is told."""
        system = "darwin" if self.is_macos else "linux"
        processor = self.target.partition("-")[0]
        return f"""[binaries]
c = ['python-zig', 'cc', '-target', '{self.target}', '-idirafter', '{headers / "apart"}']
ar = ['python-zig', 'ar']
[host_machine]
system = '{system}'
cpu_family = '{processor}'
cpu = '{processor}'
endian = 'little'
[built-in options]
c_link_args = ['-Wl,-s']
"""

    @property
    def is_macos(self) -> bool:
        return self.python.startswith("macosx")


PLATFORMS = [
    Platform("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", "linux-x86_64"),
    Platform("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "linux-aarch64"),
    Platform("musllinux_1_2_x86_64", "x86_64-linux-musl", "linux-x86_64"),
    Platform("musllinux_1_2_aarch64", "aarch64-linux-musl", "linux-aarch64"),
    Platform("macosx_11_0_arm64", "aarch64-macos.11.0", "macosx-11.0-arm64"),
    Platform("macosx_11_0_x86_64", "x86_64-macos.11.0", "macosx-11.0-x86_64"),
]


def build(sdist: Path, headers: Path, platform: Platform, out: Path, work: Path) -> Path:
    """The wheel for a platform, in `out`."""
    (work / "cross.ini").write_text(platform.cross_file(headers), encoding="utf-8")
    options = ["--cross-file", work / "cross.ini", f"-Dsqlite_headers={headers}", "-Dpython.allow_limited_api=true"]
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-build-isolation", "--no-deps", "-w", work / "built"]
    known = {"_PYTHON_HOST_PLATFORM": platform.python}
    if platform.is_macos:
        known["MACOSX_DEPLOYMENT_TARGET"] = platform.python.split("-")[1]
    run(*pip, *(f"-Csetup-args={option}" for option in options), sdist, **known)
    (made,) = (work / "built").glob("*.whl")
    # Any Python builds for the stable ABI of the oldest.
    run(sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", "cp310", "--platform-tag", platform.tag, made)
    (made,) = (work / "built").glob("*.whl")
    return Path(shutil.move(made, out / made.name))


@contextmanager
def only_headers() -> Iterator[Path]:
    """A folder with them alone: beside them are headers of this system. What Debian's own Python has where only Debian's
    compilers look is in `apart`, for every processor."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sqlite3.h", "sqlite3ext.h"):
            shutil.copy(Path(os.environ.get("SQLITE_HEADERS", "/usr/include")) / name, folder)
        include = Path(sysconfig.get_path("include"))
        found = include.parent / str(sysconfig.get_config_var("MULTIARCH")) / include.name / "pyconfig.h"
        for processor in ("x86_64", "aarch64") if found.exists() else ():
            place = Path(folder, "apart", f"{processor}-linux-gnu", include.name)
            place.mkdir(parents=True)
            shutil.copy(found, place)
        yield Path(folder)


def run(*command: object, **environment: str) -> None:
    """Run a program; what it prints is shown if it fails."""
    words = [str(part) for part in command]
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")


def main() -> None:
    """Make the wheels, and print their names."""
    tags = [platform.tag for platform in PLATFORMS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", choices=[[], *tags], help=f"of {', '.join(tags)}; else all")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with only_headers() as headers:
        for platform in PLATFORMS:
            if platform.tag in given.platforms or not given.platforms:
                with tempfile.TemporaryDirectory() as work:
                    print(build(given.sdist, headers, platform, given.out, Path(work)), flush=True)


if __name__ == "__main__":
    main()
