"""What the binaries of a wheel need of the system that loads them: `python tests/package/binaries.py WHEEL...`; needs lief (pip)

Each loads where the tag of the wheel says, with the Python that is there: it needs no library, no version of glibc or macOS and
no name beyond these, changes no code while it is loaded, and says nothing of the machine that built it.
"""

from __future__ import annotations

import hashlib
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import lief

GLIBC = re.compile(r"(lib(c|m|pthread|dl|rt)\.so\.\d|ld-linux-(x86-64|aarch64)\.so\.\d)$")
MUSL = re.compile(r"libc\.(so|musl-(x86_64|aarch64)\.so\.1)$")
MACOS = re.compile(r"/usr/lib/libSystem\.B\.dylib$")
WINDOWS = re.compile(r"(kernel32|ntdll|msvcrt|vcruntime140|api-ms-win-crt-.*|python3)\.dll$", re.IGNORECASE)
"""Libraries that are there: with python3.dll, a module is for all Pythons; python312.dll would be for one."""

BUILD_PATHS = re.compile(rb"[\w./-]*/(?:tmp|root|home|Users|private|project)/[\w./-]*|[A-Z]:\\(?:[\w.~ -]+\\){2}[\w.-]*")

UNDEFINED = 0
"""The section, as Linux numbers it, of a name that another library has."""

DYNAMIC_LOOKUP = (0, -2)
"""As macOS numbers what is no library's, but comes from the program that loads: here the names of Python."""

CODE_DIRECTORY = 0xFADE0C02
SIGNATURE = 0xFADE0CC0
SHA256 = 2


def problems(path: Path) -> list[str]:
    """What is wrong with the binaries of a wheel; a list that should be empty."""
    tags = path.stem.split("-")[4].split(".")
    found = []
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.endswith((".so", ".dylib", ".pyd", ".dll")):
                data = wheel.read(name)
                found += [f"{name} {problem}" for problem in problems_of(data, tags)]
    return found


def problems_of(data: bytes, tags: list[str]) -> Iterator[str]:
    """What is wrong with a binary in a wheel with these tags of platforms."""
    yield from (f"has the path {path.decode()}" for path in dict.fromkeys(BUILD_PATHS.findall(data)))
    binary = lief.parse(data)
    if isinstance(binary, lief.ELF.Binary):
        yield from _of_linux(binary, tags)
    elif isinstance(binary, lief.MachO.Binary):
        yield from _of_macos(binary, data, tags)
    elif isinstance(binary, lief.PE.Binary):
        yield from _strange((library.name for library in binary.imports), WINDOWS)
    else:
        yield "is no binary of Linux, macOS or Windows"


def _of_linux(binary: lief.ELF.Binary, tags: list[str]) -> Iterator[str]:
    musl = any(tag.startswith("musllinux") for tag in tags)
    yield from _strange(map(str, binary.libraries), MUSL if musl else GLIBC)
    known = {entry.tag: entry for entry in binary.dynamic_entries}
    flags = known.get(lief.ELF.DynamicEntry.TAG.FLAGS)
    if lief.ELF.DynamicEntry.TAG.TEXTREL in known or (flags is not None and flags.value & 4):
        yield "is changed in its code while it is loaded (text relocations)"
    if known.keys() & {lief.ELF.DynamicEntry.TAG.RPATH, lief.ELF.DynamicEntry.TAG.RUNPATH}:
        yield "looks for libraries in a folder of its own"
    if not binary.has_nx:
        yield "wants a stack that can be run"
    newest = min(version_in(tag) for tag in tags)
    for symbol in binary.dynamic_symbols:
        if symbol.shndx != UNDEFINED or not symbol.name or symbol.binding == lief.ELF.Symbol.BINDING.WEAK:
            continue
        version = symbol.symbol_version if symbol.has_version else None
        needed = version.symbol_version_auxiliary.name if version is not None and version.has_auxiliary_version else ""
        if needed.startswith("GLIBC_"):
            if musl or tuple(map(int, needed[6:].split("."))) > newest:
                yield f"needs {symbol.name} of {needed}"
        elif not musl and not is_of_python(str(symbol.name)):
            yield f"needs {symbol.name} of no library"


def _of_macos(binary: lief.MachO.Binary, data: bytes, tags: list[str]) -> Iterator[str]:
    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    yield from _strange((str(library.name) for library in binary.libraries if library.command != own), MACOS)
    for library in binary.libraries:
        if library.command == own and "/" in str(library.name).removeprefix("@rpath/"):
            yield f"has the install name {library.name}"
    if any(binary.rpaths):
        yield "looks for libraries in a folder of its own"
    oldest = tuple(binary.build_version.minos if binary.has_build_version else binary.version_min.version)[:2]
    if any(oldest > version_in(tag) for tag in tags):
        yield f"needs macOS {oldest[0]}.{oldest[1]}"
    for symbol in binary.imported_symbols:
        if symbol.library_ordinal in DYNAMIC_LOOKUP and not is_of_python(str(symbol.name).removeprefix("_")):
            yield f"needs {symbol.name} of no library"
    if binary.has_code_signature:
        begin, size = binary.code_signature.data_offset, binary.code_signature.data_size
        if not is_signed(data, data[begin : begin + size]):
            yield "was changed after it was signed: macOS would end the process"
    elif binary.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64:
        yield "is not signed: macOS on ARM would end the process"


def is_signed(data: bytes, signature: bytes) -> bool:
    """Whether a signature of macOS is of these bytes: it has SHA-256 of each page before itself."""
    magic, _, count = struct.unpack_from(">3I", signature)
    places = [struct.unpack_from(">2I", signature, 12 + 8 * i)[1] for i in range(count)] if magic == SIGNATURE else []
    directories = [signature[place:] for place in places if struct.unpack_from(">I", signature, place)[0] == CODE_DIRECTORY]
    wanted = [directory for directory in directories if directory[37] == SHA256]  # older systems have SHA-1 beside it
    return bool(wanted) and all(_has_hashes(data, directory) for directory in wanted)


def _has_hashes(data: bytes, directory: bytes) -> bool:
    (place,) = struct.unpack_from(">I", directory, 16)
    count, limit = struct.unpack_from(">2I", directory, 28)
    page = 1 << directory[39]
    hashes = [hashlib.sha256(data[i : min(i + page, limit)]).digest() for i in range(0, limit, page)]
    return count == len(hashes) and directory[place:].startswith(b"".join(hashes))


def _strange(libraries: Iterator[str], known: re.Pattern[str]) -> Iterator[str]:
    return (f"needs {library}" for library in libraries if not known.match(library))


def is_of_python(name: str) -> bool:
    """Whether a name is one of Python; abi3audit looks whether it is of the stable ABI."""
    return name.startswith(("Py", "_Py"))


def version_in(tag: str) -> tuple[int, int]:
    """The oldest version of glibc, musl or macOS that a tag names; a tag without one is of this machine, and takes any."""
    found = re.match(r"(?:manylinux|musllinux|macosx)_(\d+)_(\d+)_", tag)
    if found is None:
        return {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}.get(tag.partition("_")[0], (9999, 0))
    return int(found[1]), int(found[2])


def main() -> int:
    """Names what is wrong; 1 if anything is."""
    lief.logging.disable()  # it tells of what it tried
    wrong = [f"{path}: {problem}" for path in map(Path, sys.argv[1:]) for problem in problems(path)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(sys.argv) - 1} wheels, {len(wrong)} problems in their binaries")
    return 1 if wrong or len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
