"""A match explanation as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from ..values import MatchExplanation, Passage
from .difference import LONGEST_CHANGE, cut, difference_html
from .escape import escape, label_html, plain_text, shortened
from .style import facts, more_note, page

MOST_SHINGLES, MOST_ROWS = 200, 50  # shingles and candidate rows listed
MOST_PASSAGES, PASSAGE_CONTEXT = 50, 120  # passages listed, and characters shown before and after each
MOST_CONNECTING = 5  # documents listed between a dismissed pair


def explanation_page(found: MatchExplanation) -> str:
    return page(" and ".join(shortened(plain_text(key), 200) for key in (found.key_a, found.key_b)), explanation_html(found))


def verdict(found: MatchExplanation) -> str:
    if found.dismissed:
        return "no match: it was dismissed"
    if found.allowed:
        return "no match: one is like an allowed text"
    return "a match" if found.is_match else "no match"


def still_connected(found: MatchExplanation) -> str:
    """How a dismissed pair is still connected, in words; "" for other pairs."""
    if found.connected_by is None:
        return ""
    named = ", ".join(shortened(plain_text(key), 60) for key in found.connected_by[:MOST_CONNECTING])
    more = len(found.connected_by) - MOST_CONNECTING
    return f"in one cluster all the same, through {named}{f' and {more:,} more' if more > 0 else ''}"


def shared_rows_text(found: MatchExplanation) -> str:
    return f"in {f'{len(found.met):,}' if found.met else 'none'} of {found.probes:,} places of {found.table}"


def explanation_html(found: MatchExplanation) -> str:
    a, b = label_html(found.key_a), label_html(found.key_b)
    rows = [
        ("verdict", f"<strong>{verdict(found)}</strong>"),
        ("connected", escape(still_connected(found))),
        ("similarity by the scheme", f"{found.similarity:.4f}"),
        ("distance", f"{found.distance:,} bits" if found.distance is not None else ""),
        ("true Jaccard similarity", "" if found.jaccard is None else f"{found.jaccard:.4f}"),
        ("scheme", escape(found.scheme)),
        ("met", escape(shared_rows_text(found))),
    ]
    parts = [
        f'<h1 dir="auto">{a} <span class="nd-quiet">and</span> {b}</h1>',
        facts((name, value) for name, value in rows if value),
    ]
    if found.passages is not None and found.text_a is not None and found.text_b is not None:
        parts.append(_passages_html(found.passages, found.text_a, found.text_b, a, b))
    elif found.text_a is not None and found.text_b is not None:
        parts += ["<h2>The texts</h2>", difference_html(found.text_a, found.text_b, label_a=found.key_a, label_b=found.key_b)]
    if found.passages is None and found.shared is not None and found.only_a is not None and found.only_b is not None:
        parts.append("<h2>Shingles</h2>")
        parts.append(_shingles("Only in the first", found.only_a, "del", is_open=True))
        parts.append(_shingles("Only in the second", found.only_b, "ins", is_open=True))
        parts.append(_shingles("Shared", found.shared, "span", is_open=False))
    if found.met:
        parts.append(_shared_rows_html(found))
    return "".join(parts)


def _passages_html(passages: tuple[Passage, ...], text_a: str, text_b: str, a: str, b: str) -> str:
    """Each passage with what stands around it in both texts, side by side."""
    heads = "".join(f'<div class="nd-side nd-key" dir="auto">{key}</div>' for key in (a, b))
    rows = [f'<div class="nd-row nd-heads">{heads}</div>']
    for _, start, end, other_start, other_end, _ in passages[:MOST_PASSAGES]:
        sides = (text_a, start, end, a), (text_b, other_start, other_end, b)
        rows.append(f'<div class="nd-row">{"".join(_passage_side(*side) for side in sides)}</div>')
    rows.append(more_note(len(passages) - MOST_PASSAGES))
    return f'<h2>Common passages: {len(passages):,}</h2><div class="nd-diff">{"".join(rows)}</div>'


def _passage_side(text: str, start: int, end: int, label: str) -> str:
    before, after = text[max(0, start - PASSAGE_CONTEXT) : start], text[end : end + PASSAGE_CONTEXT]
    passage = f"<mark>{escape(cut(text[start:end], LONGEST_CHANGE))}</mark>"
    head, tail = "… " if start > PASSAGE_CONTEXT else "", " …" if end + PASSAGE_CONTEXT < len(text) else ""
    shown = f"{head}{escape(before)}{passage}{escape(after)}{tail}"
    return f'<div class="nd-side" dir="auto" data-label="{label}">{shown}</div>'


def _shingles(title: str, shingles: tuple[str, ...], tag: str, is_open: bool) -> str:
    if not shingles:
        return f"<p>{title}: none</p>"
    return (
        f'<details class="nd-member"{" open" if is_open else ""}><summary>{title}: {len(shingles):,}</summary>'
        f"{_listed(shingles, tag, MOST_SHINGLES)}</details>"
    )


def _listed(items: Sequence[str], tag: str, most: int) -> str:
    listed = "".join(f'<li dir="auto"><{tag}>{label_html(item)}</{tag}></li>' for item in items[:most])
    return f'<ul class="nd-shingles">{listed}</ul>{more_note(len(items) - most)}'


def _shared_rows_html(found: MatchExplanation) -> str:
    numbered = any(table for table, _ in found.met)
    rows = [(f"{table}: " if numbered else "") + plain_text(key) for table, key in found.met]
    what = "Number of the table and key" if numbered else "Keys"
    return (
        f"<h2>Where they met</h2><p>{what} of the rows of {escape(found.table)} that both have.</p>"
        f"{_listed(rows, 'span', MOST_ROWS)}"
    )
