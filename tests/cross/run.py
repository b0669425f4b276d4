"""Builds the C code for each platform, runs its tests where something runs them, and prints a table: run.py [PLATFORM...]

On each platform that runs: the C tests; the fingerprints of fixed texts, which must be those of this machine; index files that
Python writes here, asked by neardup_search there, whose answers must be those of this machine; and copies of them that SQLite
writes there, which Python checks here. Without names all platforms are built, two at a time; nothing is kept.

clang-cl, whose system's headers are not here, compiles the core and the extension to objects, with headers of tests/cross.
At last builds that must be refused tell why.

Needs neardup_db, meson, ninja, cffi and ziglang (pip), and of Debian gcc, clang, libsqlite3-dev, gcc-aarch64-linux-gnu,
gcc-i686-linux-gnu, gcc-s390x-linux-gnu, gcc-mingw-w64-x86-64-win32, musl-tools, qemu-user and wine64.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from files import FILES, write

from neardup_db import Index

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WINE = ("/usr/lib/wine/wine64",)
QEMU_ARM = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
X86 = frozenset({"scalar", "avx2", "avx512"})
NEON = frozenset({"neon"})
SCALAR = frozenset({"scalar"})


@dataclass(frozen=True)
class Platform:
    """What a platform is built with, and how it runs."""

    name: str
    machine: str
    """Of each library, as `machine_of` tells it."""
    compiler: tuple[str, ...]
    """As the cross file has it: it builds a client of SQLite too."""
    tiers: frozenset[str]
    """Of kernels, that must be in the library."""
    runner: tuple[str, ...] | None = ()
    """Put before the name of a program; None: nothing runs it."""
    cross_file: str = ""
    """Without .ini; else it is the platform's name."""
    is_native: bool = False
    """What was built for this machine runs there."""
    sanitized: bool = False
    python_modules: bool = False
    suffix: str = "so"
    """Of the extension."""

    @property
    def windows(self) -> bool:
        return self.suffix == "dll"

    @property
    def extension(self) -> str:
        return f"neardup.{self.suffix}"

    def program(self, name: str) -> str:
        return f"{name}.exe" if self.windows else name


NATIVE = Platform("linux-x86_64", "ELF 64 little 62", ("gcc",), X86, is_native=True, python_modules=True)
PLATFORMS = [
    NATIVE,
    # Without AVX: an instruction of it, taken over from the CPU that builds, ends the process.
    Platform("linux-x86_64-old", "ELF 64 little 62", ("gcc",), X86, ("qemu-x86_64", "-cpu", "Nehalem"), is_native=True),
    Platform("linux-aarch64", "ELF 64 little 183", ("aarch64-linux-gnu-gcc",), NEON, QEMU_ARM, python_modules=True),
    Platform("linux-aarch64-sanitized", "ELF 64 little 183", (), NEON, QEMU_ARM, "linux-aarch64", sanitized=True),
    Platform("linux-musl", "ELF 64 little 62", ("musl-gcc",), X86, python_modules=True),
    Platform("linux-i686", "ELF 32 little 3", ("i686-linux-gnu-gcc",), SCALAR, ("qemu-i386", "-L", "/usr/i686-linux-gnu")),
    Platform("windows-mingw", "PE 8664", ("x86_64-w64-mingw32-gcc",), X86, WINE, suffix="dll"),
    Platform("macos-arm64", "Mach-O 100000c", (), NEON, None, python_modules=True, suffix="dylib"),
    Platform("macos-x86_64", "Mach-O 1000007", (), X86, None, python_modules=True, suffix="dylib"),
]


CLANG_CL = "windows-clang-cl"
REFUSALS = "refusals"

MUST_BE_REFUSED = {
    "big-endian": ["--cross-file", str(HERE / "linux-s390x.ini")],
    "sqlite3ext.h was not found": ["--cross-file", str(HERE / "windows-mingw.ini"), "-Dpython_modules=false"],
    "no C compiler was found": ["--native-file", str(HERE / "no-compiler.ini")],
}
"""What is told, and the options of meson with which it is."""


@dataclass
class Row:
    """What became of a platform."""

    platform: str
    built: bool | None = None
    linked: bool | None = None
    run: int = 0
    passed: int = 0
    problems: list[str] = field(default_factory=list)

    def count(self, what: str, passed: bool) -> None:
        self.run += 1
        self.passed += passed
        if not passed:
            self.problems.append(what)


def machine_of(library: Path) -> str:
    """What a library is made for, by its first bytes."""
    data = library.read_bytes()
    if data[:4] == b"\x7fELF":
        order = "<" if data[5] == 1 else ">"
        return f"ELF {32 * data[4]} {'little' if data[5] == 1 else 'big'} {struct.unpack_from(order + 'H', data, 18)[0]}"
    if data[:2] == b"MZ":
        return f"PE {struct.unpack_from('<H', data, struct.unpack_from('<I', data, 0x3C)[0] + 4)[0]:x}"
    return f"Mach-O {struct.unpack_from('<I', data, 4)[0]:x}"


def libraries_wanted(library: Path) -> set[str]:
    """The libraries that one for Windows needs, but for those that Windows has."""
    told = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    needed = {name.lower() for name in re.findall(r"DLL Name: (\S+)", told)}
    return {name for name in needed if not re.match(r"(kernel32|ntdll|msvcrt|api-ms-win-crt-.*)\.dll$", name)}


def aligned_moves(library: Path) -> list[str]:
    """Moves of wide registers to memory, or from it, which end the process where that is not aligned to their width."""
    told = subprocess.run(["objdump", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "vmovdqu" in told
    return re.findall(r"vmov(?:dqa|aps|apd)\S*\s[^\n]*\([^\n]*%[yz]mm\d+|vmov(?:dqa|aps|apd)\S*\s+%[yz]mm[^\n]*\(", told)


class Bench:
    """A folder in which all is built and tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sqlite = folder / "sqlite"
        self.files = folder / "files"
        self.environment = {
            **os.environ,
            "ASAN_OPTIONS": "detect_leaks=0",  # looked for on this machine: it needs ptrace, which qemu-user has not
            "WINEDEBUG": "-all",
            "WINEPREFIX": str(folder / "wine"),
            "ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"),
        }
        self.logs: dict[str, list[str]] = {}
        """Of each platform, the commands that failed."""
        self.expected: dict[str, str] = {}
        """What is printed on this machine, by what prints it."""

    def call(self, row: Row, *command: str | Path, where: Path | None = None) -> tuple[int, str]:
        """Exit status and output."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=where or self.folder,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        told = (done.stdout + done.stderr)[-4000:]
        failed = self.logs.setdefault(row.platform, [])
        if done.returncode != 0:
            failed.append(f"$ {' '.join(str(part) for part in command)}\n{told}\n(exit status {done.returncode})")
        return done.returncode, done.stdout

    def prepare(self) -> None:
        """SQLite's source, and the files that are asked everywhere."""
        self.sqlite.mkdir()
        self.files.mkdir()
        line = "#include <sqlite3ext.h>\n"
        found = subprocess.run(["gcc", "-E", "-"], input=line, stdout=subprocess.PIPE, text=True, check=True).stdout
        headers = Path(re.findall(r'"(.*)/sqlite3ext\.h"', found)[0])
        for name in ("sqlite3.h", "sqlite3ext.h"):  # alone: beside them are the headers of this system
            shutil.copy(headers / name, self.sqlite)
        fetch = f"{sys.executable} -m pip download -q --no-deps --no-binary :all: -r {HERE / 'sqlite.txt'} -d {self.sqlite}"
        subprocess.run(fetch.split(), check=True)
        with tarfile.open(next(self.sqlite.glob("*.tar.gz"))) as source:
            member = next(member for member in source if member.name.endswith("/sqlite3.c"))
            data = source.extractfile(member)
            assert data is not None
            (self.sqlite / "sqlite3.c").write_bytes(data.read())
        write(self.files)

    def build(self, platform: Platform, row: Row) -> None:
        """Everything that is run, in a folder of the platform's name."""
        folder = self.folder / platform.name
        options = [f"-Dsqlite_headers={self.sqlite}", f"-Dpython_modules={str(platform.python_modules).lower()}"]
        if not platform.is_native:
            options += ["--cross-file", str(HERE / f"{platform.cross_file or platform.name}.ini")]
        if platform.sanitized:
            options += ["-Db_sanitize=address,undefined", "-Db_lundef=false"]
        row.built = row.linked = False
        if self.call(row, "meson", "setup", *options, folder, ROOT)[0] != 0:
            row.problems.append("meson setup")
            return
        jobs = os.cpu_count() if platform is NATIVE else 1  # which is built alone; of the others several at a time
        status, told = self.call(row, "ninja", "-C", folder, "-j", str(jobs), "-k", "0", "all", "meson-test-prereq")
        row.built = not re.search(r"^FAILED: .*\.(o|obj)\b", told, re.MULTILINE)
        row.linked = status == 0
        if re.search(r"csrc/\S+ warning: (implicit )?conversion", told):
            row.problems.append("a conversion loses bits")
        if not row.linked:
            row.problems.append("ninja")
            return
        library = folder / platform.extension
        for built in (library, folder / platform.program("fingerprints"), *folder.glob("_*.so")):
            row.count(f"{built.name} is {machine_of(built)}", machine_of(built) == platform.machine)
        if platform.windows:
            row.count(f"needs {libraries_wanted(library)}", not libraries_wanted(library))
        if platform.name == "windows-mingw":
            aligned = aligned_moves(library)
            row.count(f"GCC takes the stack of Windows for aligned, and the assembler too: {aligned[:2]}", not aligned)
        absent = [tier for tier in platform.tiers if tier.encode() not in library.read_bytes()]
        row.count(f"without the kernels {absent}", not absent)
        if platform.runner is not None and not platform.sanitized:
            system = [] if platform.windows else ["-lpthread", "-ldl", "-lm"]
            made = folder / platform.program("query")
            sources = [HERE / "query.c", self.sqlite / "sqlite3.c"]
            if self.call(row, *platform.compiler, "-O0", "-w", f"-I{self.sqlite}", *sources, *system, "-o", made)[0] != 0:
                row.problems.append("the client of SQLite")
                row.linked = False

    def try_out(self, platform: Platform, row: Row) -> None:
        """Runs it, and counts."""
        folder = self.folder / (NATIVE if platform.is_native else platform).name
        place = self.folder / f"{platform.name}-tried"
        assert platform.runner is not None
        wrapper = ["--wrapper", " ".join(platform.runner)] if platform.is_native and platform.runner else []
        options = ["--num-processes", "1", "--timeout-multiplier", "20", "--print-errorlogs", "--logbase", platform.name]
        self.call(row, "meson", "test", "-C", folder, *options, *wrapper)
        (log,) = (folder / "meson-logs").glob(f"{platform.name}.json" if not wrapper else f"{platform.name}-qemu*.json")
        for line in log.read_text().splitlines():
            test = json.loads(line)
            row.count(f"test {test['name']}", test["result"] == "OK")

        status, lines = self.call(row, *platform.runner, folder / platform.program("fingerprints"))
        row.count("fingerprints", status == 0 and lines == self.expected.setdefault("fingerprints", lines))
        if platform.sanitized:
            return
        place.mkdir()
        shutil.copy(folder / platform.extension, place)
        for name in FILES:
            shutil.copy(self.files / f"{name}.db", place)
            shutil.copy(self.files / f"{name}.sql", place)
            query = (folder / platform.program("query"), f"./{platform.extension}", f"{name}.db", f"{name}.sql")
            status, lines = self.call(row, *platform.runner, *query, where=place)
            row.count(f"{name}.db", status == 0 and lines != "" and lines == self.expected.setdefault(name, lines))
            row.count(f"{name}.copy, written there", is_sound(place / f"{name}.copy"))

    def compile_by_clang_cl(self) -> Row:
        """The core and the extension as objects, which must have all kernels."""
        row = Row(CLANG_CL, built=True)
        folder = self.folder / CLANG_CL
        folder.mkdir()
        texts = (ROOT / "neardup_db" / "sql").glob("*.sql")
        self.call(row, sys.executable, ROOT / "csrc" / "sqlite" / "embed_sql.py", *texts, folder / "sql_texts.h")
        clang = ["clang", "--driver-mode=cl", "--target=x86_64-pc-windows-msvc", "/clang:-ffreestanding"]
        clang += ["/std:c11", "/O2", "/W3", "-WX", '-DND_PACKAGE_VERSION="x"', "/c", "-imsvc", str(HERE / "headers")]
        clang += [f"-I{folder}" for folder in (self.sqlite, folder, ROOT / "csrc")]
        for room in ("arrays", "hashes", "kernels", "text", "schemes", "joins", "sqlite"):
            (folder / room).mkdir()
            sources = sorted(ROOT.glob(f"csrc/{room}/*.c"))
            if self.call(row, *clang, *sources, f"/Fo{folder / room}/")[0] != 0:
                row.built = False
                row.problems.append(room)
        kernels = b"".join(made.read_bytes() for made in folder.glob("kernels/*.obj"))
        absent = [tier for tier in X86 if f"nd_kernels_{tier}".encode() not in kernels]
        row.count(f"without the kernels {absent}", not absent)
        return row

    def refuse(self) -> Row:
        """What cannot be built is refused with a sentence that says why."""
        row = Row(REFUSALS)
        for number, (sentence, options) in enumerate(MUST_BE_REFUSED.items()):
            status, told = self.call(row, "meson", "setup", *options, self.folder / f"{REFUSALS}-{number}", ROOT)
            row.count(sentence, status != 0 and sentence in told)
        return row

    def run(self, platform: Platform) -> Row:
        """Builds it, and tries it out where something runs it."""
        row = Row(platform.name)
        if platform is NATIVE or not platform.is_native:
            self.build(platform, row)
        if row.linked is not False and platform.runner is not None:
            self.try_out(platform, row)
        print(f"{row.platform}: {row.passed} of {row.run} passed", file=sys.stderr)
        return row


def is_sound(path: Path) -> bool:
    """Whether a file is an index with documents in which `check` finds nothing wrong."""
    if not path.exists():
        return False
    with Index(path) as index:
        return len(index) > 0 and index.check().ok


def main(names: Sequence[str]) -> int:
    """Print the table; 1 where something is wrong."""
    known = [*(platform.name for platform in PLATFORMS), CLANG_CL, REFUSALS]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no platform {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [platform for platform in PLATFORMS if platform.name in names or not names]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Wine may still write there
        bench = Bench(Path(folder))
        bench.prepare()
        rows = [bench.run(NATIVE)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            work = [pool.submit(bench.run, platform) for platform in chosen if platform is not NATIVE]
            work += [pool.submit(bench.compile_by_clang_cl)] if CLANG_CL in names or not names else []
            work += [pool.submit(bench.refuse)] if REFUSALS in names or not names else []
            rows += [row.result() for row in work]
        if any(platform.windows for platform in chosen):
            subprocess.run(["/usr/lib/wine/wineserver64", "-k"], env=bench.environment)
    for row in rows:
        if row.problems:
            print(*bench.logs[row.platform], f"{row.platform}: {', '.join(row.problems)}\n", sep="\n", file=sys.stderr)
    print(f"{'platform':<26}{'built':<8}{'linked':<8}{'tests run':>9}{'passed':>8}")
    yes = {True: "yes", False: "no", None: "-"}
    for row in rows:
        print(f"{row.platform:<26}{yes[row.built]:<8}{yes[row.linked]:<8}{row.run:>9}{row.passed:>8}")
    return 1 if any(row.problems for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
