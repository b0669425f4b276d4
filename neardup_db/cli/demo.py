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
ASKED = "Jude 1 (KJVPCE)"  # the query is this document's text with another beginning


@common.command()
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the index in this folder, as demo.db.")
def demo(keep: Path | None) -> Results:
    """The text is 363 chapters of the Bible in eleven English translations, some of which copy each other. The demo adds them,
    shows clusters and differing words, queries a text and deletes a document. It leaves no file unless --keep is given.

    \b
    neardup demo
    neardup demo --keep .
    """
    texts, figures = dict(documents()), dict[str, Any]()
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neardup-")))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "demo.db"
        if path.exists():
            raise ParameterError(f"{path} exists already: name another folder with --keep, or remove the file")
        with Index(path, MinHash(threshold=THRESHOLD, exact=True), store_text=True) as index:
            lines = [*_add(index, path, texts, figures)]
            clusters = figures["clusters"] = list(index.clusters())
            lines += [*_clusters(clusters), *_differences(index, clusters, texts), *_query(index, texts, figures)]
            lines += _delete(index, clusters[0], figures)
    name = path if keep else "articles.db"
    lines += [
        *_title("Next"),
        "neardup dedup posts.jsonl -o unique.jsonl  a file without its near-duplicates",
        f"{f'neardup add {name} posts.jsonl':41}  an index of your own",
        f"{f'neardup clusters {name}':41}  its clusters",
        f"{f'neardup sql {name}':41}  the index in SQL",
    ]
    if keep is None:
        lines.append("The index of this demo was temporary; --keep DIR keeps it.")
    yield figures, lines  # at the end, so that `| head` ends no step


def _title(text: str) -> tuple[str, str]:
    return "", f" {text}  ".ljust(WIDTH, "─")


def _add(index: Index, path: Path, texts: dict[str, str], figures: dict[str, Any]) -> Iterator[str]:
    def records() -> Iterator[dict[str, Any]]:
        for key, text in texts.items():
            chapter, translation = _names(key)
            book, _, number = chapter.rpartition(" ")
            yield {"key": key, "text": text, "metadata": {"book": book, "chapter": int(number), "translation": translation}}

    started = time.perf_counter()
    report = index.add_many(records())
    seconds = time.perf_counter() - started
    size, stored = sum(len(text.encode()) for text in texts.values()), path.stat().st_size
    figures.update(documents=report.added, matched=report.matched, seconds=seconds, text_bytes=size, file_bytes=stored)
    yield from _title("1  Add")
    yield f"{report.added} chapters of the Bible in eleven English translations, {bytes_text(size)} of text, in"
    yield f"{seconds:.2f} s ({report.added / seconds:,.0f} documents/s). One file, {bytes_text(stored)}, texts included."
    yield f"{report.matched} of them share at least {THRESHOLD:.0%} of their three-word runs with an earlier one;"
    yield "every such match was verified word by word, none is a mere hash collision."


def _clusters(clusters: list[Cluster]) -> Iterator[str]:
    yield from _title(f"2  {len(clusters)} clusters of near-duplicates")
    for cluster in clusters[:SHOWN_CLUSTERS]:
        yield f"{len(cluster):3}  {_members(cluster.keys)}"
    yield f"     ... {len(clusters) - SHOWN_CLUSTERS} more"


def _differences(index: Index, clusters: list[Cluster], texts: dict[str, str]) -> Iterator[str]:
    yield from _title("3  The words that differ")
    for cluster in clusters[:COMPARED_CLUSTERS]:
        first, second = str(cluster.representative), str(index.matches(cluster.representative)[-1].key)
        yield f"{first} and {second}, {index.explain_match(first, second).similarity:.1%} alike"
        for line in changes(texts[first], texts[second], SHOWN_CHANGES):
            yield from textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield "[-the first has-] {+the second has+}"


def _query(index: Index, texts: dict[str, str], figures: dict[str, Any]) -> Iterator[str]:
    text = " ".join(["These words were never added.", *texts[ASKED].split()[12:]])
    started = time.perf_counter()
    matches = index.query(text)
    seconds = time.perf_counter() - started
    figures["query"] = {"matches": matches, "seconds": seconds}
    yield from _title("4  Ask with a text that is not in the index")
    yield f"{' '.join(text.split()[:13])} ..."
    for match in matches:
        yield f"  {match.similarity:.1%}  {escaped(match.key)}"
    yield f"{count_text(len(matches), 'match', 'matches')} in {seconds * 1e3:.1f} ms"


def _delete(index: Index, cluster: Cluster, figures: dict[str, Any]) -> Iterator[str]:
    key = max(cluster.keys, key=lambda member: len(index.matches(member)))
    index.delete(key)
    left = {other for other in cluster.keys if other != key}
    parts = [list(other.keys) for other in index.clusters() if left & set(other.keys)]
    parts += [[other] for other in left.difference(*parts)]
    figures["deleted"] = {"key": key, "before": list(cluster.keys), "after": parts}
    yield from _title(f"5  Delete {escaped(key)}")
    yield f"before   {_members(cluster.keys)}"
    for part in parts:
        yield f"after    {_members(part)}"
    if len(parts) > 1:
        yield f"{_names(str(key))[1]} joined the others; the transaction that deleted it split them."


def _names(key: str) -> tuple[str, str]:
    chapter, _, translation = key.rstrip(")").rpartition(" (")
    return chapter, translation


def _members(keys: Any) -> str:
    return f"{_names(keys[0])[0]:15}  {', '.join(_names(key)[1] for key in keys)}"
