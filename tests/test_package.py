"""What the package says of itself: one version, a changelog for programs too, papers that are cited, wheels that are whole."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import struct
import sys
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from package.wheel import MODULES, ROOT, problems, sources

import neardup_db

META = importlib.metadata.metadata("neardup-db")
VERSION = r"\d+\.\d+\.\d+(?:rc\d+)?"
HEADINGS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "File format"}


def read(name: str) -> str:
    """A text of the checkout."""
    return (ROOT / name).read_text("utf-8")


def test_there_is_one_version(db: apsw.Connection) -> None:
    """meson.build alone states it; the package, its metadata, the SQL extension, the changelog and the citation have the same."""
    (version,) = re.findall(rf"^  version: '({VERSION})',$", read("meson.build"), re.MULTILINE)
    assert neardup_db.__version__ == META["Version"] == db.execute("SELECT neardup_version()").get == version
    assert re.findall(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE) == [version]
    assert released()[0][0] == version
    assert not re.search(r"^version *=", read("pyproject.toml"), re.MULTILINE)


def released() -> list[tuple[str, str]]:
    """The versions in the changelog with their dates, the latest first."""
    return re.findall(rf"^## \[({VERSION})\] - (\d{{4}}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE)


def test_the_changelog_keeps_its_form() -> None:
    """Each version has a heading with its date, the latest first; below it are the headings of "Keep a Changelog"."""
    text = read("CHANGELOG.md")
    assert text.startswith("# Changelog\n")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[versions[0] == "[Unreleased]" :] == [f"[{version}] - {day}" for version, day in released()]
    days = [date.fromisoformat(day) for _, day in released()]
    assert days == sorted(days, reverse=True)
    assert sorted(released(), key=lambda one: [*map(int, re.findall(r"\d+", one[0]))], reverse=True) == released()
    for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", part, re.MULTILINE)
        assert {*kinds} <= HEADINGS and len({*kinds}) == len(kinds)


def test_the_citation_has_the_day_of_the_release() -> None:
    """CITATION.cff and the changelog date the version alike."""
    assert re.findall(r"^date-released: (.+)$", read("CITATION.cff"), re.MULTILINE) == [released()[0][1]]


def cited() -> set[tuple[str, str]]:
    """Family name of the first author and year of each reference in CITATION.cff."""
    references = read("CITATION.cff").partition("\nreferences:\n")[2].split("  - type: ")[1:]
    return {(re.findall(r"family-names: ([^,]+),", one)[0], re.findall(r"year: (\d+)", one)[0]) for one in references}


def test_the_papers_are_cited() -> None:
    """Every paper that ARCHITECTURE.md or the page of the file format names is in CITATION.cff, and each of these is named."""
    named = r"\b([A-Z]\w+)(?:, [A-Z]\w+)*(?: and (?:[A-Z]\w+ ?)+| et al\.)? (\d{4})\b"
    pages = " ".join((read("ARCHITECTURE.md") + read("docs/reference/format.md")).split())
    assert {(name, year) for name, year in re.findall(named, pages) if int(year) < 2020} <= cited()
    code = " ".join(path.read_text("utf-8") for path in sorted((ROOT / "csrc").rglob("*.c")) if "unicode" not in path.name)
    others = " ".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    everything = " ".join(f"{pages} {code} {others}".split())
    assert [one for one in cited() if not re.search(rf"\b{one[0]}\b[^;:]{{0,60}} {one[1]}\b", everything)] == []


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link of a page names a file that is there."""
    assert [link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(name)) if not (ROOT / link).exists()] == []


def test_pythons_are_the_same_everywhere() -> None:
    """The oldest Python of the metadata is the one that wheels are made with and the page on compatibility names."""
    (oldest,) = re.findall(r"^>=3\.(\d+)$", META["Requires-Python"])
    assert f'build = ["cp3{oldest}-*", ' in read("pyproject.toml")
    assert f"| CPython | 3.{oldest} and later," in read("docs/compatibility.md")
    assert f"Python 3.{oldest} or later" in read("CONTRIBUTING.md")


# ---- the build backend ------------------------------------------------------------------------------------------------


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The backend that pyproject.toml names, above a meson-python that returns the settings of a build."""
    hooks = ("build_editable", "build_sdist", "get_requires_for_build_sdist", "get_requires_for_build_wheel")
    mesonpy = SimpleNamespace(**dict.fromkeys(hooks), build_wheel=lambda directory, settings, metadata: settings)
    monkeypatch.setitem(sys.modules, "mesonpy", mesonpy)
    monkeypatch.syspath_prepend(ROOT / re.findall(r'^backend-path = \["(.+)"\]$', read("pyproject.toml"), re.MULTILINE)[0])
    (name,) = re.findall(r'^build-backend = "(\w+)"', read("pyproject.toml"), re.MULTILINE)
    yield importlib.import_module(name)
    del sys.modules[name]


def test_a_read_only_checkout_is_compiled_elsewhere(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel of a checkout that cannot be written is compiled in a temporary folder, unless a build folder is given."""
    monkeypatch.setattr(backend.os, "access", lambda path, mode: True)
    assert backend.build_wheel("out") == {}
    monkeypatch.setattr(backend.os, "access", lambda path, mode: False)
    assert not Path(backend.build_wheel("out")["build-dir"]).is_relative_to(ROOT)
    given = {"build-dir": "mine", "setup-args": "-Da=b"}
    assert backend.build_wheel("out", given) == given


def test_an_isolated_editable_install_is_refused(backend: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It would compile at import with build tools that are deleted; the error has the commands of CONTRIBUTING.md instead."""
    with pytest.raises(SystemExit):
        backend.get_requires_for_build_editable()
    told = [line.strip() for line in capsys.readouterr().err.splitlines() if line.startswith("    pip ")]
    assert len(told) == 2 and all(line in read("CONTRIBUTING.md").splitlines() for line in told)
    tools = re.findall(r'"([\w-]+)(?:>=[\d.]+)?"', re.findall(r"^requires = \[(.+)\]$", read("pyproject.toml"), re.MULTILINE)[0])
    assert all(tool in told[0] for tool in tools) and len(tools) == 4


# ---- wheels ------------------------------------------------------------------------------------------------------------


def elf(kind: int, machine: int) -> bytes:
    """The beginning of a binary of Linux."""
    return b"\x7fELF" + bytes([kind]) + bytes(13) + struct.pack("<H", machine)


X86, ARM, ARM_32 = elf(2, 62), elf(2, 183), elf(1, 40)


def wheel(folder: Path, tag: str, binary: bytes, more: dict[str, bytes] | None = None, less: str = "nothing") -> Path:
    """A wheel with the names of a real one."""
    contents = dict.fromkeys(sources(), b"") | {f"neardup_db/{name}.abi3.so": binary for name in MODULES}
    contents |= {"neardup_db/neardup.so": binary, "neardup_db-1.dist-info/METADATA": b""} | (more or {})
    path = folder / f"neardup_db-1-{tag}.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name in contents.keys() - {less}:
            file.writestr(name, contents[name])
    return path


def test_a_whole_wheel_has_no_problem(tmp_path: Path) -> None:
    """For both processors of Linux nothing is wrong with a wheel that has all files and no other."""
    assert problems(wheel(tmp_path, "cp310-abi3-manylinux_2_28_x86_64.manylinux_2_27_x86_64", X86)) == []
    assert problems(wheel(tmp_path, "cp310-abi3-musllinux_1_2_aarch64", ARM)) == []


@pytest.mark.parametrize(
    ("tag", "binary", "more", "less", "told"),
    [
        ("cp310-abi3-manylinux_2_28_aarch64", ARM_32, {}, "", "_core.abi3.so is for another processor"),
        ("cp310-abi3-manylinux_2_28_aarch64", X86, {}, "", "_core.abi3.so is for x86_64"),
        ("cp310-abi3-macosx_11_0_universal2", b"\xca\xfe\xba\xbe", {}, "", "a wheel for two processors"),
        ("cp310-cp310-manylinux_2_28_x86_64", X86, {}, "", "its ABI is cp310"),
        ("cp310-abi3-linux_x86_64", X86, {"neardup_db/_python.cpython-310.so": X86}, "neardup_db/_python.abi3.so", "stable ABI"),
        ("cp310-abi3-linux_x86_64", X86, {"tests/test_index.py": b""}, "", "tests/test_index.py has no business"),
        ("cp310-abi3-linux_x86_64", X86, {"neardup_db/core.c": b""}, "", "core.c has no business"),
        ("cp310-abi3-linux_x86_64", X86, {}, "neardup_db/sql/matches.sql", "matches.sql is missing"),
        ("cp310-abi3-linux_x86_64", X86, {}, "neardup_db/migrations/0002_index.sql", "0002_index.sql is missing"),
        ("cp310-abi3-linux_x86_64", X86, {}, "neardup_db/neardup.so", "its binaries are _core, "),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_a_wheel_that_would_fail_is_named(
    tmp_path: Path, tag: str, binary: bytes, more: dict[str, bytes], less: str, told: str
) -> None:
    """Binaries for another processor, several at once or another ABI, files too many and files too few."""
    assert any(told in problem for problem in problems(wheel(tmp_path, tag, binary, more, less)))
