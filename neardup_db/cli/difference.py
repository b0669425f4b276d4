"""Word differences of two texts, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..show.difference import Part, differences, notes, rows, split_spaces
from .output import escaped

REMOVED, ADDED = "bold red", "bold green"

NARROW = 60
"""Narrower terminals show the texts one below the other."""

MOST, LONGEST = 60, 1_000
"""The number of differences printed, and the characters of each."""


@dataclass(frozen=True, slots=True)
class Change:
    """Words of the first text, their replacement in the second, and the common words around."""

    before: str
    removed: str
    added: str
    after: str


def changes(first: str, second: str, around: int = 3) -> list[Change]:
    """The word differences of two texts, in order, each with `around` common words on either side.

    Case and punctuation are ignored, as with the default text rules.

    >>> from neardup_db.cli.difference import changes
    >>> changes("the cat sat on the mat", "the dog sat on the mat", around=1)
    [Change(before='the', removed='cat', added='dog', after='sat')]
    """
    parts = [Part("equal", "", ""), *differences(first, second, words=True).parts, Part("equal", "", "")]
    return [
        Change(
            " ".join(before.a.split()[-around:]) if before.kind == "equal" else "",
            " ".join(part.a.split()),
            " ".join(part.b.split()),
            " ".join(after.a.split()[:around]) if after.kind == "equal" else "",
        )
        for before, part, after in zip(parts, parts[1:], parts[2:], strict=False)
        if part.kind != "equal"
    ]


def change_text(change: Change, colours: bool) -> Text:
    """A change as a line: words of the first text in red, of the second in green; without colours [-in-] {+marks+}."""
    text = Text()
    text.append(f"{change.before} " if change.before else "", style="dim")
    if change.removed:
        text.append_text(mark(change.removed, REMOVED, colours))
        text.append(" " if change.added else "")
    if change.added:
        text.append_text(mark(change.added, ADDED, colours))
    text.append(f" {change.after}" if change.after else "", style="dim")
    return text


def mark(words: str, style: str, colours: bool) -> Text:
    if colours:
        return Text(words, style)
    return Text(f"[-{words}-]" if style == REMOVED else f"{{+{words}+}}")


def has_colours(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def show_side_by_side(console: Console, first: str, second: str, name_a: str, name_b: str) -> None:
    compared = differences(first, second)
    wide = console.width >= NARROW
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True, show_lines=True, show_header=wide)
    for name in (name_a, name_b)[: 2 if wide else 1]:
        table.add_column(Text(name), ratio=1, overflow="fold")
    for row in rows(compared, most=MOST, longest=LONGEST):
        cells = [_cell(row, side, has_colours(console)) for side in (0, 1)]
        if wide:
            table.add_row(*cells)
        else:
            table.add_row(Text.assemble((name_a, "bold"), "\n", cells[0], "\n", (name_b, "bold"), "\n", cells[1]))
    console.print(table)
    for note in notes(compared, MOST):
        console.print(note, style="dim")


def _cell(row: Iterable[Part], side: int, colours: bool) -> Text:
    cell = Text()
    for part in row:
        text = (part.a, part.b)[side]
        if part.kind == "equal":
            cell.append(_lines(text))
        elif text:
            marked, spaces = split_spaces(text)
            cell.append_text(mark(_lines(marked), (REMOVED, ADDED)[side], colours))
            cell.append(spaces)
    return cell


def _lines(text: str) -> str:
    return "\n".join(escaped(line) for line in text.expandtabs(4).replace("\r\n", "\n").split("\n"))
