"""Text to fingerprints: megabytes of text a second, from Python, beside other packages, in one run.

    python benchmarks/text.py [--repeat 9] [--size 4000000] [--before PYTHON] > RESULT.md

English is the bundled sample, other languages are sentences put together at random from one article of the Universal
Declaration of Human Rights each (public domain). MB are 10^6 bytes of UTF-8; times are those of the process (user and system),
since other work may share the machine, and medians of `--repeat` runs; ours and theirs take turns. Peers are measured where they
are installed: pip install 'neardup-db[bench]' py-tlsh. PYTHON is that of an environment with another version of the package: with
--before nothing but the languages is measured, of both versions in turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from measure import in_child, machine, machine_lines, memory_mb, note, peak_memory_mb, table

from neardup_db import BottomK, MinHash, SimHash, TextRules
from neardup_db.demo import documents
from neardup_db.native import ffi, lib

Texts = Sequence[str]
WORDS = TextRules()

ARTICLES = {
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны "
    "поступать в отношении друг друга в духе братства.",
    "Greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική "
    "και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.",
    "French": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de "
    "conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
    "Chinese": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "Japanese": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "Korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 "
    "서로 형제애의 정신으로 행동하여야 한다.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
}


def english(size: int, piece: int) -> list[str]:
    """Pieces of the bundled sample, ASCII only, `piece` bytes each."""
    sample = " ".join(text for _, text in documents()).encode("ascii", "ignore").decode()
    sample *= 1 + size // len(sample)
    return [sample[start : start + piece] for start in range(0, size - piece + 1, piece)]


def made_of(article: str, size: int, piece: int) -> list[str]:
    """Texts of about `piece` bytes: the words of an article, or its characters where it has no spaces, in random order."""
    draw = random.Random(1)
    units = [word + " " for word in article.split()] if " " in article else list(article)
    average = sum(len(unit.encode()) for unit in units) / len(units)
    count = round(piece / average)
    return ["".join(draw.choices(units, k=count)) for _ in range(size // piece)]


# ---- what is measured ----------------------------------------------------------------------------------------------------


def ours() -> dict[str, Callable[[Any], Any]]:
    return {
        "MinHash 128": lambda texts: MinHash(num_perm=128).fingerprints(texts, WORDS),
        "SimHash 64": lambda texts: SimHash(bits=64).fingerprints(texts, WORDS),
        "bottom-k 128": lambda texts: BottomK(k=128).fingerprints(texts, WORDS),
    }


def shingles(text: str) -> list[str]:
    """Word 3-shingles as a Python programmer would write them, for packages without a tokenizer."""
    words = text.lower().split()
    return [" ".join(words[i : i + 3]) for i in range(len(words) - 2)]


def with_gaoya_minhash() -> Callable[[Texts], Any]:
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(32, 0.8, 16, 8, None, "word", True, (3, 3))  # empty: a query is a signature and 16 look-ups

    def run(texts: Texts) -> None:
        for text in texts:
            index.query(text)

    return run


def with_gaoya_simhash() -> Callable[[Texts], Any]:
    from gaoya.simhash import SimHashStringIndex

    index = SimHashStringIndex(64, 6, 3, "word", True, (3, 3))

    def run(texts: Texts) -> None:
        for text in texts:
            index.query(text)

    return run


def with_rensa() -> Callable[[Texts], Any]:
    from rensa import RMinHash

    def run(texts: Texts) -> None:
        for text in texts:
            sketch = RMinHash(num_perm=128, seed=1)
            sketch.update(shingles(text))
            sketch.digest()

    return run


def with_datasketch() -> Callable[[Texts], Any]:
    import xxhash
    from datasketch import MinHash as Sketch

    empty = Sketch(num_perm=128, hashfunc=xxhash.xxh32_intdigest)  # a copy of it shares its permutations

    def run(texts: Texts) -> None:
        for text in texts:
            sketch = empty.copy()
            sketch.update_batch([shingle.encode() for shingle in shingles(text)])

    return run


def with_tlsh() -> Callable[[Texts], Any]:
    import tlsh

    def run(texts: Texts) -> None:
        for text in texts:
            tlsh.hash(text.encode())

    return run


PEERS = {
    "gaoya, MinHash 128": (with_gaoya_minhash, "MinHash 128"),
    "rensa, MinHash 128": (with_rensa, "MinHash 128"),
    "datasketch, MinHash 128": (with_datasketch, "MinHash 128"),
    "gaoya, SimHash 64": (with_gaoya_simhash, "SimHash 64"),
    "tlsh, of bytes": (with_tlsh, "SimHash 64"),
}


Run = tuple[Callable[[Any], Any], Sequence[str | bytes]]


def rates(runs: dict[Any, Run], repeat: int, of: Callable[[list[float]], float] = statistics.median) -> dict[Any, float]:
    """MB/s of each run, which is a function and its texts; they take turns. of: which of its times."""
    times: dict[Any, list[float]] = {name: [] for name in runs}
    for _ in range(repeat + 1):
        for name, (run, texts) in runs.items():
            start = time.process_time()
            run(texts)
            times[name].append(time.process_time() - start)
    return {name: byte_count(runs[name][1]) / of(taken[1:]) / 1e6 for name, taken in times.items()}


def byte_count(texts: Sequence[str | bytes]) -> int:
    return sum(len(text.encode() if isinstance(text, str) else text) for text in texts)


# ---- tables ----------------------------------------------------------------------------------------------------------------


def beside_peers(size: int, repeat: int) -> str:
    texts = english(size, 2500)
    few = texts[: len(texts) // 10]  # peers take long
    rows: dict[str, tuple[float, float, float]] = {}
    for name, (make, work) in PEERS.items():
        try:
            run = make()
        except ImportError:
            note(f"{name}: not installed")
            continue
        found = rates({"theirs": (run, few), "ours": (ours()[work], texts)}, repeat)
        rows[name] = (found["theirs"], found["ours"], found["ours"] / found["theirs"])
        note(f"{name}: {found}")
    header = ["package, work", f"MB/s ({len(few)} of the texts)", f"neardup-db, MB/s ({len(texts)} texts)", "times"]
    return table(header, [(name, f"{theirs:.1f}", f"{mine:.0f}", f"{times:.1f}") for name, (theirs, mine, times) in rows.items()])


def by_language(size: int, repeat: int) -> str:
    corpora = {"English": english(size, 2500)} | {name: made_of(text, size, 2500) for name, text in ARTICLES.items()}
    header = ["texts of 2.5 KB"] + [f"{work}, {kind}" for work in ours() for kind in ("str", "bytes")]
    rows = []
    for language, texts in corpora.items():
        encoded = [text.encode() for text in texts]
        runs: dict[Any, Run] = {}
        for work, run in ours().items():
            runs[work, "str"] = run, texts
            runs[work, "bytes"] = run, encoded
        found = rates(runs, repeat)
        rows.append((language, *(f"{rate:.0f}" for rate in found.values())))
        note(f"{language}: {found}")
    return table(header, rows)


# ---- beside another version ----------------------------------------------------------------------------------------------


def version_rates(size: int, repeat: int) -> dict[str, float]:
    """MB/s of the installed version, best runs, by "language, work": what a child of `beside_version` prints."""
    found = {}
    for language in ("English", *ARTICLES):
        texts = english(size, 2500) if language == "English" else made_of(ARTICLES[language], size, 2500)
        runs: dict[Any, Run] = {work: (ours()[work], texts) for work in ("MinHash 128", "SimHash 64")}
        try:
            runs["gaoya, MinHash 128"] = with_gaoya_minhash(), texts[: len(texts) // 10]
        except ImportError:
            note("gaoya: not installed")
        found.update({f"{language}, {work}": rate for work, rate in rates(runs, repeat, min).items()})
    return found


def beside_version(before: str, size: int, repeat: int) -> str:
    """The other version and this one in turns, three processes each; the best of each, for other work only ever adds time."""
    best: dict[str, dict[str, float]] = {}
    for python in (before, sys.executable) * 3:
        command = [python, __file__, "--rates", f"--size={size}", f"--repeat={repeat}"]
        for name, rate in json.loads(subprocess.run(command, check=True, capture_output=True).stdout).items():
            seen = best.setdefault(name, {})
            seen[python] = max(rate, seen.get(python, 0.0))
    rows = []
    for language in ("English", *ARTICLES):
        row = [language]
        for work in ("MinHash 128", "SimHash 64"):
            old, new = (best[f"{language}, {work}"][python] for python in (before, sys.executable))
            row += [f"{old:.0f}", f"{new:.0f}", f"{new / old:.2f}"]
        peer = best.get(f"{language}, gaoya, MinHash 128", {})
        rows.append((*row, f"{max(peer.values()):.1f}" if peer else "-"))
    header = [f"{work}, {what}" for work in ("MinHash 128", "SimHash 64") for what in ("before", "now", "times")]
    return table(["texts of 2.5 KB, `str`, MB/s", *header, "gaoya, MinHash 128"], rows)


def by_size(size: int, repeat: int) -> str:
    rows = []
    for piece in (250, 2_500, 16_000, 200_000):
        texts = english(size, piece)
        found = rates({work: (run, texts) for work, run in ours().items()}, repeat)
        rows.append((f"{piece:,}", *(f"{rate:.0f}" for rate in found.values())))
    return table(["bytes a text (English, str)", *ours()], rows)


def by_tier(size: int, repeat: int) -> str:
    texts = english(size, 2500)
    rows = []
    for index in range(lib.nd_isa_count()):
        name = lib.nd_isa_at(index)
        lib.nd_isa_force(name)
        found = rates({work: (run, texts) for work, run in ours().items()}, repeat)
        rows.append((ffi.string(name).decode(), *(f"{rate:.0f}" for rate in found.values())))
    lib.nd_isa_force(ffi.NULL)
    return table(["tier (English, str)", *ours()], rows)


def with_threads(size: int, repeat: int) -> str:
    """Wall time of one thread over all texts and of two over half of them each; beside it that of a hash without any lock, which
    shows what the machine had to give. Where other work takes the processors, the wall says nothing: so also the ratio of the CPU
    seconds of the one thread to those of the slower of the two, which is what two free processors would give, and how often our
    threads waited for something (a lock), by the system's count."""
    texts, russian = english(8 * size, 2500), made_of(ARTICLES["Russian"], 8 * size, 2500)
    data = memoryview(bytes(8 * size))
    works: dict[str, tuple[Callable[[Any], Any], Any, list[Any]]] = {}
    for work, run in ours().items():
        works[work] = run, texts, [texts[::2], texts[1::2]]
        works[f"{work}, Russian"] = run, russian, [russian[::2], russian[1::2]]
    works["hashlib.sha256 (control)"] = (lambda part: hashlib.sha256(part).digest(), data, [data[: 4 * size], data[4 * size :]])
    rows = []
    for work, (run, whole, halves) in works.items():
        alone, alone_cpu, together, together_cpu = [], [], [], []
        waits: list[int] = []

        def thread(part: Any, taken: list[float], run: Callable[[Any], Any] = run, waits: list[int] = waits) -> None:
            before, start = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw, time.thread_time()
            run(part)
            taken.append(time.thread_time() - start)
            waits.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)

        for _ in range(repeat):
            start, start_cpu = time.perf_counter(), time.thread_time()
            run(whole)
            alone_cpu.append(time.thread_time() - start_cpu)
            alone.append(time.perf_counter() - start)
            taken: list[float] = []
            threads = [threading.Thread(target=thread, args=(half, taken)) for half in halves]
            start = time.perf_counter()
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            together.append(time.perf_counter() - start)
            together_cpu.append(max(taken))
        seconds = [min(times) for times in (alone, together, alone_cpu, together_cpu)]
        ratios = f"{seconds[0] / seconds[1]:.2f}", f"{seconds[2] / seconds[3]:.2f}"
        rows.append((work, *(f"{each:.3f}" for each in seconds[:2]), *ratios, f"{statistics.mean(waits):.1f}"))
    header = [f"{byte_count(texts) / 1e6:.0f} MB", "1 thread, s", "2 threads, s", "times (best runs)", "times, by CPU"]
    return table([*header, "waits of a thread (mean)"], rows)


def _large(work: str, tokens: str) -> tuple[float, float, float]:
    """Seconds of one text of 100 MB, of 100 of 1 MB, and MB that the first took beside the text."""
    rules = TextRules.chars() if tokens == "chars" else WORDS
    scheme: Any = {"MinHash 128": MinHash(), "SimHash 64": SimHash(bits=64), "bottom-k 128": BottomK()}[work]
    text = " ".join(english(1_000_000, 1_000_000)) * 100
    text = text[:100_000_000]
    scheme.fingerprint(text[:5000], rules)
    before = memory_mb()
    start = time.process_time()
    scheme.fingerprint(text, rules)
    one = time.process_time() - start
    extra = peak_memory_mb() - before
    parts = [text[first : first + 1_000_000] for first in range(0, len(text), 1_000_000)]
    start = time.process_time()
    scheme.fingerprints(parts, rules)
    return one, time.process_time() - start, max(0.0, extra)


def large_texts() -> str:
    cases = [("MinHash 128", "words"), ("SimHash 64", "words"), ("bottom-k 128", "words"), ("SimHash 64", "chars")]
    rows = [(f"{work}, {tokens}", *(f"{value:.2f}" for value in in_child(_large, work, tokens))) for work, tokens in cases]
    return table(["work", "one text of 100 MB, s", "100 of 1 MB, s", "memory beside the text, MB (peak)"], rows)


def sections(size: int, repeat: int) -> Iterator[tuple[str, str]]:
    yield "Beside other packages (English, 2.5 KB, `str`)", beside_peers(size, repeat)
    yield "By language, MB/s", by_language(size, repeat)
    yield "By size of the text, MB/s", by_size(size, repeat)
    yield "By tier, MB/s", by_tier(size, repeat)
    yield "Threads of the caller", with_threads(size, repeat)
    yield "Large texts", large_texts()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--size", type=int, default=4_000_000, help="bytes of each corpus")
    parser.add_argument("--before", metavar="PYTHON", help="the Python of an environment with another version of the package")
    parser.add_argument("--rates", action="store_true", help="print the rates of the installed version by language as JSON")
    options = parser.parse_args(arguments)
    if options.rates:
        print(json.dumps(version_rates(options.size, options.repeat)))
        return 0
    about = (__doc__ or "").partition("> RESULT.md")[2].strip()
    print(f"# Text to fingerprints\n\n{machine_lines(machine())}\n")
    print(f"`python benchmarks/text.py --repeat {options.repeat} --size {options.size}`. {about}")
    parts = sections(options.size, options.repeat)
    if options.before:
        parts = iter([("Two versions", beside_version(options.before, options.size, options.repeat))])
    for title, body in parts:
        print(f"\n## {title}\n\n{body}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
