"""Shared by the benchmarks: the machine, time and memory of a process, child processes, files, Markdown tables."""

from __future__ import annotations

import datetime
import gzip
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = (
    "neardup-db", "apsw", "numpy", "datasketch", "rensa", "gaoya", "fastsketchlsh", "text-dedup", "faiss-cpu", "usearch",
    "sqlite-vec", "simhash",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """The machine and the versions that a result depends on."""
    from neardup_db.native import ffi, lib

    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit.stdout.strip(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": _sqlite_version(),
        "tier": _string(ffi, lib, "nd_isa_name"),
        "load": [round(value, 1) for value in os.getloadavg()],
        "versions": versions,
    }


def _string(ffi: Any, lib: Any, function: str) -> str:
    return bytes(ffi.string(getattr(lib, function)())).decode() if hasattr(lib, function) else "?"


def _sqlite_version() -> str:
    import apsw

    return str(apsw.sqlite_lib_version())


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine_lines(info: dict[str, Any]) -> str:
    """The machine as a few lines of Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in info["versions"].items())
    return (
        f"{info['date']}, commit {info['commit']}. {info['cpu']}, {info['cores']} cores, {info['memory_gb']} GB, "
        f"{info['system']}, Python {info['python']}, SQLite {info['sqlite']}, {info['tier']} kernels. {versions}. "
        f"Load average at the start {info['load'][0]}: other work may share the machine, so compare figures within one run."
    )


# ---- time ----------------------------------------------------------------------------------------------------------------


@dataclass
class Clock:
    """`with Clock() as clock:` gives seconds, and CPU seconds of all threads of this process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    _start: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> Clock:
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._start[0]
        self.cpu_seconds = time.process_time() - self._start[1]


def timed(run: Callable[[int], Any], count: int) -> tuple[float, float]:
    """p50 and p99 of run(0) .. run(count - 1) in microseconds. Each runs in three rounds and its middle time counts, so that
    a moment taken by another process does not."""
    rounds: list[list[float]] = [[], [], []]
    for times in rounds:
        for i in range(count):
            start = time.perf_counter()
            run(i)
            times.append((time.perf_counter() - start) * 1e6)
    return percentiles([sorted(three)[1] for three in zip(*rounds, strict=True)])


def each(run: Callable[[int], Any], count: int) -> list[float]:
    """Microseconds of run(0) .. run(count - 1), once each: for calls that change the index."""
    times = []
    for i in range(count):
        start = time.perf_counter()
        run(i)
        times.append((time.perf_counter() - start) * 1e6)
    return times


def percentiles(times: Sequence[float]) -> tuple[float, float]:
    """p50 and p99."""
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The b of values ~ a * sizes^b, by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def one_thread() -> None:
    """Tell libraries in this process and its children to use one thread. Call it before they are imported."""
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


# ---- memory and processes ----------------------------------------------------------------------------------------------


def peak_memory_mb() -> float:
    """The largest resident size that this process had, in MB (10^6 bytes). Unlike ru_maxrss it does not count the parent's."""
    return _status_mb("VmHWM")


def memory_mb() -> float:
    """The resident size of this process now, in MB."""
    return _status_mb("VmRSS")


def _status_mb(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"/proc/self/status has no {field}")


def _child(pipe: Any, run: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        pipe.send((True, run(*arguments)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    finally:
        pipe.close()


def in_child(run: Callable[..., Any], *arguments: Any) -> Any:
    """run(*arguments) in a fresh process, so that neither memory nor caches of other measurements count."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, run, arguments))
    process.start()
    sender.close()
    try:
        good, result = receiver.recv()
    except EOFError:
        good, result = False, "the process ended without a result"
    process.join()
    if not good:
        raise RuntimeError(f"{run.__name__}{arguments}: {result}")
    return result


def note(text: str) -> None:
    """A line of progress, on standard error."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


# ---- files -------------------------------------------------------------------------------------------------------------


def bytes_by_table(connection: Any) -> dict[str, int]:
    """Bytes of the pages of each table and index of a database, largest first (SQLite's dbstat)."""
    rows = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC")
    return {str(name): int(size) for name, size in rows}


def folder_bytes(folder: str | Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


# ---- documents ---------------------------------------------------------------------------------------------------------


def read_jsonl(path: Path, limit: int | None = None) -> Iterator[tuple[str, str]]:
    """(id, text) of each line of a file of JSON lines, packed with gzip or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number == limit:
                return
            record = json.loads(line)
            yield str(record["id"]), record["text"]


# ---- tables ------------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; numbers are aligned right."""
    body = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(row[i]) for row in body) for i in range(len(header))]
    lines = [_line(header), _line(["---:" if right else "---" for right in numeric])]
    return "\n".join(lines + [_line(row) for row in body])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 1 else f"{value:.4f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _is_number(cell: str) -> bool:
    return cell[:1] in "-0123456789" or cell == "\N{EN DASH}"
