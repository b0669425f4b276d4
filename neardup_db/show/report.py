"""An index report: one HTML file with key figures, charts, and the largest clusters with their differences."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .charts import grid
from .difference import difference_html
from .escape import escape, label_html
from .figures import Figures, by_size, collect, largest, members
from .style import more_note, page

if TYPE_CHECKING:
    from ..reader import Reader
    from ..values import Document, Key

EXACT = 20_000_000  # up to this many ids a report counts everything, since it may take longer than a page
CHANGES, LONGEST = 40, 600  # differences shown for two texts, and characters of each: a few megabytes for hundreds
TEXT_LIMIT = 200_000  # characters of a text that are compared, few enough for a comparison word by word


def figures_of(index: Reader) -> Figures:
    """The figures of an open index. If the index does not record matches, its clusters are computed."""
    figures = collect(index.connection, index.name, most=EXACT)
    if figures.settings["record_matches"]:
        return figures
    sizes, clusters, duplicates = by_size(Counter(len(cluster) for cluster in index.clusters()))
    return replace(figures, sizes=sizes, clusters=clusters, duplicates=duplicates)


def report_page(index: Reader, title: str, clusters: int = 20, most: int = 10) -> str:
    """The report as an HTML document: the largest `clusters`, with the first `most` documents of each.

    >>> from neardup_db import Index, MinHash
    >>> from neardup_db.show.report import report_page
    >>> with Index(":memory:", MinHash(), store_text=True) as index:
    ...     matches = index.add("a", "one text of a few words"), index.add("b", "One text of a few words!")
    ...     html = report_page(index, "A report")
    >>> "<h1" in html, "<script" in html
    (True, False)
    """
    figures = figures_of(index)
    groups = list(_groups(index, figures, clusters, most))
    made = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    parts = [
        f'<h1 dir="auto">{label_html(title)}</h1>',
        f'<p class="nd-quiet">Index {escape(index.name)}, {escape(index.scheme)}, as of {made} UTC.</p>',
        _key_figures(figures),
        "<h2>Charts</h2>",
        grid(figures),
        "<h2>The largest clusters</h2>",
        "".join(_cluster(index, place, *group) for place, group in enumerate(groups)) or "<p>There is no cluster.</p>",
    ]
    if figures.clusters > len(groups):
        parts.append(f'<p class="nd-note">The first {len(groups):,} of {figures.clusters:,} clusters.</p>')
    return page(title, "".join(parts))


def _groups(index: Reader, figures: Figures, clusters: int, most: int) -> Iterator[tuple[int, list[Key]]]:
    """The size and the first keys of each cluster."""
    connection, name = index.connection, index.name
    if figures.settings["record_matches"]:
        for cluster in largest(connection, name, clusters, most=EXACT):
            yield cluster.size, members(connection, name, cluster.cluster, most)
    else:
        yield from ((len(cluster), list(cluster.keys[:most])) for cluster in index.clusters()[:clusters])


def _key_figures(figures: Figures) -> str:
    share = figures.duplicates / figures.documents if figures.documents else 0.0
    shown = {
        "Documents": f"{figures.documents:,}",
        "Duplicates": f"{figures.duplicates:,}",
        "Share of duplicates": f"{share:.1%}",
        "Clusters": f"{figures.clusters:,}",
        "Recorded matches": f"{figures.matches:,}" if figures.settings["record_matches"] else "not kept",
    }
    if figures.expired:
        shown["Expired"] = f"{figures.expired:,}"
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in shown.items())
    return f'<dl class="nd-figures">{cells}</dl>'


def _cluster(index: Reader, place: int, size: int, keys: list[Key]) -> str:
    """One cluster: its earliest document, and the others compared with it. Only the first cluster is unfolded."""
    group = [document for document in index.get_many(keys) if document is not None]
    if not group:
        return ""
    first, others = group[0], group[1:]
    similar = {match.key: match.similarity for match in index.matches(first.key)} if first.key in index else {}
    shown = "".join(_member(first, other, similar.get(other.key)) for other in others)
    return (
        f'<details class="nd-cluster"{"" if place else " open"}><summary><span class="nd-badge">{size:,} documents</span> '
        f'<span class="nd-key" dir="auto">{label_html(first.key)}</span></summary>{_metadata(first)}{shown}'
        f"{more_note(size - len(group))}</details>"
    )


def _member(first: Document, other: Document, similarity: float | None) -> str:
    near = "joined through others" if similarity is None else f"{similarity:.4f}"
    head = f'<span class="nd-key" dir="auto">{label_html(other.key)}</span> <span class="nd-badge">{near}</span>'
    if first.text is None or other.text is None:
        return f'<div class="nd-member">{head}{_metadata(other)}</div>'
    texts = first.text[:TEXT_LIMIT], other.text[:TEXT_LIMIT]
    compared = difference_html(*texts, label_a=first.key, label_b=other.key, most=CHANGES, longest=LONGEST)
    return f'<details class="nd-member" open><summary>{head}</summary>{_metadata(other)}{compared}</details>'


def _metadata(document: Document) -> str:
    if document.metadata is None:
        return ""
    return f'<p class="nd-note" dir="auto">{label_html(json.dumps(document.metadata, ensure_ascii=False), 500)}</p>'
