"""Word differences of two texts, as parts and as side-by-side HTML in the style show.style.CSS.

Joining all `a` of the parts gives the first text, joining all `b` the second. Text is always escaped: `<script>` is shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from os.path import commonprefix
from typing import Literal, NamedTuple

from .escape import escape, label_html

WORD_LIMIT = 200_000  # below this number of characters in both texts, excluding equal ends, words are compared
SENTENCE_LIMIT = 4_000_000  # below, sentences, then the words of those that differ; above, the texts are one difference
MOST_ITEMS = 50_000  # words or sentences compared; difflib needs about a second for them

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U000323af"
)
"""Thai, Lao, Burmese, Khmer, Chinese and Japanese have no spaces between words, so each grapheme is compared as a word."""

SENTENCE = re.compile(r"[^.!?。！？\n]{0,1000}[.!?。！？\n]*\s*")

Kind = Literal["equal", "delete", "insert", "replace"]


class Part(NamedTuple):
    """A stretch of two texts. `equal`: in both (spaces may differ); otherwise `b` replaces `a`."""

    kind: Kind
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The parts of two texts, in order. coarse: some parts are larger than the differing words, because the texts are too long or
    too different to compare word by word in about a second."""

    parts: tuple[Part, ...]
    coarse: bool = False

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    @property
    def is_equal(self) -> bool:
        return all(part.kind == "equal" for part in self.parts)


def differences(a: str, b: str, *, words: bool = False) -> Comparison:
    """The differences of two texts, word by word, ignoring spaces and line breaks.

    words=True: also ignore case and punctuation, as an index does with the default text rules.

    >>> from neardup_db.show.difference import differences
    >>> for part in differences("The cat sat on the mat.", "The dog sat on the mat!"):
    ...     print(part.kind, repr(part.a), repr(part.b))
    equal 'The ' 'The '
    replace 'cat ' 'dog '
    equal 'sat on the mat' 'sat on the mat'
    replace '.' '!'
    """
    head, tail = _equal_ends(a, b)
    end_a, end_b = len(a) - tail, len(b) - tail
    middle, complete = _compared(a[head:end_a], b[head:end_b], words)
    parts = _merged([Part("equal", a[:head], b[:head]), *middle, Part("equal", a[end_a:], b[end_b:])])
    return Comparison(tuple(parts), not complete)


def _compared(a: str, b: str, words: bool) -> tuple[list[Part], bool]:
    size = len(a) + len(b)
    if size <= WORD_LIMIT:
        return _aligned(_tokens(a, words), _tokens(b, words))
    if size > SENTENCE_LIMIT:
        return [Part("replace", a, b)], False
    sentences, complete = _aligned(*([(piece, piece) for piece in SENTENCE.findall(text) if piece] for text in (a, b)))
    parts: list[Part] = []
    for part in sentences:
        if part.kind == "replace" and len(part.a) + len(part.b) <= WORD_LIMIT:
            finer, fine = _aligned(_tokens(part.a, words), _tokens(part.b, words))
            parts += finer
            complete &= fine
        else:
            parts.append(part)
            complete &= part.kind != "replace"
    return parts, complete


def _aligned(a: list[tuple[str, str]], b: list[tuple[str, str]]) -> tuple[list[Part], bool]:
    if a and b and len(a) + len(b) > MOST_ITEMS:
        return [Part("replace", _text(a), _text(b))], False
    matcher = SequenceMatcher(None, [key for key, _ in a], [key for key, _ in b])
    return [Part(kind, _text(a[i:k]), _text(b[j:m])) for kind, i, k, j, m in matcher.get_opcodes()], True


def _text(tokens: list[tuple[str, str]]) -> str:
    return "".join(text for _, text in tokens)


def _merged(parts: list[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        if not part.a and not part.b:
            continue
        if merged and merged[-1].kind == part.kind == "equal":
            merged[-1] = Part("equal", merged[-1].a + part.a, merged[-1].b + part.b)
        else:
            merged.append(part)
    return merged


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """A token with its spaces: a word with its marks, a grapheme of a script without spaces, or a run of other characters."""
    marks = "".join(re.escape(chr(point)) for point in range(0x300, 0x1F000) if unicodedata.category(chr(point))[0] == "M")
    return re.compile(
        rf"(?:(?P<word>[{UNSPACED}][{marks}\u200d]*|[^\W{UNSPACED}](?:[^\W{UNSPACED}]|[{marks}])*)|[^\w\s{UNSPACED}]+)\s*|\s+"
    )


def _tokens(text: str, words: bool) -> list[tuple[str, str]]:
    """The tokens of a text as (comparison key, text). With `words`, punctuation belongs to the word before it."""
    found: list[tuple[str, str]] = []
    for match in _pattern().finditer(text):
        token = match[0]
        if not words:
            found.append((token.rstrip(), token))
        elif match["word"] is None and found:
            key, before = found[-1]
            found[-1] = key, before + token
        else:
            found.append(((match["word"] or "").casefold(), token))
    if len(found) > 1 and not found[0][0]:
        found[:2] = [(found[1][0], found[0][1] + found[1][1])]
    return found


def _equal_ends(a: str, b: str) -> tuple[int, int]:
    """The number of equal characters at the beginning and at the end, rounded down to a space."""
    head = len(commonprefix([a, b]))
    if head < max(len(a), len(b)):
        head = max(a.rfind(" ", 0, head), a.rfind("\n", 0, head)) + 1
    tail = len(commonprefix([a[head:][::-1], b[head:][::-1]]))
    begin = len(a) - tail
    spaces = [place for place in (a.find(" ", begin), a.find("\n", begin)) if place >= 0]
    return head, len(a) - min(spaces) - 1 if tail and spaces else 0


CONTEXT = 240  # characters shown at either end of a long equal stretch
MOST_CHANGES, LONGEST_CHANGE = 200, 4_000  # differences shown, and characters of each


def rows(compared: Comparison, most: int = MOST_CHANGES, longest: int = LONGEST_CHANGE) -> Iterator[list[Part]]:
    """The parts to show, in rows; a row ends where a long equal stretch is omitted. At most `most` differences, with at most
    `longest` characters each; brackets give the number of characters omitted within a row."""
    row: list[Part] = []
    changes = 0
    for place, part in enumerate(compared.parts):
        changes += part.kind != "equal"
        if changes > most:
            break
        if part.kind != "equal":
            row.append(Part(part.kind, cut(part.a, longest), cut(part.b, longest)))
        elif max(len(part.a), len(part.b)) <= 3 * CONTEXT:
            row.append(part)
        else:
            head, tail = place > 0, place < len(compared.parts) - 1 or place == 0
            if head:
                row.append(Part("equal", _head(part.a), _head(part.b)))
                yield row
            row = [Part("equal", _tail(part.a, head), _tail(part.b, head))] if tail else []
    if row:
        yield row


def notes(compared: Comparison, most: int = MOST_CHANGES) -> list[str]:
    found = []
    if compared.is_equal:
        found.append("No word differs.")
    if compared.coarse:
        found.append("These texts are too long or too different to be compared word by word: larger pieces are marked.")
    changes = sum(part.kind != "equal" for part in compared.parts)
    if changes > most:
        found.append(f"The first {most} of {changes:,} differences are shown.")
    return found


def difference_html(
    a: str,
    b: str,
    *,
    label_a: object = "A",
    label_b: object = "B",
    words: bool = False,
    most: int = MOST_CHANGES,
    longest: int = LONGEST_CHANGE,
) -> str:
    """Two escaped texts side by side (one below the other on a phone), with <del> and <ins> around the differences.

    Long equal stretches are omitted, as are differences after the first `most` and characters after `longest` in a difference;
    the page says where and how much. Labels are cut at 200 characters.

    >>> from neardup_db.show.difference import difference_html
    >>> "<del>cat</del> sat" in difference_html("the cat sat", "the dog sat")
    True
    """
    compared = differences(a, b, words=words)
    labels = label_html(label_a), label_html(label_b)
    heads = "".join(f'<div class="nd-side nd-key" dir="auto">{label}</div>' for label in labels)
    shown = "".join(
        f'<div class="nd-row">{_side_cell(row, "a", labels[0])}{_side_cell(row, "b", labels[1])}</div>'
        for row in rows(compared, most=most, longest=longest)
    )
    told = "".join(f'<p class="nd-note">{note}</p>' for note in notes(compared, most))
    return f'<div class="nd-diff"><div class="nd-row nd-heads">{heads}</div>{shown}{told}</div>'


def _head(text: str) -> str:
    return text[: text.rfind(" ", CONTEXT // 2, CONTEXT) + 1 or CONTEXT] + "[…]"


def _tail(text: str, head: bool) -> str:
    """The end of a long equal stretch, from a space on, after the number of omitted characters. head: its beginning is shown."""
    begin = text.find(" ", len(text) - CONTEXT, len(text) - CONTEXT // 2) + 1 or len(text) - CONTEXT
    left_out = begin - (len(_head(text)) - len("[…]") if head else 0)
    return f"[… {left_out:,} equal characters …] {text[begin:]}"


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} [… {len(text) - longest:,} more characters] "


def _side_cell(row: list[Part], side: Literal["a", "b"], label: str) -> str:
    """One cell: one side's text. The label is shown if cells are one below the other."""
    shown = []
    for part in row:
        text = part.a if side == "a" else part.b
        if part.kind == "equal":
            shown.append(escape(text))
        elif text:
            marked, spaces = split_spaces(text)
            tag = "del" if side == "a" else "ins"
            shown.append(f"<{tag}>{escape(marked)}</{tag}>{escape(spaces)}")
    return f'<div class="nd-side" dir="auto" data-label="{label}">{"".join(shown)}</div>'


def split_spaces(text: str) -> tuple[str, str]:
    """A difference split into text and trailing spaces, which are not marked; a difference of spaces only is marked."""
    marked = text.rstrip() or text
    return marked, text[len(marked) :]
