"""Page contents for the templates, read from an index on Datasette's connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from ..clock import now_ms
from ..errors import MismatchError, ParameterError
from ..index import Index
from ..show.charts import grid
from ..show.difference import difference_html
from ..show.escape import escape, shortened
from ..show.figures import collect, largest, moment
from ..store.layout.schema import sql_text
from ..values import Key, Part
from .foreign import ForeignDatabase, load_functions, open_index, similarities

CLUSTERS, MOST_CLUSTERS = 20, 1000
"""Clusters in an index page's table: by default, and at most."""

VISIBLE = sql_text("visible")

MEMBERS = 20
"""Documents on one page of a cluster."""

MATCHES, MOST_MATCHES = 20, 200
"""Matches shown by a search: by default, and at most."""

COMPARED = 400_000
"""Characters compared for one page; later documents are shown without differences."""

LONGEST_COMPARED = 2_000_000
"""The maximum text length for a comparison, and the number of characters read."""

GROUPS = 200
"""The maximum number of groups in the search form."""

LONGEST_TEXT, LONGEST_METADATA, BEGINNING = 20_000, 2_000, 100
"""Characters shown of a text, of metadata, and of a text in a table."""

MAX_NUMBER = (1 << 63) - 1


class Unknown(Exception):
    pass


def value_html(value: object) -> Markup:
    return Markup(escape(value))


@dataclass(frozen=True, slots=True)
class Entry:
    """A document on a page.

    difference: HTML, if there are texts to compare; left_out: the texts were too long to compare; like: key, similarity and
    distance of its recorded matches; part: the name of the matching code, if it has one.
    """

    id: int
    key: Key
    cluster: int | None
    added_at: str
    times_seen: int
    metadata: str
    text: str | None
    similarity: float | None = None
    distance: int | None = None
    part: Part | None = None
    difference: Markup | None = None
    left_out: bool = False
    like: tuple[tuple[Key, float, int | None], ...] = ()

    @property
    def short_text(self) -> str:
        return shortened(self.text or "", LONGEST_TEXT)


# ---- the page of an index --------------------------------------------------------------------------------------------


def overview(db: ForeignDatabase, name: str, count: int) -> dict[str, Any]:
    """Figures, charts, search box and the largest clusters."""
    figures = collect(db, name)
    clusters = largest(db, name, count + 1)
    beginnings = {row.cluster: _beginning(db, name, row.representative) for row in clusters[:count]}
    return {
        "figures": figures,
        "charts": Markup(grid(figures)),
        "clusters": clusters[:count],
        "beginnings": beginnings if any(beginnings.values()) else None,
        "more_clusters": min(count + 80, MOST_CLUSTERS) if len(clusters) > count and count < MOST_CLUSTERS else None,
        "allowed": allowed(db, name),
        "recorded": bool(figures.settings.get("record_matches")),
        "form": form(db, name),
    }


def _beginning(db: ForeignDatabase, name: str, key: Key) -> str:
    """The first words of a document; "" if texts are not stored."""
    text = db.value(f"SELECT substr(text, 1, {2 * BEGINNING}) FROM {name}_document WHERE key = ?", (key,))
    return shortened(" ".join((text or "").split()), BEGINNING)


def form(db: ForeignDatabase, name: str) -> dict[str, Any]:
    """`problem`: why the index cannot be searched, or None."""
    problem = load_functions(db.connection)
    if problem:
        return {"problem": problem}
    try:
        with open_index(db, name) as index:
            scheme = index.scheme
    except MismatchError as error:
        return {"problem": str(error)}
    try:
        scheme.containment_bounds(None, None)
        containment = True
    except ParameterError:
        containment = False
    groups = db.rows(f"SELECT id, name FROM {name}_group ORDER BY id LIMIT {GROUPS}")
    return {"problem": None, "codes": not scheme.takes_text, "scheme": repr(scheme), "containment": containment, "groups": groups}


# ---- the page of a cluster -------------------------------------------------------------------------------------------


def cluster(db: ForeignDatabase, name: str, label: int, first: int, beside: int, write: bool) -> dict[str, Any]:
    """A page of a cluster's documents, starting at `first`. Each is compared with the document `beside`, by default (0) the
    earliest. write: adds a button to dismiss each of the others. Raises Unknown."""
    if abs(label) > MAX_NUMBER:
        raise Unknown(f"No cluster has the number {label}.")
    here = f"FROM {name}_document WHERE cluster_id = :label AND {VISIBLE}"
    asked = {"label": label, "now": now_ms(), "most": MEMBERS, "first": first}
    size, earliest = db.rows(f"SELECT count(*), min(id) {here}", asked)[0]
    if not size:
        raise Unknown(f"Index {name!r} has no cluster {label}, or no document of it is left.")
    ids = [row[0] for row in db.rows(f"SELECT id {here} ORDER BY id LIMIT :most OFFSET :first", asked)]
    head_id = beside or earliest
    others = [number for number in ids if number != head_id]
    entries = _entries(db, name, [head_id, *others])
    head = entries.get(head_id)
    if head is None or head.cluster != label:
        raise Unknown(f"Document {head_id} is not in cluster {label} of index {name!r}.")
    found = _measured(db, name, head_id, [entries[number] for number in others])
    return {
        "label": label,
        "size": size,
        "head": head,
        "entries": _compared(found, head.text, head.key),
        "has_texts": any(entry.text is not None for entry in entries.values()),
        "dismissed": _dismissed(db, name, head_id),
        "write": write,
        "chosen": bool(beside),
        "first": first,
        "before": max(first - MEMBERS, 0) if first else None,
        "after": first + MEMBERS if first + MEMBERS < size else None,
    }


def _has_table(db: ForeignDatabase, table: str) -> bool:
    return db.value("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)) is not None


def _dismissed(db: ForeignDatabase, name: str, document_id: int) -> set[int]:
    if not _has_table(db, f"{name}_dismissed"):
        return set()
    rows = db.rows(
        f"SELECT other_id FROM {name}_dismissed WHERE document_id = :id "
        f"UNION ALL SELECT document_id FROM {name}_dismissed WHERE other_id = :id",
        {"id": document_id},
    )
    return {row[0] for row in rows}


def key_of(db: ForeignDatabase, name: str, document_id: int) -> Key:
    """The key of a visible document. Raises Unknown."""
    sql = f"SELECT key FROM {name}_document WHERE id = :id AND {VISIBLE}"
    row = db.row(sql, {"id": document_id, "now": now_ms()})
    if row is None:
        raise Unknown(f"Index {name!r} has no document {document_id}, or no longer.")
    key: Key = row[0]
    return key


def shown_cluster(db: ForeignDatabase, name: str, sent: Mapping[str, str]) -> int | None:
    """The cluster whose page had the button, otherwise the document's own; None if it no longer exists."""
    sql = f"""SELECT cluster_id FROM {name}_document WHERE (cluster_id = ? OR id = ?) AND cluster_id IS NOT NULL
              ORDER BY cluster_id <> ?"""
    numbers = [int(text) if (text := sent.get(field, "")).lstrip("-").isdecimal() else 0 for field in ("cluster", "a")]
    if max(map(abs, numbers)) > MAX_NUMBER:
        return None
    label: int | None = db.value(sql, (*numbers, numbers[0]))
    return label


def notice(db: ForeignDatabase, name: str, done: str, document_id: int) -> dict[str, Any] | None:
    """The effect of a button, if the file confirms it: the document's key and number, and the reverse action."""
    sets = {"apart": _dismissed(db, name, document_id), "allow": _set_aside(db, name, document_id)}
    if not sets.get(done):
        return None
    try:
        key = key_of(db, name, document_id)
    except Unknown:  # expired meanwhile
        return None
    return {"done": done, "id": document_id, "key": key, "undo": "back" if done == "apart" else "disallow"}


def _set_aside(db: ForeignDatabase, name: str, document_id: int) -> bool:
    if not _has_table(db, f"{name}_allowed"):
        return False
    return db.value(f"SELECT 1 FROM {name}_allowed_document WHERE document_id = ?", (document_id,)) is not None


def allowed(db: ForeignDatabase, name: str) -> list[tuple[int, str, str, str]]:
    if not _has_table(db, f"{name}_allowed"):
        return []
    rows = db.rows(f"SELECT id, allowed_at, note, substr(text, 1, {2 * BEGINNING}) FROM {name}_allowed ORDER BY id")
    beginnings = [shortened(" ".join((text or "").split()), BEGINNING) for *_, text in rows]
    return [(number, moment(at), note or "", text) for (number, at, note, _), text in zip(rows, beginnings, strict=True)]


def _entries(db: ForeignDatabase, name: str, ids: list[int]) -> dict[int, Entry]:
    entries = {}
    now = now_ms()
    for number in ids:
        sql = (
            f"SELECT key, cluster_id, added_at, times_seen, substr(metadata, 1, {LONGEST_METADATA + 1}), "
            f"substr(text, 1, {LONGEST_COMPARED + 1}) FROM {name}_document WHERE id = :id "
            f"AND {VISIBLE}"
        )
        for key, label, added, times, metadata, text in db.rows(sql, {"id": number, "now": now}):
            edges = db.rows(
                f"SELECT d.key, m.similarity, m.distance FROM {name}_match AS m JOIN {name}_document AS d ON d.id = m.other_id "
                f"WHERE m.document_id = :id AND {VISIBLE} ORDER BY m.similarity DESC, d.id LIMIT 4",
                {"id": number, "now": now},
            )
            entries[number] = Entry(
                id=number,
                key=key,
                cluster=label,
                added_at=moment(added),
                times_seen=times,
                metadata=shortened(metadata or "", LONGEST_METADATA),
                text=text,
                like=tuple(edges),
            )
    return entries


def _measured(db: ForeignDatabase, name: str, head_id: int, others: list[Entry]) -> list[Entry]:
    """The entries with their similarity to a document by the index's own rule, None if the text rules are unknown or the SQL
    functions cannot be loaded."""
    if load_functions(db.connection):
        return others
    try:
        with open_index(db, name) as index:
            measured = similarities(index, head_id, [entry.id for entry in others])
    except MismatchError:
        return others
    return [replace(entry, similarity=measured[entry.id][0], distance=measured[entry.id][1]) for entry in others]


def _compared(entries: list[Entry], text: str | None, key: Key) -> list[Entry]:
    """The entries with their differences from a text, up to COMPARED characters in total."""
    left = COMPARED
    compared = []
    for entry in entries:
        if text is None or entry.text is None:
            compared.append(entry)
            continue
        needed = len(text) + len(entry.text)
        if max(len(text), len(entry.text)) > LONGEST_COMPARED or (needed > left and compared):
            compared.append(replace(entry, left_out=True))
            continue
        left -= needed
        html = difference_html(text, entry.text, label_a=key, label_b=entry.key)
        compared.append(replace(entry, difference=Markup(html)))
    return compared


# ---- the search ------------------------------------------------------------------------------------------------------


def search(db: ForeignDatabase, name: str, sent: Mapping[str, str] | None) -> dict[str, Any]:
    """The matches for a submitted form, or the empty form. A form with an invalid value is returned with the reason."""
    context: dict[str, Any] = {"form": form(db, name), "sent": sent or {}, "entries": None, "error": None}
    if sent is None or context["form"]["problem"]:
        return context
    try:
        with open_index(db, name) as index:
            found, text = _answer(db, name, index, sent)
    except ParameterError as error:
        return {**context, "error": str(error), "status": 400}
    return {**context, "entries": _compared(found, text, "your text")}


def _answer(db: ForeignDatabase, name: str, index: Index, sent: Mapping[str, str]) -> tuple[list[Entry], str | None]:
    subject = sent.get("text", "").replace("\r\n", "\n")  # browsers submit \r\n at line ends
    options: dict[str, Any] = {"limit": min(_integer(sent, "limit", MATCHES), MOST_MATCHES), "group": _group(db, name, sent)}
    if sent.get("threshold", "").strip():
        options["threshold"] = _fraction(sent["threshold"])
    if index.scheme.takes_text:
        if sent.get("measure") == "containment":
            options["measure"] = "containment"
        matches = index.query(subject, **options)
    else:
        matches = index.query_code("".join(subject.split()), **options)
    ids = {match.key: db.value(f"SELECT id FROM {name}_document WHERE key = ?", (match.key,)) for match in matches}
    entries = _entries(db, name, list(ids.values()))
    found = []
    for match in matches:
        entry = entries[ids[match.key]]
        found.append(replace(entry, similarity=match.similarity, distance=match.distance, part=match.part))
    return found, subject if index.scheme.takes_text else None


def _group(db: ForeignDatabase, name: str, sent: Mapping[str, str]) -> Key | None:
    """The chosen group, by its number; None for documents without a group."""
    number = _integer(sent, "group", 0)
    if not number:
        return None
    row = db.rows(f"SELECT name FROM {name}_group WHERE id = ?", (number,))
    if not row:
        raise ParameterError(f"group={number} is not a group of this index: choose one from the list")
    group: Key = row[0][0]
    return group


def _integer(sent: Mapping[str, str], name: str, fallback: int) -> int:
    text = sent.get(name, "").strip()
    if not text:
        return fallback
    if not text.isdecimal() or len(text) > 18:
        raise ParameterError(f"{name}={text!r} is not a whole number of 0 or more")
    return int(text)


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ParameterError(f"threshold={text!r} is not a number from 0 to 1") from error
