"""The words in which two texts differ."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

REMOVED, ADDED = "bold red", "bold green"


@dataclass(frozen=True, slots=True)
class Change:
    """Words of the first text that stand in the place of words of the second, with those around them."""

    before: str
    removed: str
    added: str
    after: str


def changes(first: str, second: str, around: int = 3) -> list[Change]:
    """Where two texts differ word by word, in order, each with `around` common words on either side.

    >>> changes("the cat sat on the mat", "the dog sat on the mat", around=1)
    [Change(before='the', removed='cat', added='dog', after='sat')]
    """
    a, b = first.split(), second.split()
    found = []
    for kind, a0, a1, b0, b1 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            before, after = a[max(a0 - around, 0) : a0], a[a1 : a1 + around]
            found.append(Change(" ".join(before), " ".join(a[a0:a1]), " ".join(b[b0:b1]), " ".join(after)))
    return found


def change_text(change: Change) -> Text:
    """One change as a line: what was there in red, what is there now in green."""
    text = Text(style="dim")
    text.append(f"{change.before} " if change.before else "")
    if change.removed:
        text.append(f"[-{change.removed}-]", style=REMOVED)
    if change.added:
        text.append(f"{{+{change.added}+}}", style=ADDED)
    text.append(f" {change.after}" if change.after else "")
    return text


def show_difference(first: str, second: str, most: int = 40) -> None:
    """Prints the words that differ, one change a line, at most `most` of them."""
    console = Console(highlight=False)
    found = changes(first, second)
    if not found:
        console.print("word by word the same")
    for change in found[:most]:
        console.print(change_text(change), soft_wrap=True)
    if len(found) > most:
        console.print(f"... and {len(found) - most:,} more")
