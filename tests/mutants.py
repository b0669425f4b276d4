"""Faults put into the sources one at a time, and which test notices: `python tests/mutants.py FOLDER [--seed S] [--count N]`.

Run it on Linux with a Python that has what `pip install '.[dev]'` installs. FOLDER keeps a copy of the checkout, a build folder
and an environment. A fault is a change of one line: a comparison at its other border or turned round, a number one higher, a
condition negated, a call left out, `and` for `or`, in C also minus for plus. Half are in Python, half in C, of each kind as many.

Of all faults those are tried whose hashes, with the seed, are the smallest. A hash depends on the line and the name of its file
only, so two versions of the sources (`--source` names another checkout) share most of their faults. Only the tests of the
fault's room are run, with `--more` too if none fails. A fault that gets away needs a test, or changes no answer. 60 faults take
about an hour on two processors.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOMS = {
    "neardup_db/cli/inputs": "files text_inputs choices table_files hostile_input input_files",
    "neardup_db/cli/tune.py": "tune cli",
    "neardup_db/cli": "cli cli_commands cli_dedup choices outcomes cli_merge sessions decontaminate",
    "neardup_db/datasette": "datasette_page serve",
    "neardup_db/aio": "aio aio_loads aio_cancelled aio_ends",
    "neardup_db/tuning": "tune",
    "neardup_db/comparing.py": "decontaminate common_passages passages compute nearest explain containing_pairs",
    "neardup_db/frames.py": "frames dedup deduplicator",
    "neardup_db/duplicates.py": "frames dedup choices",
    "neardup_db/store/maintenance": "check whole_index hostile_files rebuilt_elsewhere backup differential",
    "neardup_db/store/transfer": "merge fingerprint_files cli_merge differential",
    "neardup_db/store/following": "follow follow_keys follow_changes follow_histories",
    "neardup_db/store/ingest": "adding index parts window arrow outcomes background codes large_batches differential",
    "neardup_db/store/clustering": "index groups rejoin crowds dismiss allow changes codes parts check differential",
    "neardup_db/store/query": "index groups parts many joins nearest passages explain containment dismiss window differential",
    "neardup_db/store/layout": "opening settings whole_index choices groups candidates check buckets parts rebuilt_elsewhere "
    "differential",
    "neardup_db/store": "whole_index opening opening_paths robustness autocommit standard_connection interrupts faults fork "
    "checksums log parallel_reads questions concurrency ended_by_others differential",
    "neardup_db/schemes": "schemes settings wrong_arguments scheme_core compute exact passages fingerprint containment",
    "neardup_db/compute": "compute wrong_arguments schemes join fingerprint nearest",
    "neardup_db": "index adding arrow texts binary_inputs records tables compute questions text_rules groups moments codes "
    "whole_index opening read_only_and_closed wrong_arguments messages field_names many joins window differential",
    "csrc/text": "c text_core text_tiers unicode passages texts",
    "csrc/hashes": "c hash fingerprint compute text_core",
    "csrc/kernels": "c kernels text_tiers scheme_core buckets join_large",
    "csrc/schemes": "c scheme_core buckets exact passages texts candidates fingerprint sql index differential",
    "csrc/joins": "c join joins many join_large deduplicator dedup crowds hot_buckets frames",
    "csrc/sqlite": "sql sql_index sql_search buckets bucket_values candidate_stream outlines joins index hostile_files "
    "differential",
    "csrc/python": "texts arrow text_tiers questions interrupts sqlite_interrupts standard_connection standard_processes index",
    "csrc": "c scheme_core text_core index differential",
}
"""The tests of a room, those that notice most first; c: those of tests/c. The longest name that a path begins with counts."""

LEFT_OUT = re.compile(r"unicode_data|limits|neardup_db/(spark|demo|show)|_windows|generate|/out_of_reach/|build\.py")
"""Files without a test here, generated ones, what is drawn, and the numbers that cut work."""

BORDERS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "in": "not in"}
KINDS = {
    ".py": ["border", "number", "condition", "call", "boolean"],
    ".c": ["border", "number", "condition", "call", "boolean", "sign"],
}


@dataclass(frozen=True)
class Fault:
    """A line of a file that is another one."""

    path: str
    kind: str
    line: int
    old: str
    new: str

    def text(self) -> str:
        """What does not change when files move and lines come before it."""
        return f"{Path(self.path).name}|{self.kind}|{self.old.strip()}|{self.new.strip()}"

    def rank(self, seed: int) -> bytes:
        """Where it stands among all."""
        return hashlib.sha256(f"{seed}|{self.text()}".encode()).digest()


# ---- where faults can be -----------------------------------------------------------------------------------------------------


def in_python(path: str, text: str) -> Iterator[Fault]:
    """Faults of functions, but for what only makes messages."""
    lines = text.splitlines()

    def fault(kind: str, node: ast.AST, start: int, end: int, new: str) -> Fault:
        old = lines[node.lineno - 1]  # type: ignore[attr-defined]
        cut = old.encode()
        return Fault(path, kind, node.lineno, old, (cut[:start] + new.encode() + cut[end:]).decode())  # type: ignore[attr-defined]

    def between(kind: str, before: ast.expr, after: ast.expr, words: dict[str, str]) -> Iterator[Fault]:
        assert before.end_col_offset is not None
        found = lines[before.lineno - 1].encode()[before.end_col_offset : after.col_offset].decode()
        word = found.strip(" ()")
        if before.end_lineno == after.lineno == before.lineno and word in words:
            yield fault(kind, before, before.end_col_offset, after.col_offset, found.replace(word, words[word], 1))

    def of_node(node: ast.AST) -> Iterator[Fault]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between("border", node.left, node.comparators[0], BORDERS)
        elif isinstance(node, ast.BoolOp):
            yield from between("boolean", node.values[0], node.values[1], {"and": "or", "or": "and"})
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield fault("number", node, node.col_offset, node.end_col_offset or 0, str(node.value + 1))
        elif isinstance(node, ast.If | ast.IfExp | ast.While) and node.test.lineno == node.test.end_lineno:
            test = node.test
            yield fault("condition", test, test.col_offset, test.end_col_offset or 0, f"(not ({ast.unparse(test)}))")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.lineno == node.end_lineno:
            yield fault("call", node, node.col_offset, node.end_col_offset or 0, "pass")

    def walk(node: ast.AST, inside: bool) -> Iterator[Fault]:
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.arguments):
            return
        if inside:
            yield from of_node(node)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    yield from walk(ast.parse(text), False)


C_PATTERNS = {
    "border": (re.compile(r" (==|!=|<=|>=|<|>) "), lambda found: f" {BORDERS[found[1]]} "),
    "number": (re.compile(r"(?<![\w.])(\d+)(?![\w.])"), lambda found: str(int(found[1]) + 1)),
    "condition": (re.compile(r"\bif \((.+)\)( \{| \w.*;)$"), lambda found: f"if (!({found[1]})){found[2]}"),
    "call": (re.compile(r"^(\s+)(?!.*free\()[\w>.-]+\(.*\);$"), lambda found: f"{found[1]};"),
    "boolean": (re.compile(r" (&&|\|\|) "), lambda found: " || " if found[1] == "&&" else " && "),
    "sign": (re.compile(r" ([+-])(=?) "), lambda found: f" {'-' if found[1] == '+' else '+'}{found[2]} "),
}


def in_c(path: str, text: str) -> Iterator[Fault]:
    """Faults of lines within functions, but for comments and what is for the preprocessor."""
    code = re.sub(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", lambda found: re.sub(r"[^\n]", "\0", found[0]), text, flags=re.DOTALL)
    for number, (line, old) in enumerate(zip(code.splitlines(), text.splitlines(), strict=True), 1):
        if not line.startswith("    ") or line.rstrip().endswith("\\") or "static_assert" in line:
            continue
        for kind, (pattern, replaced) in C_PATTERNS.items():
            for found in pattern.finditer(line.rstrip(" \0")):
                new = old[: found.start()] + replaced(found).replace("\0", "") + old[found.end() :]
                if "\0" not in found[0]:
                    yield Fault(path, kind, number, old, new)


def choose(source: Path, seed: int, count: int) -> list[Fault]:
    """More of each kind and language than are tried, for some do not compile; by turns, in the order of their ranks."""
    tracked = subprocess.check_output(["git", "ls-files", "neardup_db", "csrc"], cwd=source, text=True).splitlines()
    found: dict[tuple[str, str], dict[str, Fault]] = {(end, kind): {} for end, kinds in KINDS.items() for kind in kinds}
    for path in tracked:
        end = Path(path).suffix
        if end in KINDS and not LEFT_OUT.search(path):
            for fault in (in_python if end == ".py" else in_c)(path, (source / path).read_text("utf-8")):
                found[end, fault.kind].setdefault(fault.text(), fault)  # the first of equal lines
    ranked = [sorted(faults.values(), key=lambda fault: fault.rank(seed)) for faults in found.values()]
    return [faults[turn] for turn in range(count) for faults in ranked if turn < len(faults)]


# ---- trying them ---------------------------------------------------------------------------------------------------------------


class Bench:
    """A copy of the checkout, a folder in which C is built, and an environment with the package."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.source, self.build = folder, folder / "source", folder / "build"
        self.unsound: list[str] = []
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        shutil.rmtree(self.source, ignore_errors=True)
        for path in subprocess.check_output(["git", "ls-files"], cwd=root, text=True).splitlines():
            (self.source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, self.source / path)
        (folder / "start.py").write_text("import pytest\n\nraise SystemExit(pytest.main())\n")  # the sources are not on its path
        self.python = folder / "env" / "bin" / "python"
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        (self.site,) = folder.glob("env/lib/python*/site-packages")
        (self.site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
        install = ["-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--force-reinstall"]
        command = [self.python, *install, f"-Cbuild-dir={self.build}", self.source]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    def put(self, path: str, text: str) -> bool:
        """Writes a file of the copy and brings it into the environment; False if it does not compile."""
        (self.source / path).write_text(text)
        if path.endswith(".py"):
            shutil.copyfile(self.source / path, self.site / path)
            return True
        built = subprocess.run(["ninja", "-C", self.build], capture_output=True).returncode == 0
        for library in (self.site / "neardup_db").glob("*.so") if built else ():
            library.unlink()
            shutil.copyfile(self.build / library.name, library)
        return built

    def failed(self, tests: list[str]) -> str | None:
        """The first test that fails, or what else went wrong."""
        if "c" in tests and self.run("meson", "test", "-t", "10", "-C", self.build)[0] != 0:
            return "tests/c"
        paths = [path for name in tests if (self.source / (path := f"tests/test_{name}.py")).exists()]
        return self.pytest(paths) or self.pytest(paths, "--more", "-m", "rounds")

    def pytest(self, paths: list[str], *more: str) -> str | None:
        """The first test of these that fails, but for those that fail here without a fault."""
        limited = ["prlimit", f"--data={8 << 30}", f"--fsize={4 << 30}"]  # a fault may ask for all, or fill the disk
        options = ["-xq", "-n", "0", "-p", "no:cacheprovider", "--no-header", *(f"--deselect={name}" for name in self.unsound)]
        code, told = self.run(*limited, self.python, self.folder / "start.py", *options, *more, *paths)
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", told, re.MULTILINE)
        return found[1] if found else None if code in (0, 5) else told.strip()[-200:] or "a test that ends pytest"

    def run(self, *command: str | Path) -> tuple[int, str]:
        """Exit code and output of a program, which is ended after ten minutes with all that it has started."""
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        begun = subprocess.Popen(command, cwd=self.source, stdin=subprocess.DEVNULL, start_new_session=True, **output)  # type: ignore[call-overload]
        try:
            told = begun.communicate(timeout=600)[0]
        except subprocess.TimeoutExpired:
            os.killpg(begun.pid, signal.SIGKILL)
            begun.communicate()
            return 1, "a test that hangs"
        return begun.returncode, told

    def tried(self, fault: Fault) -> str | None:
        """What notices a fault: the name of a test, or nothing; "" if it does not compile."""
        whole = (self.source / fault.path).read_text("utf-8")
        lines = whole.split("\n")
        assert lines[fault.line - 1] == fault.old
        lines[fault.line - 1] = fault.new
        room = max((name for name in ROOMS if fault.path.startswith(name)), key=len)
        while True:
            compiled = self.put(fault.path, "\n".join(lines))
            found = self.failed(ROOMS[room].split()) if compiled else ""
            self.put(fault.path, whole)
            if not found or "::" not in found or self.pytest([found], "--more") is None:
                return found
            self.unsound.append(found)


def main() -> None:
    """Tries faults and prints what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    source = arguments.source.resolve()
    bench, began = Bench(source, arguments.folder.resolve()), time.monotonic()
    left = {(end, kind): arguments.count // 2 // len(kinds) for end, kinds in KINDS.items() for kind in kinds}
    away: list[Fault] = []
    for fault in choose(source, arguments.seed, arguments.count):
        of = Path(fault.path).suffix, fault.kind
        if left[of] == 0 or (test := bench.tried(fault)) == "":
            continue
        left[of] -= 1
        away += [fault] if test is None else []
        print(f"{fault.path}:{fault.line}: {fault.kind}\n  - {fault.old.strip()}\n  + {fault.new.strip()}")
        print(f"  {f'caught by {test}' if test else 'GOT AWAY'} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{arguments.count - sum(left.values())} faults, {len(away)} got away")
    raise SystemExit(bool(away))


if __name__ == "__main__":
    main()
