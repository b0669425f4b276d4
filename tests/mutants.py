"""Faults put into the sources one at a time, and which test notices: `python tests/mutants.py FOLDER [--first N] [--count K]`.

Run it on Linux with a Python that has what `pip install '.[dev]'` installs. FOLDER keeps a copy of the checkout, a build folder
and an environment. All take about 15 minutes on two quiet processors; `--first 20 --count 5` tries 20 to 24. A fault that gets
away needs a test. A piece that is no longer in its file needs another of its kind.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

Fault = tuple[str, str, str, str]
"""A file, a piece of it that stands there once, what replaces it, and the test files that must notice."""

FAULTS: list[Fault] = [
    ("neardup_db/store/asking/search.py",
     "> best[row.id].similarity", "< best[row.id].similarity", "parts window index differential"),
    ("neardup_db/store/asking/joins.py", "if row[1] > last_id", "if row[1] < last_id", "joins differential"),
    ("neardup_db/store/asking/joins.py", "range(0, len(ids", "range(1, len(ids", "joins differential"),
    ("neardup_db/store/asking/parts.py", "best[1:]", "best[2:]", "parts"),
    ("neardup_db/store/asking/many.py", "range(count // 2))", "range(count // 3))", "many"),
    ("neardup_db/store/linking/clusters.py", "is not None}", "is None}", "index differential"),
    ("neardup_db/store/linking/clusters.py",
     "labels if label >= ALONE]", "labels if label > ALONE + 1]", "index groups differential"),
    ("neardup_db/store/linking/edges.py", "0 if", "1 if", "index codes differential"),
    ("neardup_db/store/linking/rejoining.py", "part != self.rest for", "part == self.rest for", "rejoin differential"),
    ("neardup_db/store/writing/writer.py", "!= removed]", "== removed]", "parts"),
    ("neardup_db/store/writing/columns.py",
     "is None else columns[self._group].values(start", "is not None else columns[self._group].values(start", "arrow"),
    ("neardup_db/store/writing/stored.py", "if not np.array_equal(joined.hashes(", "if np.array_equal(joined.hashes(", "merge"),
    ("neardup_db/store/upkeep/check.py", "row[2] != value]", "row[2] == value]", "check"),
    ("neardup_db/store/asking/search.py", "if not dismissed:", "if dismissed:", "dismiss"),
    ("neardup_db/store/linking/changes.py",
     "for row in existing_changes if row[5] is not None", "for row in existing_changes if row[5] is None", "changes"),
    ("neardup_db/store/database/errors.py",
     "if isinstance(error, apsw.ReadOnlyError)", "if not isinstance(error, apsw.ReadOnlyError)", "opening index"),
    ("neardup_db/store/following/sync_transaction.py", "row.key is None or", "row.key is not None or", "follow_histories follow"),
    ("csrc/schemes/banding.c", "value = 1;", "value = 2;", "c/core scheme_core buckets"),
    ("csrc/schemes/filing.c", "+= starts[i]", "-= starts[i]", "c/core index adding"),
    ("csrc/schemes/keys.c", "size))", "size) - 1)", "exact buckets"),
    ("csrc/schemes/entries.c", "!= 0 ||", "!= 1 ||", "c/packing sql index"),
    ("csrc/schemes/packing.c", "last < 0)", "last >= 0)", "c/packing index adding"),
    ("csrc/joins/bucket_pairs.c", "!= y->other", "== y->other", "c/joins joins many"),
    ("csrc/joins/bucket_values.c",
     "== nd_components_find(components", "!= nd_components_find(components", "c/connect crowds adding bucket_values"),
    ("csrc/joins/dedup_kept.c", "? 0", "? 1", "c/deduplicator deduplicator"),
    ("csrc/schemes/values.c", "= token_count;", "= token_count + 1;", "index adding texts"),
    ("csrc/joins/bucket_values.c", "== 0 ? ND_ERROR_DAMAGED", "== 1 ? ND_ERROR_DAMAGED", "bucket_values crowds joins"),
    ("csrc/joins/components.c", "[i].member != EMPTY)", "[i].member == EMPTY)", "c/connect crowds index"),
]  # fmt: skip


class Bench:
    """A copy of the checkout, a folder in which C is built, and an environment with the package."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.source, self.build = folder, folder / "source", folder / "build"
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

    def failed(self, tests: str) -> str | None:
        """The first test that fails, or what else went wrong."""
        in_c = [name[2:] for name in tests.split() if name.startswith("c/")]
        paths = [f"tests/test_{name}.py" for name in tests.split() if "/" not in name]
        if in_c and subprocess.run(["meson", "test", "-C", self.build, *in_c], capture_output=True).returncode != 0:
            return "tests/c"
        limited = ["prlimit", f"--data={8 << 30}", f"--fsize={4 << 30}"]  # a fault may ask for all, or fill the disk
        command = [*limited, self.python, self.folder / "start.py", "-xq", "-p", "no:cacheprovider", "--no-header", *paths]
        try:
            run = subprocess.run(command, cwd=self.source, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return "a test that hangs"
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", run.stdout, re.MULTILINE)
        return found[1] if found else None if run.returncode == 0 else f"a test that ends pytest: {run.stdout.strip()[-200:]}"

    def caught(self, fault: Fault) -> str | None:
        """What notices a fault."""
        path, old, new, tests = fault
        whole = (self.source / path).read_text()
        if whole.count(old) != 1:
            raise SystemExit(f"{path} has {old!r} {whole.count(old)} times, not once")
        try:
            return self.failed(tests) if self.put(path, whole.replace(old, new)) else "the compiler"
        finally:
            self.put(path, whole)


def main() -> None:
    """Tries faults and prints what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    bench, began, away = Bench(Path(__file__).resolve().parent.parent, arguments.folder.resolve()), time.monotonic(), 0
    for number, fault in list(enumerate(FAULTS))[arguments.first :][: arguments.count]:
        away += (test := bench.caught(fault)) is None
        found = f"caught by {test}" if test else "GOT AWAY"
        print(f"{number} {fault[0]}: {fault[1]} -> {fault[2]}\n    {found} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{away} got away")
    raise SystemExit(away > 0)


if __name__ == "__main__":
    main()
