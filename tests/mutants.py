"""Faults put into the sources one at a time, and which test notices: `python tests/mutants.py FOLDER [--first N] [--count K]`.

Run it on Linux with a Python that has what `pip install '.[dev]'` installs. FOLDER keeps a copy of the checkout, a build folder
and two environments, one with the fault. All 60 take an hour or so on two quiet processors; `--first 20 --count 5` tries 20
to 24. The seed and the sources alone decide about them: half are in Python, half in C; an operator is turned round, a number is
one larger, a statement is dropped or a condition is negated. What got away needs a test, or changes nothing that is promised.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BOTH_WAYS = (("<", "<="), (">", ">="), ("==", "!="), ("is", "is not"), ("in", "not in"), ("and", "or"), ("&&", "||"), ("+", "-"),
             ("&", "|"), ("<<", ">>"), ("+=", "-="), ("*", "//"))  # fmt: skip
TURNED = dict(BOTH_WAYS) | {new: old for old, new in BOTH_WAYS}
KINDS = ("turned", "number", "dropped", "negated")
LEFT_OUT = re.compile(
    r"neardup_db/(limits|system|__main__|_.*)\.py|neardup_db/(spark|demo)|"  # how work is cut; the platform; what needs Java
    r"csrc/kernels/(neon|cpu|dispatch)\.c|csrc/(python/system|sqlite/fork|text/unicode_data|text/stopwords)\.c"
)

FIRST = {
    "csrc/arrays": "c/core scheme_core join deduplicator", "cli": "cli cli_merge choices direct seams serve watch outcomes",
    "csrc/hashes": "c/core hash fingerprint scheme_core", "store/upkeep": "check window erasure rebuilt_elsewhere changes",
    "csrc/joins": "c/joins c/connect c/deduplicator join joins bucket_values deduplicator crowds join_large hot_buckets",
    "csrc/kernels": "c/kernels c/text_kernels kernels scheme_core join join_large text_tiers",
    "datasette": "datasette_page", "csrc/sqlite": "sql sql_index sql_search candidate_stream outlines many joins codes groups",
    "csrc/python": "questions many parallel_reads standard_connection texts one_statement", "store": "index adding",
    "csrc/schemes": "c/core c/nearest c/packing scheme_core fingerprint exact buckets candidates nearest allow", "tuning": "tune",
    "csrc/text": "c/text_kernels text_core text_rules unicode texts text_tiers", "aio": "aio aio_cancelled aio_ends",
    "neardup_db": "index adding opening text_rules tables arrow codes frames",
    "cli/inputs": "records text_inputs table_files dedup choices input_files binary_inputs",
    "compute": "compute deduplicator frames join schemes", "store/linking": "groups dismiss rejoin crowds ended_by_others",
    "schemes": "schemes scheme_core codes exact reference", "store/exchange": "merge fingerprint_files backup arrow files",
    "show": "report show_charts show_difference explain", "store/following": "follow follow_machine follow_histories",
    "store/asking": "index many nearest containment joins explain one_statement groups",
    "store/database": "opening remembered standard_connection log fork messages",
    "store/layout": "opening files migration sql_views check",
    "store/writing": "adding outcomes large_batches background parts direct",
}  # fmt: skip
"""Tests for each folder of sources, those of tests/c among them. What they miss is shown to all others, but for those below."""
NOT_THEN = """package readme docs understanding examples layers layers_c portable unicode text_core text_tiers join_large
large_texts processes crash power_loss concurrency long_life hostile_files hostile_input"""  # they take long, or look at no code
SECONDS = 900  # after which tests hang
C_STATEMENT = re.compile(r"\s+(?!return|goto|free|sqlite3_free|assert)([a-zA-Z_][\w>.\[\]*-]*(\(.*\)| [-+|&^*]?= .+|\+\+|--));")
C_CONDITION = re.compile(r"\s+(?:\} else )?(?:if|while) \((.*)\)(?: \{)?")
C_OPERATOR = re.compile(r" ([<>=!]=|<<|>>|[<>+&|-]|&&|\|\||[+-]=) ")
Edit = tuple[str, int, int, int, str]  # its kind; a line, and a piece of it by columns; what replaces this
Mutant = tuple[str, int, str, str]  # a file, a line of it, and that line as it is and as it becomes


def executed(node: ast.AST, inside: bool = False) -> Iterator[Any]:
    """What functions below a node run, without annotations, defaults, texts, what errors say, and branches that are not run."""
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if name in ("annotation", "returns", "decorator_list", "exc") or not isinstance(child, ast.AST):
                continue
            condition = ast.unparse(getattr(child, "test", ast.Pass()))
            if isinstance(child, (ast.JoinedStr, ast.arguments)) or re.search(
                "TYPE_CHECKING|IS_WINDOWS|platform|os.name|[(]os,", condition
            ):
                continue
            if inside:
                yield child
            yield from executed(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def python_edits(text: str) -> Iterator[Edit]:
    """Every fault that one line of a Python module can have."""
    lines = text.split("\n")
    for node in executed(ast.parse(text)):
        part = node.test if isinstance(node, (ast.If, ast.While, ast.IfExp)) else node
        row, start, end = getattr(part, "lineno", 0), getattr(part, "col_offset", 0), getattr(part, "end_col_offset", 0)
        if row == 0 or row != part.end_lineno or not lines[row - 1].isascii():
            continue
        line = lines[row - 1]
        if part is not node:
            yield "negated", row, start, end, f"(not ({line[start:end]}))"
        elif isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp)):
            sides: Any = next(getattr(node, name) for name in ("values", "comparators", "right") if hasattr(node, name))
            sides = sides if isinstance(node, ast.BoolOp) else [node.left, *(sides if isinstance(sides, list) else [sides])]
            found = re.compile(r"\)* (\S+(?: not| in)?) ").match(line, sides[0].end_col_offset, sides[1].col_offset)
            words = isinstance(node, ast.BinOp) and any(isinstance(getattr(side, "value", None), str) for side in sides)
            if found and found[1] in TURNED and not words:
                yield "turned", row, found.start(1), found.end(1), TURNED[found[1]]
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield "number", row, start, end, str(node.value + 1)
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await))):
            yield "dropped", row, start, end, "pass"


def c_edits(text: str) -> Iterator[Edit]:
    """Every fault that one line of a C file can have: lines within functions, outside of `#if`, comments and texts."""
    inside, hidden, before = False, 0, ""
    for row, line in enumerate(text.split("\n"), 1):
        hidden += line.startswith("#if") - line.startswith("#endif")
        inside = line == "{" or (inside and line != "}")
        complete = line.count("(") == line.count(")") and re.search(r"(^|[;{})]|else|\*/|:)$", before)
        before = line
        if not inside or hidden or re.search(r"\"|'|/\*|\*/|^ *[*#]|\\$|sizeof|assert", line):
            continue
        for found in C_OPERATOR.finditer(line):
            if found[1] in TURNED:
                yield "turned", row, found.start(1), found.end(1), TURNED[found[1]]
        for found in re.finditer(r"(?<![\w.[])\d+(?![\w.])", line):  # but for the size of an array
            yield "number", row, found.start(), found.end(), str(int(found[0]) + 1)
        if complete and (whole := C_STATEMENT.fullmatch(line)):
            yield "dropped", row, whole.start(1), whole.end(1), ""
        if complete and (whole := C_CONDITION.fullmatch(line)):
            yield "negated", row, whole.start(1), whole.end(1), f"!({whole[1]})"


def chosen(root: Path, seed: int, total: int = 60) -> list[Mutant]:
    """The mutants of a seed."""
    chance, mutants = random.Random(seed), list[Mutant]()
    for folder, suffix, edits in (("neardup_db", "py", python_edits), ("csrc", "c", c_edits)):
        paths = sorted(path.relative_to(root).as_posix() for path in (root / folder).rglob(f"*.{suffix}"))
        texts = {path: (root / path).read_text() for path in paths if not LEFT_OUT.match(path)}
        every = [(path, edit) for path, text in texts.items() for edit in edits(text)]
        kinds = {kind: [found for found in every if found[1][0] == kind] for kind in KINDS}
        for number in range(total // 2):
            path, (_, line, start, end, new) = chance.choice(kinds[KINDS[number % len(KINDS)]])
            old = texts[path].split("\n")[line - 1]
            mutants.append((path, line, old, old[:start] + new + old[end:]))
    return [mutant for pair in zip(mutants[: total // 2], mutants[total // 2 :], strict=True) for mutant in pair]


class Bench:
    """A copy of the checkout, a folder in which C is built, and two environments: `tried` with the fault, `whole` without."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.source, self.build, self.failing = folder, folder / "source", folder / "build", set[str]()
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        shutil.rmtree(self.source, ignore_errors=True)
        for path in subprocess.check_output(["git", "ls-files"], cwd=root, text=True).splitlines():
            (self.source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, self.source / path)
        (folder / "start.py").write_text("import pytest\n\nraise SystemExit(pytest.main())\n")  # the sources are not on its path
        self.sites = {name: self.environment(folder / name) for name in ("whole", "tried")}

    def environment(self, folder: Path) -> Path:
        """The site-packages of an environment with the package, which takes all else from those of this Python."""
        if not folder.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
        install = ["-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--force-reinstall"]
        command = [str(folder / "bin" / "python"), *install, f"-Cbuild-dir={self.build}", str(self.source)]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        return site

    def put(self, path: str, text: str) -> bool:
        """Writes a file of the copy and brings it into the environment `tried`; False if it does not compile."""
        (self.source / path).write_text(text)
        if path.endswith(".py"):
            shutil.copyfile(self.source / path, self.sites["tried"] / path)
            return True
        built = subprocess.run(["ninja", "-C", self.build], capture_output=True).returncode == 0
        for library in (self.sites["tried"] / "neardup_db").glob("*.so") if built else ():
            shutil.copyfile(self.build / library.name, library)
        return built

    def run(self, *command: str | Path) -> tuple[int | None, str]:
        """The exit code of a command, None if it does not end, and what it printed."""
        path, code = self.folder / "output.txt", None
        with open(path, "w") as out:
            limited = [
                "prlimit",
                f"--data={8 << 30}",
                f"--fsize={4 << 30}",
                *command,
            ]  # a fault may ask for all, or fill the disk
            process = subprocess.Popen(limited, cwd=self.source, stdout=out, stderr=out, start_new_session=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return code, path.read_text(errors="replace")

    def failed(self, name: str, *arguments: str) -> list[str]:
        """The tests that fail in an environment, or what else went wrong."""
        leave = [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in self.failing]
        options = ["-q", "-n", "2", "-p", "no:cacheprovider", "--no-header", *leave]
        code, output = self.run(self.folder / name / "bin" / "python", self.folder / "start.py", *options, *arguments)
        found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        other = [] if code in (0, 5) else [f"a test that {'hangs' if code is None else 'ends pytest'}: {output.strip()[-300:]}"]
        return found or other

    def caught(self, *arguments: str) -> str | None:
        """The first test that fails with the fault and passes without."""
        while tests := self.failed("tried", "-x", *arguments):
            if not tests[0].startswith("tests/") or not self.failed("whole", tests[0]):
                return tests[0]
            self.failing.update(tests[:1], self.failed("whole", tests[0].partition("::")[0]))
        return None

    def caught_by(self, mutant: Mutant) -> str | None:
        """What catches a mutant."""
        path, line, _, new = mutant
        whole = (self.source / path).read_text()
        lines = whole.split("\n")
        words = FIRST[path.rpartition("/")[0].removeprefix("neardup_db/").removesuffix("/standard")].split()
        first, in_c = [name for name in words if "/" not in name], [name[2:] for name in words if "/" in name]
        others = [f"--ignore=tests/test_{name}.py" for name in (*first, *NOT_THEN.split())]
        try:
            if not self.put(path, "\n".join([*lines[: line - 1], new, *lines[line:]])):
                return "the compiler"
            if in_c and self.run("meson", "test", "-C", self.build, *in_c)[0] != 0:
                return "tests/c"
            return self.caught(*(f"tests/test_{name}.py" for name in first)) or self.caught("tests", *others)
        finally:
            self.put(path, whole)


def main() -> None:
    """Tries mutants and prints what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    root, began, away = Path(__file__).resolve().parent.parent, time.monotonic(), 0
    mutants = list(enumerate(chosen(root, arguments.seed)))[arguments.first :][: arguments.count]
    bench = Bench(root, arguments.folder.resolve())
    for number, mutant in mutants:
        shown = f"{mutant[0]}:{mutant[1]} {mutant[2].strip()} -> {mutant[3].strip()}"
        print(number, shown, flush=True)
        away += (test := bench.caught_by(mutant)) is None
        print(f"    {f'caught by {test}' if test else f'GOT AWAY {shown}'} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{len(mutants)} mutants, {away} got away")


if __name__ == "__main__":
    main()
