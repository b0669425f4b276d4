"""The words in which two texts differ."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

_ENDS = re.compile(r"^[\W_]+|[\W_]+$")

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

    Case and punctuation at the ends of words make no difference, as they make none to the index by its usual text rules.

    >>> from neardup_db.cli.difference import changes
    >>> changes("the cat sat on the mat", "the dog sat on the mat", around=1)
    [Change(before='the', removed='cat', added='dog', after='sat')]
    """
    a, b = first.split(), second.split()
    found = []
    matcher = difflib.SequenceMatcher(None, [_bare(word) for word in a], [_bare(word) for word in b], autojunk=False)
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        if kind != "equal":
            before, after = a[max(a0 - around, 0) : a0], a[a1 : a1 + around]
            found.append(Change(" ".join(before), " ".join(a[a0:a1]), " ".join(b[b0:b1]), " ".join(after)))
    return found


def _bare(word: str) -> str:
    """The word folded and without punctuation around it; a word of nothing else stays as it is."""
    return _ENDS.sub("", word).casefold() or word


def change_text(change: Change, colours: bool) -> Text:
    """One change as a line: words of the first text in red, of the second in green; without colours [-in-] {+marks+}."""
    text = Text()
    text.append(f"{change.before} " if change.before else "", style="dim")
    if change.removed:
        text.append(change.removed if colours else f"[-{change.removed}-]", style=REMOVED)
        text.append(" " if change.added else "")
    if change.added:
        text.append(change.added if colours else f"{{+{change.added}+}}", style=ADDED)
    text.append(f" {change.after}" if change.after else "", style="dim")
    return text


def has_colours(console: Console) -> bool:
    """Whether red and green can be told apart there."""
    return console.color_system is not None and not console.no_color


def show_difference(first: str, second: str, most: int = 40) -> None:
    """Prints the words that differ, one change a line, at most `most` of them."""
    console = Console(highlight=False)
    found = changes(first, second)
    if not found:
        console.print("no word differs")
    for change in found[:most]:
        console.print(change_text(change, has_colours(console)), soft_wrap=True)
    if len(found) > most:
        console.print(f"... and {len(found) - most:,} more")
