"""Word differences of two texts, as lines."""

from __future__ import annotations

from ..show.difference import Part, differences

LONGEST = 60  # the characters shown of a difference


def changes(first: str, second: str, most: int, around: int = 3) -> list[str]:
    """The first `most` word differences of two texts, a line each with `around` common words on either side, and the number of
    the others. [-these words-] are in the first text, {+these+} in the second.

    Case and punctuation are ignored, as with the default text rules.

    >>> from neardup_db.cli.difference import changes
    >>> changes("the cat sat on the mat", "the dog sat on the mat", most=5, around=1)
    ['the [-cat-] {+dog+} sat']
    """
    parts = [Part("equal", "", ""), *differences(first, second, words=True).parts, Part("equal", "", "")]
    found = [place for place, part in enumerate(parts) if part.kind != "equal"]
    lines = []
    for place in found[:most]:
        before, part, after = parts[place - 1 : place + 2]
        words = [*_common(before)[-around:], *_marked("[-", part.a, "-]"), *_marked("{+", part.b, "+}"), *_common(after)[:around]]
        lines.append(" ".join(words))
    return lines + ([f"and {len(found) - most:,} more"] if len(found) > most else [])


def _common(part: Part) -> list[str]:
    return part.a.split() if part.kind == "equal" else []


def _marked(begin: str, text: str, end: str) -> list[str]:
    words = " ".join(text.split())
    shown = words if len(words) <= LONGEST else f"{words[:LONGEST]}…"
    return [f"{begin}{shown}{end}"] if words else []
