"""Binaries that must not be in a wheel, made by Zig: `pytest tests/package/bad_binaries.py`; needs lief and ziglang (pip)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import lief
import pytest
from package.binaries import problems_of

GOOD = "int Py_IsInitialized(void); int one(void) { return 1 + Py_IsInitialized(); }"
LINUX = "aarch64-linux-gnu.2.17"
NEWER = "aarch64-linux-gnu.2.38"
MACOS = "aarch64-macos.11.0"
MANYLINUX = "manylinux_2_17_aarch64"
MAC_TAG = "macosx_11_0_arm64"
LOOKUP = "-Wl,-undefined,dynamic_lookup"


def build(folder: Path, code: str, target: str, *options: str) -> bytes:
    """A library of this code."""
    (folder / "code.c").write_text(code)
    made = ["-shared", "-O2", "-s", "-w", *options, "code.c", "-o", "library.so"]
    subprocess.run(["python-zig", "cc", "-target", target, *made], cwd=folder, check=True)
    return (folder / "library.so").read_bytes()


@pytest.mark.parametrize(("target", "tag", "options"), [(LINUX, MANYLINUX, []), (MACOS, MAC_TAG, [LOOKUP])])
def test_a_sound_binary_has_no_problem(tmp_path: Path, target: str, tag: str, options: list[str]) -> None:
    """A name of Python, which no library has, is in order; so is the signature that the linker gives for macOS."""
    assert list(problems_of(build(tmp_path, GOOD, target, *options), [tag])) == []


@pytest.mark.parametrize(
    ("told", "code", "target", "options", "tag"),
    [
        ("text relocations", '__asm__(".text\\n.quad one");' + GOOD, LINUX, ["-Wl,-z,notext"], MANYLINUX),
        ("folder of its own", GOOD, LINUX, ["-Wl,-rpath,/opt/lib"], MANYLINUX),
        ("needs strlcpy of GLIBC_2.38", "int strlcpy(); int one() { return strlcpy(); }", NEWER, [], MANYLINUX),
        ("needs nobody of no library", "int nobody(); int one() { return nobody(); }", LINUX, [], MANYLINUX),
        ("needs libc.so.6", "int puts(); int one() { return puts(); }", LINUX, [], "musllinux_1_2_aarch64"),
        ("has the path /home/me/x.c", 'const char *where = "/home/me/x.c";', LINUX, [], MANYLINUX),
        ("needs macOS 12.0", GOOD, "aarch64-macos.12.0", [LOOKUP], MAC_TAG),
        ("install name /opt/x.dylib", GOOD, MACOS, [LOOKUP, "-Wl,-install_name,/opt/x.dylib"], MAC_TAG),
        ("needs _nobody of no library", "int nobody(); int one() { return nobody(); }", MACOS, [LOOKUP], MAC_TAG),
    ],
)
def test_a_binary_that_would_fail_is_named(
    tmp_path: Path, told: str, code: str, target: str, options: list[str], tag: str
) -> None:
    """What is changed while it is loaded, what is too new, what is not there, and what tells where it was built."""
    assert any(told in problem for problem in problems_of(build(tmp_path, code, target, *options), [tag]))


def test_a_module_for_one_python_is_named(tmp_path: Path) -> None:
    """On Windows a module for all Pythons takes their names from python3.dll, not from the library of one of them."""
    (tmp_path / "python.def").write_text("LIBRARY python310.dll\nEXPORTS\nPy_IsInitialized\n")
    subprocess.run(
        ["python-zig", "dlltool", "-m", "i386:x86-64", "-d", "python.def", "-l", "libpython.a"], cwd=tmp_path, check=True
    )
    code = "__declspec(dllimport) int Py_IsInitialized(void); int DllMainCRTStartup(void) { return Py_IsInitialized(); }"
    library = build(tmp_path, code, "x86_64-windows-gnu", "-nostdlib", "-L.", "-lpython")
    assert list(problems_of(library, ["win_amd64"])) == ["needs python310.dll"]


def test_a_stack_that_can_be_run_is_named(tmp_path: Path) -> None:
    """A library that wants it makes the stack of the whole process so, or is refused."""
    binary = lief.parse(build(tmp_path, GOOD, LINUX))
    assert isinstance(binary, lief.ELF.Binary)
    (stack,) = [segment for segment in binary.segments if segment.type == lief.ELF.Segment.TYPE.GNU_STACK]
    stack.add(lief.ELF.Segment.FLAGS.X)
    assert any("stack that can be run" in problem for problem in problems_of(binary.write_to_bytes(), [MANYLINUX]))


def test_a_signature_is_of_the_bytes(tmp_path: Path) -> None:
    """macOS on ARM ends a process that loads a library without a signature, or one changed after it was signed."""
    signed = build(tmp_path, 'const char *text = "here";' + GOOD, MACOS, LOOKUP)
    (changed,) = problems_of(signed.replace(b"here", b"HERE"), [MAC_TAG])
    assert "changed after it was signed" in changed
    binary = lief.parse(signed)
    assert isinstance(binary, lief.MachO.Binary) and binary.remove_signature()
    binary.write(str(tmp_path / "unsigned"))
    (unsigned,) = problems_of((tmp_path / "unsigned").read_bytes(), [MAC_TAG])
    assert "is not signed" in unsigned
