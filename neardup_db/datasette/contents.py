"""Page contents for the templates, read from an index on Datasette's connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ..clock import now_ms
from ..errors import MismatchError, ParameterError
from ..index import Index
from ..show.charts import grid
from ..show.difference import difference_html
from ..show.escape import shortened
from ..show.figures import collect, largest, moment
from ..store.layout.schema import sql_text
from ..values import Key, Part
from .foreign import Cursor, open_index, similarities

CLUSTERS, MOST_CLUSTERS = 20, 1000  # clusters in an index page's table: by default, and at most

VISIBLE = sql_text("visible")

MEMBERS = 20  # documents on one page of a cluster
MATCHES, MOST_MATCHES = 20, 200  # matches shown by a search: by default, and at most
COMPARED = 400_000  # characters compared for one page; later documents are shown without differences
LONGEST_COMPARED = 2_000_000  # the maximum text length for a comparison, and the number of characters read
GROUPS = 200  # the maximum number of groups in the search form

LONGEST_TEXT, LONGEST_METADATA, BEGINNING = 20_000, 2_000, 100
"""Characters shown of a text, of metadata, and of a text in a table."""

MAX_NUMBER = (1 << 63) - 1


class Problem(Exception):  # becomes an error page
    def __init__(self, reason: str, title: str = "Not found", status: int = 404) -> None:
        super().__init__(reason, title, status)


@dataclass(slots=True)
class Entry:
    """A document on a page.

    like: key, similarity and distance of its recorded matches; part: the name of the matching code, if it has one; difference:
    HTML, if there are texts to compare; left_out: the texts were too long to compare.
    """

    id: int
    key: Key
    cluster: int | None
    added_at: str
    times_seen: int
    metadata: str
    text: str | None
    like: list[tuple[Key, float, int | None]]
    similarity: float | None = None
    distance: int | None = None
    part: Part | None = None
    difference: Markup | None = None
    left_out: bool = False

    @property
    def short_text(self) -> str:
        return shortened(self.text or "", LONGEST_TEXT)


# ---- the page of an index --------------------------------------------------------------------------------------------


def overview(db: Cursor, name: str, count: int) -> dict[str, Any]:
    """Figures, charts, search box and the largest clusters."""
    figures = collect(db, name)
    clusters = largest(db, name, count + 1)
    sql = f"SELECT substr(text, 1, {2 * BEGINNING}) FROM {name}_document WHERE key = ?"
    texts = {row.cluster: _beginning(*(db.execute(sql, (row.representative,)).fetchone() or (None,))) for row in clusters[:count]}
    return {
        "figures": figures,
        "charts": Markup(grid(figures)),
        "clusters": clusters[:count],
        "beginnings": texts if any(texts.values()) else None,
        "more_clusters": min(count + 80, MOST_CLUSTERS) if len(clusters) > count and count < MOST_CLUSTERS else None,
        "allowed": allowed(db, name),
        "recorded": bool(figures.settings.get("record_matches")),
        "form": form(db, name),
    }


def _beginning(text: str | None) -> str:
    return shortened(" ".join((text or "").split()), BEGINNING)


def allowed(db: Cursor, name: str) -> list[tuple[int, str, str, str]]:
    if not _has_table(db, f"{name}_allowed"):
        return []
    rows = db.execute(f"SELECT id, allowed_at, note, substr(text, 1, {2 * BEGINNING}) FROM {name}_allowed ORDER BY id")
    return [(number, moment(at), note or "", _beginning(text)) for number, at, note, text in rows]


def form(db: Cursor, name: str) -> dict[str, Any]:
    """`problem`: why the index cannot be searched, or None."""
    try:
        with open_index(db, name) as index:
            scheme = index.scheme
    except MismatchError as error:
        return {"problem": str(error)}
    try:
        scheme.query_bounds(None, None, "containment")
        containment = True
    except ParameterError:
        containment = False
    groups = db.execute(f"SELECT id, name FROM {name}_group ORDER BY id LIMIT {GROUPS}").fetchall()
    return {"problem": None, "codes": not scheme.takes_text, "scheme": repr(scheme), "containment": containment, "groups": groups}


# ---- the page of a cluster -------------------------------------------------------------------------------------------


def cluster(db: Cursor, name: str, label: int, first: int, beside: int) -> dict[str, Any]:
    """A page of a cluster's documents, starting at `first`. Each is compared with the document `beside`, by default (0) the
    earliest. Raises Problem."""
    if abs(label) > MAX_NUMBER:
        raise Problem(f"No cluster has the number {label}.")
    here = f"FROM {name}_document WHERE cluster_id = :label AND {VISIBLE}"
    asked = {"label": label, "now": now_ms(), "most": MEMBERS, "first": first}
    size, earliest = db.execute(f"SELECT count(*), min(id) {here}", asked).fetchone()
    if not size:
        raise Problem(f"Index {name!r} has no cluster {label}, or no document of it is left.")
    page = db.execute(f"SELECT id {here} ORDER BY id LIMIT :most OFFSET :first", asked).fetchall()
    head_id = beside or earliest
    entries = _entries(db, name, [head_id, *(number for (number,) in page if number != head_id)])
    head = entries.pop(head_id, None)
    if head is None or head.cluster != label:
        raise Problem(f"Document {head_id} is not in cluster {label} of index {name!r}.")
    others = list(entries.values())
    _measure(db, name, head_id, others)
    _compare(others, head.text, head.key)
    return {
        "label": label,
        "size": size,
        "head": head,
        "entries": others,
        "has_texts": any(entry.text is not None for entry in [head, *others]),
        "dismissed": _dismissed(db, name, head_id),
        "chosen": bool(beside),
        "first": first,
        "before": max(first - MEMBERS, 0) if first else None,
        "after": first + MEMBERS if first + MEMBERS < size else None,
    }


def _entries(db: Cursor, name: str, ids: Iterable[int]) -> dict[int, Entry]:
    """The visible ones of some documents, by their numbers."""
    document = (
        f"SELECT key, cluster_id, added_at, times_seen, substr(metadata, 1, {LONGEST_METADATA + 1}), "
        f"substr(text, 1, {LONGEST_COMPARED + 1}) FROM {name}_document WHERE id = :id AND {VISIBLE}"
    )
    matches = (
        f"SELECT d.key, m.similarity, m.distance FROM {name}_match AS m JOIN {name}_document AS d ON d.id = m.other_id "
        f"WHERE m.document_id = :id AND {VISIBLE} ORDER BY m.similarity DESC, d.id LIMIT 4"
    )
    entries = {}
    now = now_ms()
    for number in ids:
        asked = {"id": number, "now": now}
        for key, label, added, times, metadata, text in db.execute(document, asked).fetchall():
            like, metadata = db.execute(matches, asked).fetchall(), shortened(metadata or "", LONGEST_METADATA)
            entries[number] = Entry(number, key, label, moment(added), times, metadata, text, like)
    return entries


def _measure(db: Cursor, name: str, head_id: int, others: list[Entry]) -> None:
    """Sets the similarities to a document by the index's own rule. They stay None if the text rules are unknown or the SQL
    functions cannot be loaded."""
    try:
        with open_index(db, name) as index:
            measured = similarities(index, head_id, [entry.id for entry in others])
    except MismatchError:
        return
    for entry in others:
        entry.similarity, entry.distance = measured[entry.id]


def _compare(entries: list[Entry], text: str | None, key: Key) -> None:
    """Sets the differences from a text, up to COMPARED characters in total."""
    left = COMPARED
    for number, entry in enumerate(entries):
        if text is None or entry.text is None:
            continue
        needed = len(text) + len(entry.text)
        entry.left_out = max(len(text), len(entry.text)) > LONGEST_COMPARED or (needed > left and number > 0)
        if not entry.left_out:
            left -= needed
            entry.difference = Markup(difference_html(text, entry.text, label_a=key, label_b=entry.key))


def _has_table(db: Cursor, table: str) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    return db.execute(sql, (table,)).fetchone() is not None


def _dismissed(db: Cursor, name: str, document_id: int) -> set[int]:
    if not _has_table(db, f"{name}_dismissed"):
        return set()
    sql = f"SELECT iif(document_id = :id, other_id, document_id) FROM {name}_dismissed WHERE document_id = :id OR other_id = :id"
    return {number for (number,) in db.execute(sql, {"id": document_id})}


# ---- buttons ---------------------------------------------------------------------------------------------------------


def key_of(db: Cursor, name: str, document_id: int) -> Key:
    """The key of a visible document. Raises Problem."""
    sql = f"SELECT key FROM {name}_document WHERE id = :id AND {VISIBLE}"
    row = db.execute(sql, {"id": document_id, "now": now_ms()}).fetchone()
    if row is None:
        raise Problem(f"Index {name!r} has no document {document_id}, or no longer.")
    key: Key = row[0]
    return key


def shown_cluster(db: Cursor, name: str, sent: Mapping[str, str]) -> int | None:
    """The cluster whose page had the button, otherwise the document's own; None if it no longer exists."""
    sql = f"""SELECT cluster_id FROM {name}_document WHERE (cluster_id = ? OR id = ?) AND cluster_id IS NOT NULL
              ORDER BY cluster_id <> ?"""
    numbers = [int(text) if (text := sent.get(field, "")).lstrip("-").isdecimal() else 0 for field in ("cluster", "a")]
    if max(map(abs, numbers)) > MAX_NUMBER:
        return None
    row = db.execute(sql, (*numbers, numbers[0])).fetchone()
    return None if row is None else row[0]


def notice(db: Cursor, name: str, done: str, document_id: int) -> dict[str, Any] | None:
    """The effect of a button, if the file confirms it: the document's key and number, and the reverse action."""
    if done == "apart":
        confirmed = bool(_dismissed(db, name, document_id))
    elif done == "allow" and _has_table(db, f"{name}_allowed"):
        sql = f"SELECT 1 FROM {name}_allowed_document WHERE document_id = ?"
        confirmed = db.execute(sql, (document_id,)).fetchone() is not None
    else:
        return None
    try:
        key = key_of(db, name, document_id)
    except Problem:  # expired meanwhile
        return None
    return {"done": done, "id": document_id, "key": key, "undo": "back" if done == "apart" else "disallow"} if confirmed else None


# ---- the search ------------------------------------------------------------------------------------------------------


def search(db: Cursor, name: str, sent: Mapping[str, str] | None) -> dict[str, Any]:
    """The matches for a submitted form, or the empty form. A form with an invalid value is returned with the reason."""
    context: dict[str, Any] = {"form": form(db, name), "sent": sent or {}, "entries": None, "error": None}
    if sent is None or context["form"]["problem"]:
        return context
    try:
        with open_index(db, name) as index:
            found, text = _answer(db, name, index, sent)
    except ParameterError as error:
        return {**context, "error": str(error), "status": 400}
    _compare(found, text, "your text")
    return {**context, "entries": found}


def _answer(db: Cursor, name: str, index: Index, sent: Mapping[str, str]) -> tuple[list[Entry], str | None]:
    subject = sent.get("text", "").replace("\r\n", "\n")  # browsers submit \r\n at line ends
    options: dict[str, Any] = {"limit": min(_integer(sent, "limit", MATCHES), MOST_MATCHES), "group": _group(db, name, sent)}
    if threshold := sent.get("threshold", "").strip():
        options["threshold"] = threshold  # a text is refused like a number out of range
        with suppress(ValueError):
            options["threshold"] = float(threshold)
    if index.scheme.takes_text:
        if sent.get("measure") == "containment":
            options["measure"] = "containment"
        matches = index.query(subject, **options)
    else:
        matches = index.query_code("".join(subject.split()), **options)
    sql = f"SELECT id FROM {name}_document WHERE key = ?"
    found = {db.execute(sql, (match.key,)).fetchone()[0]: match for match in matches}
    entries = _entries(db, name, found)
    for number, entry in entries.items():
        match = found[number]
        entry.similarity, entry.distance, entry.part = match.similarity, match.distance, match.part
    return list(entries.values()), subject if index.scheme.takes_text else None


def _group(db: Cursor, name: str, sent: Mapping[str, str]) -> Key | None:
    """The chosen group, by its number; None for documents without a group."""
    number = _integer(sent, "group", 0)
    if not number:
        return None
    row = db.execute(f"SELECT name FROM {name}_group WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise ParameterError(f"group={number} is not a group of this index: choose one from the list")
    group: Key = row[0]
    return group


def _integer(sent: Mapping[str, str], name: str, fallback: int) -> int:
    text = sent.get(name, "").strip()
    if not text:
        return fallback
    if not text.isdecimal() or len(text) > 18:
        raise ParameterError(f"{name}={text!r} is not a whole number of 0 or more")
    return int(text)
