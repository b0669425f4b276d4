"""Why two documents match, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .difference import difference_html
from .escape import escape, label_html, plain_text, shortened
from .style import facts, page

if TYPE_CHECKING:
    from ..store.explain import MatchExplanation

MOST_SHINGLES, MOST_ROWS = 200, 50
"""Shingles, and rows of a candidate table, that are listed."""


def explanation_page(found: MatchExplanation) -> str:
    """A whole HTML document."""
    return page(" and ".join(shortened(plain_text(key), 200) for key in (found.key_a, found.key_b)), explanation_html(found))


def verdict(found: MatchExplanation) -> str:
    """In a word or two."""
    return "a match" if found.is_match else "no match"


def where_met(found: MatchExplanation) -> str:
    """In which of its rows the candidate table has both."""
    if found.table is None:
        return "a query compares with every document"
    if not found.met:
        return f"in none of {found.probes:,} places of {found.table}"
    return f"in {len(found.met):,} of {found.probes:,} places of {found.table}"


def explanation_html(found: MatchExplanation) -> str:
    """Figures, where the two met, shingles, and the texts side by side."""
    a, b = label_html(found.key_a), label_html(found.key_b)
    rows = [
        ("verdict", f"<strong>{verdict(found)}</strong>"),
        ("similarity by the scheme", f"{found.similarity:.4f}"),
        ("distance", f"{found.distance:,} bits" if found.distance is not None else ""),
        ("true Jaccard similarity", "" if found.jaccard is None else f"{found.jaccard:.4f}"),
        ("scheme", escape(found.scheme)),
        ("met", escape(where_met(found))),
    ]
    parts = [
        f'<h1 dir="auto">{a} <span class="nd-quiet">and</span> {b}</h1>',
        facts((name, value) for name, value in rows if value),
    ]
    if found.text_a is not None and found.text_b is not None:
        parts += ["<h2>The texts</h2>", difference_html(found.text_a, found.text_b, label_a=found.key_a, label_b=found.key_b)]
    if found.shared is not None and found.only_a is not None and found.only_b is not None:
        parts.append("<h2>Shingles</h2>")
        parts.append(_shingles("Only in the first", found.only_a, "del", is_open=True))
        parts.append(_shingles("Only in the second", found.only_b, "ins", is_open=True))
        parts.append(_shingles("Shared", found.shared, "span", is_open=False))
    if found.met:
        parts.append(_met(found))
    return "".join(parts)


def _shingles(title: str, shingles: tuple[str, ...], tag: str, is_open: bool) -> str:
    if not shingles:
        return f"<p>{title}: none</p>"
    listed = "".join(f'<li dir="auto"><{tag}>{label_html(one)}</{tag}></li>' for one in shingles[:MOST_SHINGLES])
    more = len(shingles) - MOST_SHINGLES
    told = f'<p class="nd-note">and {more:,} more</p>' if more > 0 else ""
    return (
        f'<details class="nd-member"{" open" if is_open else ""}><summary>{title}: {len(shingles):,}</summary>'
        f'<ul class="nd-shingles">{listed}</ul>{told}</details>'
    )


def _met(found: MatchExplanation) -> str:
    numbered = any(table for table, _ in found.met)
    rows = [(f"{table}: " if numbered else "") + plain_text(key) for table, key in found.met[:MOST_ROWS]]
    listed = "".join(f"<li><span>{label_html(row)}</span></li>" for row in rows)
    more = len(found.met) - MOST_ROWS
    told = f'<p class="nd-note">and {more:,} more</p>' if more > 0 else ""
    what = "Number of the table and key" if numbered else "Keys"
    return (
        f"<h2>Where they met</h2><p>{what} of the rows of {escape(found.table)} that both have.</p>"
        f'<ul class="nd-shingles">{listed}</ul>{told}'
    )
