"""`neardup demo`: shows all steps with real text."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..demo import documents
from ..errors import ParameterError
from ..index import Index
from ..schemes import MinHash
from ..values import Cluster, Match
from .command import command
from .difference import ADDED, REMOVED, change_text, changes, has_colours
from .options import json_option
from .output import as_json_value, bytes_text, count_text, emit_json, escaped
from .screen import Screen

THRESHOLD = 0.8
SHOWN_CLUSTERS, SHOWN_CHANGES = 3, 5
WIDTH = 80
ASKED = "Jude 1 (KJVPCE)"
"""The query is this document's text with another beginning."""


class Demo:
    def __init__(self, path: Path, console: Console) -> None:
        self.path = path
        self.console = console
        self.figures: dict[str, Any] = {}
        self.texts = dict(documents())

    def run(self) -> dict[str, Any]:
        with Index(self.path, MinHash(threshold=THRESHOLD, exact=True), store_text=True) as index:
            self._add(index)
            clusters = self._clusters(index)
            self._differences(index, clusters)
            self._query(index)
            self._delete(index, clusters)
        return self.figures

    def _title(self, text: str) -> None:
        self.console.print()
        self.console.print(Rule(Text(f" {text} ", style="bold cyan"), align="left", style="cyan", characters="─"))

    def _add(self, index: Index) -> None:
        self._title("1  Add")
        started = time.perf_counter()
        report = index.add_many(_records(self.texts))
        seconds = time.perf_counter() - started
        size = sum(len(text.encode()) for text in self.texts.values())
        stored = self.path.stat().st_size
        self.console.print(
            f"[bold]{report.added}[/] chapters of the Bible in eleven English translations, {bytes_text(size)} of text, in\n"
            f"[bold]{seconds:.2f} s[/] ([bold]{report.added / seconds:,.0f}[/] documents/s, {size / 1e6 / seconds:.1f} MB/s). "
            f"One file, {bytes_text(stored)}, texts included.\n"
            f"[bold]{report.matched}[/] of them share at least {THRESHOLD:.0%} of their three-word runs with an earlier one;\n"
            "every such match was verified word by word, none is a mere hash collision."
        )
        self.figures.update(documents=report.added, matched=report.matched, seconds=seconds, text_bytes=size, file_bytes=stored)

    def _clusters(self, index: Index) -> list[Cluster]:
        clusters = index.clusters()
        self._title(f"2  {len(clusters)} clusters of near-duplicates")
        table = Table(box=None, width=WIDTH, pad_edge=False, header_style="dim")
        table.add_column("size", justify="right", width=4)
        table.add_column("chapter", style="bold", width=16)
        table.add_column("translations")
        for cluster in clusters[:8]:
            names = [_parts(str(key)) for key in cluster.keys]
            chapters = list(dict.fromkeys(chapter for chapter, _ in names))
            table.add_row(str(len(cluster)), ", ".join(chapters), ", ".join(translation for _, translation in names))
        if len(clusters) > 8:
            table.add_row("", f"... {len(clusters) - 8} more", "", style="dim")
        self.console.print(table)
        self.figures["clusters"] = [as_json_value(cluster) for cluster in clusters]
        return clusters

    def _differences(self, index: Index, clusters: list[Cluster]) -> None:
        self._title("3  The words that differ")
        for cluster in clusters[:SHOWN_CLUSTERS]:
            first, second = _unlike(index, cluster)
            self.console.print(self._compared(index, str(first), str(second)))
        if has_colours(self.console):
            self.console.print(Text.assemble(("the first has", REMOVED), "   ", ("the second has", ADDED)))
        else:
            self.console.print("[-the first has-]   {+the second has+}", markup=False)

    def _compared(self, index: Index, first: str, second: str) -> Text:
        similarity = index.explain_match(first, second).similarity
        places = changes(self.texts[first], self.texts[second])
        text = Text()
        text.append(f"{first}  ", style="bold")
        text.append("and  ")
        text.append(f"{second}  ", style="bold")
        text.append(f"{similarity:.1%} alike\n", style="yellow")
        for change in sorted(places, key=lambda change: len(change.removed) + len(change.added), reverse=True)[:SHOWN_CHANGES]:
            text.append("  ... ", style="dim")
            text.append_text(change_text(change, has_colours(self.console)))
            text.append(" ...\n", style="dim")
        if len(places) > SHOWN_CHANGES:
            text.append(f"  and {len(places) - SHOWN_CHANGES} more places\n", style="dim")
        return text

    def _query(self, index: Index) -> None:
        words = self.texts[ASKED].split()
        text = " ".join(["These words were never added.", *words[12:]])
        self._title("4  Ask with a text that is not in the index")
        started = time.perf_counter()
        matches = index.query(text)
        seconds = time.perf_counter() - started
        self.console.print(f"[dim]{' '.join(text.split()[:13])} ...[/]")
        self._matches(matches)
        self.console.print(f"[dim]{count_text(len(matches), 'match', 'matches')} in {seconds * 1e3:.1f} ms[/]")
        self.figures["query"] = {"matches": [as_json_value(match) for match in matches], "seconds": seconds}

    def _matches(self, matches: list[Match]) -> None:
        for match in matches:
            self.console.print(f"  [yellow]{match.similarity:.1%}[/]  {escaped(match.key)}")
        if not matches:
            self.console.print("  nothing")

    def _delete(self, index: Index, clusters: list[Cluster]) -> None:
        cluster = clusters[0]
        key = max(cluster.keys, key=lambda member: len(index.matches(member)))
        self._title(f"5  Delete {escaped(key)}")
        self.console.print(f"before   {_members(cluster.keys, key)}")
        index.delete(key)
        left = [other for other in cluster.keys if other != key]
        parts = [other.keys for other in index.clusters() if set(other.keys) & set(left)]
        alone = [(other,) for other in left if not any(other in part for part in parts)]
        for place, part in enumerate([*parts, *alone]):
            self.console.print(f"{'after ' if place == 0 else '      '}   {_members(part)}")
        if len(parts) + len(alone) > 1:
            name = _parts(str(key))[1]
            self.console.print(f"[dim]{name} joined the others; the transaction that deleted it split them.[/]")
        after = [list(part) for part in [*parts, *alone]]
        self.figures["deleted"] = {"key": key, "before": list(cluster.keys), "after": after}


def _records(texts: dict[str, str]) -> Iterator[dict[str, Any]]:
    for key, text in texts.items():
        chapter, translation = _parts(key)
        book, _, number = chapter.rpartition(" ")
        yield {"key": key, "text": text, "metadata": {"book": book, "chapter": int(number), "translation": translation}}


def _parts(key: str) -> tuple[str, str]:
    chapter, _, translation = key.rstrip(")").rpartition(" (")
    return chapter, translation


def _members(keys: tuple[Any, ...], struck: Any = None) -> str:
    shown = [f"[red strike]{_parts(str(key))[1]}[/]" if key == struck else _parts(str(key))[1] for key in keys]
    return f"[bold]{_parts(str(keys[0]))[0]}[/]  " + ", ".join(shown)


def _unlike(index: Index, cluster: Cluster) -> tuple[Any, Any]:
    first = cluster.representative
    matches = index.matches(first)
    return first, matches[-1].key if matches else cluster.keys[1]


def _print_next_steps(console: Console, path: Path | None) -> None:
    name = "articles.db" if path is None else str(path)
    console.print()
    console.print(Rule(Text(" Next ", style="bold cyan"), align="left", style="cyan", characters="─"))
    commands = [
        ("neardup dedup posts.jsonl -o unique.jsonl", "a file without its near-duplicates"),
        (f"neardup add {name} posts.jsonl", "an index of your own"),
        (f"neardup clusters {name}", "its clusters"),
        (f"neardup sql {name}", "the index in SQL"),
    ]
    width = max(len(line) for line, _ in commands)
    for line, result in commands:
        console.print(Text.assemble((f"{line:<{width}}", "bold"), (f"  {result}", "dim")), soft_wrap=True)
    if path is None:
        console.print("[dim]The index of this demo was temporary; --keep DIR keeps it.[/]")


@command()
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the index in this folder, as demo.db.")
@json_option
def demo(keep: Path | None, as_json: bool) -> None:
    """Demonstrate an index on bundled real text.

    The text is 363 chapters of the Bible in eleven English translations, some of which copy each other. The demo adds them, shows
    clusters and differing words, queries a text and deletes a document. It leaves no file unless --keep is given.

    \b
    neardup demo
    neardup demo --keep .
    """
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neardup-")))
        else:
            keep.mkdir(parents=True, exist_ok=True)
            folder = keep
        path = folder / "demo.db"
        if path.exists():
            raise ParameterError(f"{path} exists already: name another folder with --keep, or remove the file")
        console = Screen(width=WIDTH, quiet=as_json, highlight=False)
        console.goes_on = keep is not None
        figures = Demo(path, console).run()
    if as_json:
        emit_json(figures)
    else:
        _print_next_steps(console, None if keep is None else path)
