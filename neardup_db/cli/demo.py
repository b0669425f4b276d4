"""`neardup demo`: shows all steps with real text."""

from __future__ import annotations

import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ..demo import documents
from ..errors import ParameterError
from ..index import Index
from ..schemes import MinHash
from ..values import Cluster
from . import common
from .common import Results
from .difference import changes
from .output import bytes_text, count_text, escaped

THRESHOLD = 0.8
SHOWN_CLUSTERS, COMPARED_CLUSTERS, SHOWN_CHANGES = 8, 3, 5
WIDTH = 80
ASKED = "Jude 1 (KJVPCE)"
"""The query is this document's text with another beginning."""


class Demo:
    """The steps; each adds to `lines` and to `figures`. Nothing is printed before the last one, so that `| head` ends none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: list[str] = []
        self.figures: dict[str, Any] = {}
        self._texts = dict(documents())

    def run(self) -> None:
        with Index(self._path, MinHash(threshold=THRESHOLD, exact=True), store_text=True) as index:
            self._add(index)
            clusters = self._clusters(index)
            self._differences(index, clusters)
            self._query(index)
            self._delete(index, clusters[0])

    def print(self, *lines: str) -> None:
        self.lines += lines

    def title(self, text: str) -> None:
        self.print("", f" {text}  ".ljust(WIDTH, "─"))

    def _add(self, index: Index) -> None:
        started = time.perf_counter()
        report = index.add_many(_records(self._texts))
        seconds = time.perf_counter() - started
        size, stored = sum(len(text.encode()) for text in self._texts.values()), self._path.stat().st_size
        self.figures.update(documents=report.added, matched=report.matched, seconds=seconds, text_bytes=size, file_bytes=stored)
        self.title("1  Add")
        self.print(
            f"{report.added} chapters of the Bible in eleven English translations, {bytes_text(size)} of text, in",
            f"{seconds:.2f} s ({report.added / seconds:,.0f} documents/s). One file, {bytes_text(stored)}, texts included.",
            f"{report.matched} of them share at least {THRESHOLD:.0%} of their three-word runs with an earlier one;",
            "every such match was verified word by word, none is a mere hash collision.",
        )

    def _clusters(self, index: Index) -> list[Cluster]:
        clusters = list(index.clusters())
        self.figures["clusters"] = clusters
        self.title(f"2  {len(clusters)} clusters of near-duplicates")
        self.print(*(f"{len(cluster):3}  {_members(cluster.keys)}" for cluster in clusters[:SHOWN_CLUSTERS]))
        self.print(f"     ... {len(clusters) - SHOWN_CLUSTERS} more")
        return clusters

    def _differences(self, index: Index, clusters: list[Cluster]) -> None:
        self.title("3  The words that differ")
        for cluster in clusters[:COMPARED_CLUSTERS]:
            first, second = str(cluster.representative), str(index.matches(cluster.representative)[-1].key)
            self.print(f"{first} and {second}, {index.explain_match(first, second).similarity:.1%} alike")
            for line in changes(self._texts[first], self._texts[second], SHOWN_CHANGES):
                self.print(*textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    "))
        self.print("[-the first has-] {+the second has+}")

    def _query(self, index: Index) -> None:
        text = " ".join(["These words were never added.", *self._texts[ASKED].split()[12:]])
        started = time.perf_counter()
        matches = index.query(text)
        seconds = time.perf_counter() - started
        self.figures["query"] = {"matches": matches, "seconds": seconds}
        self.title("4  Ask with a text that is not in the index")
        self.print(f"{' '.join(text.split()[:13])} ...")
        self.print(*(f"  {match.similarity:.1%}  {escaped(match.key)}" for match in matches))
        self.print(f"{count_text(len(matches), 'match', 'matches')} in {seconds * 1e3:.1f} ms")

    def _delete(self, index: Index, cluster: Cluster) -> None:
        key = max(cluster.keys, key=lambda member: len(index.matches(member)))
        index.delete(key)
        left = {other for other in cluster.keys if other != key}
        parts = [list(other.keys) for other in index.clusters() if left & set(other.keys)]
        parts += [[other] for other in left.difference(*parts)]
        self.figures["deleted"] = {"key": key, "before": list(cluster.keys), "after": parts}
        self.title(f"5  Delete {escaped(key)}")
        self.print(f"before   {_members(cluster.keys)}", *(f"after    {_members(part)}" for part in parts))
        if len(parts) > 1:
            self.print(f"{_names(str(key))[1]} joined the others; the transaction that deleted it split them.")


def _records(texts: dict[str, str]) -> Iterator[dict[str, Any]]:
    for key, text in texts.items():
        chapter, translation = _names(key)
        book, _, number = chapter.rpartition(" ")
        yield {"key": key, "text": text, "metadata": {"book": book, "chapter": int(number), "translation": translation}}


def _names(key: str) -> tuple[str, str]:
    """The chapter and the translation."""
    chapter, _, translation = key.rstrip(")").rpartition(" (")
    return chapter, translation


def _members(keys: Any) -> str:
    return f"{_names(keys[0])[0]:15}  {', '.join(_names(key)[1] for key in keys)}"


@common.command()
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the index in this folder, as demo.db.")
def demo(keep: Path | None) -> Results:
    """Demonstrate an index on bundled real text.

    The text is 363 chapters of the Bible in eleven English translations, some of which copy each other. The demo adds them, shows
    clusters and differing words, queries a text and deletes a document. It leaves no file unless --keep is given.

    \b
    neardup demo
    neardup demo --keep .
    """
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neardup-")))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "demo.db"
        if path.exists():
            raise ParameterError(f"{path} exists already: name another folder with --keep, or remove the file")
        steps = Demo(path)
        steps.run()
    name = path if keep else "articles.db"
    steps.title("Next")
    steps.print(
        "neardup dedup posts.jsonl -o unique.jsonl  a file without its near-duplicates",
        f"{f'neardup add {name} posts.jsonl':41}  an index of your own",
        f"{f'neardup clusters {name}':41}  its clusters",
        f"{f'neardup sql {name}':41}  the index in SQL",
    )
    if keep is None:
        steps.print("The index of this demo was temporary; --keep DIR keeps it.")
    yield steps.figures, steps.lines
