"""The numbers of the charts, by plain SQL on an index's tables.

`connection` is a connection of apsw, sqlite3 or pysqlite3; the extension's functions are not needed. Each statement is bounded:
of a very large file a sample is read, which `matches_note` and `clusters_note` report. Expired documents are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..clock import now_ms, utc
from ..errors import ParameterError
from ..parameters import check_index_name
from ..schemes import scheme_from_settings
from ..values import Key
from .theory import chances_of

Bin = tuple[float, float, int]  # lower bound, upper bound, count
Point = tuple[float, float, float]  # Jaccard similarity, P(candidate), P(returned)

EXACT = 200_000  # up to this many ids `collect` reads all rows; above, so many in evenly spaced blocks: fast in cold files
EXACT_LARGEST = 2_000_000  # up to this many ids `largest` counts all clusters: a quarter of a second for a million
BLOCK = 512  # consecutive ids in a block of a sample
FREQUENT = 5_000  # documents with matches whose clusters are candidates for the largest clusters of a very large file
BINS, GRID = 20, 200  # histogram bars, and similarity steps in the counts; bars from a tenth on coincide with steps

_SECOND = 1000
UNITS: Mapping[str, int] = {
    "second": _SECOND,
    "minute": 60 * _SECOND,
    "10 minutes": 600 * _SECOND,
    "hour": 3600 * _SECOND,
    "6 hours": 6 * 3600 * _SECOND,
    "day": 86400 * _SECOND,
    "week": 7 * 86400 * _SECOND,
    "4 weeks": 28 * 86400 * _SECOND,
    "year": 365 * 86400 * _SECOND,
}
"""Allowed bar lengths of the timeline, in milliseconds."""

MOST_BARS, MOST_YEARS = 60, 300  # timeline bars, and latest years shown if matches span centuries, as in a damaged file


class Connection(Protocol):
    def execute(self, sql: str, parameters: Any = ..., /) -> Iterable[Sequence[Any]]: ...


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of an index, of documents unless stated otherwise. `duplicates`: in clusters, except the first of each.

    similarities: adjacent (from, to, matches); sizes: (smallest size, largest size, clusters); times: consecutive (start in UTC,
    duplicates found), each of one `time_unit`; curve: (Jaccard similarity, P(candidate), P(returned)), empty for BinaryCode.
    """

    name: str
    settings: Mapping[str, Any]
    documents: int
    expired: int
    matches: int
    clusters: int
    duplicates: int
    threshold: float | None
    recall: float | None
    similarities: tuple[Bin, ...]
    sizes: tuple[Bin, ...]
    times: tuple[tuple[str, int], ...]
    time_unit: str
    curve: tuple[Point, ...]
    matches_note: str
    clusters_note: str

    @property
    def scheme(self) -> str:
        return str(self.settings["scheme"])


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster: its label, its number of documents, and the key of the earliest."""

    cluster: int
    size: int
    representative: Key


def plain_rows(connection: Any) -> Connection:
    """The connection with plain rows, whatever row factory the application has set."""
    if not hasattr(connection, "cursor"):
        return connection
    cursor: Any = connection.cursor()
    setattr(cursor, "row_trace" if hasattr(cursor, "row_trace") else "row_factory", None)
    return cursor


class _Reader:
    """Statements on one index's tables, all with the same current time."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name, self._now = connection, check_index_name(name), now_ms()

    def rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """{index} is the index's name, {gone} the ids of expired documents."""
        gone = "(SELECT id FROM {index}_document WHERE expires_at <= :now)"
        text = sql.replace("{gone}", gone).replace("{index}", self._name)
        given = {**parameters, "now": self._now}
        rows = plain_rows(self._connection).execute(text, {name: given[name] for name in given if f":{name}" in text})
        return [tuple(row) for row in rows]

    def value(self, sql: str, **parameters: Any) -> Any:
        return self.rows(sql, **parameters)[0][0]

    def sample(self, table: str, column: str, most: int) -> tuple[str, dict[str, int], int]:
        """FROM and WHERE for all rows, or for even blocks by an indexed column; their parameters; n if one of n ids is read."""
        there = f"{column} IS NOT NULL"
        low, high = self.rows(
            f"SELECT (SELECT min({column}) FROM {table} WHERE {there}), (SELECT max({column}) FROM {table} WHERE {there})"
        )[0]
        if low is None:
            low, high = 0, -1
        every = math.ceil((high - low + 1) / most) or 1
        if every == 1:
            return f"FROM {table} AS t WHERE t.{column} BETWEEN :low AND :high", {"low": low, "high": high}, 1
        blocks = (
            "(WITH RECURSIVE block(begin) AS (SELECT :low UNION ALL SELECT begin + :stride FROM block "
            "WHERE begin + :stride <= :high) SELECT begin FROM block)"
        )
        sql = f"FROM {blocks} AS b CROSS JOIN {table} AS t WHERE t.{column} BETWEEN b.begin AND b.begin + :block - 1"
        return sql, {"low": low, "high": high, "stride": BLOCK * every, "block": BLOCK}, every


def collect(connection: Connection, name: str = "neardup", *, most: int = EXACT) -> Figures:
    """The figures of an index. most: up to this many ids all rows are read. Raises ParameterError for an invalid name,
    CorruptIndexError for invalid settings.

    >>> from neardup_db import Index, MinHash
    >>> from neardup_db.show.figures import collect
    >>> with Index(":memory:", MinHash()) as index:
    ...     matches = index.add("a", "one text of a few words"), index.add("b", "One text of a few words!")
    ...     figures = collect(index.connection)
    >>> figures.documents, figures.duplicates, figures.sizes
    (2, 1, ((2, 3, 1),))
    """
    reader = _Reader(connection, name)
    settings = dict(reader.rows("SELECT name, value FROM {index}_setting"))
    settings.update(scheme_from_settings(settings).settings())  # checked, since they come from a file
    expired = reader.value("SELECT count(*) FROM {index}_document WHERE expires_at <= :now")
    similarities, times, unit, matches_note = _matches(reader, settings, most)
    sizes, clusters, duplicates, clusters_note = _clusters(reader, most)
    threshold = settings.get("threshold")
    return Figures(
        name=name,
        settings=settings,
        documents=reader.value("SELECT count(*) FROM {index}_document") - expired,
        expired=expired,
        matches=reader.value("SELECT count(*) FROM {index}_match"),
        clusters=clusters,
        duplicates=duplicates,
        threshold=None if threshold is None else float(threshold),
        recall=settings.get("recall") if settings["scheme"] in ("minhash", "bitsampling") else None,
        similarities=similarities,
        sizes=sizes,
        times=times,
        time_unit=unit,
        curve=curve_points(settings),
        matches_note=matches_note,
        clusters_note=clusters_note,
    )


def largest(connection: Connection, name: str = "neardup", limit: int = 20, *, most: int = EXACT_LARGEST) -> list[ClusterSize]:
    """The largest clusters, ties by the first document. With more than `most` ids: of the clusters in a sample of the matches."""
    reader = _Reader(connection, name)
    top = int(reader.value("SELECT coalesce(max(id), 0) FROM {index}_document"))
    within, parameters = "IS NOT NULL", {}
    if top > most:
        candidates = _frequent(reader, max(4 * limit, 100))
        within, parameters = "IN (SELECT value FROM json_each(:labels))", {"labels": str(candidates)}
    found = reader.rows(
        f"SELECT cluster_id, count(*) AS size, min(id) AS first FROM {{index}}_document WHERE cluster_id {within} "
        "AND id NOT IN {gone} GROUP BY cluster_id HAVING size > 1 ORDER BY size DESC, first LIMIT :limit",
        limit=limit,
        **parameters,
    )
    key = "SELECT key FROM {index}_document WHERE id = :id"
    return [ClusterSize(cluster, size, reader.value(key, id=first)) for cluster, size, first in found]


def members(connection: Connection, name: str, cluster: int, limit: int) -> list[Key]:
    """The keys of the earliest documents of a cluster."""
    sql = "SELECT key FROM {index}_document WHERE cluster_id = :cluster AND id NOT IN {gone} ORDER BY id LIMIT :limit"
    return [key for (key,) in _Reader(connection, name).rows(sql, cluster=cluster, limit=limit)]


def curve_points(settings: Mapping[str, Any]) -> tuple[Point, ...]:
    """The recall curve from 0 to 1 for a scheme's settings; empty for codes of the application, which have no texts."""
    try:
        chances = chances_of(settings)
    except ParameterError:
        return ()
    places = {place / 50 for place in range(51)}
    if settings.get("threshold") is not None:  # an exact rule has a step there
        places |= {float(settings["threshold"]), math.nextafter(float(settings["threshold"]), 0.0)}
    return tuple((place, *chances(place)) for place in sorted(places))


def _matches(
    reader: _Reader, settings: Mapping[str, Any], most: int
) -> tuple[tuple[Bin, ...], tuple[tuple[str, int], ...], str, str]:
    source, where, every = reader.sample("{index}_match", "document_id", most)
    source += " AND t.document_id NOT IN {gone} AND t.other_id NOT IN {gone}"
    grid = f"SELECT CAST(similarity * {GRID} + 1e-9 AS INTEGER), count(*), min(found_at), max(found_at) {source} GROUP BY 1"
    found = reader.rows(grid, **where)
    if not found:
        return (), (), "day", ""
    bins = _histogram({place: count for place, count, _, _ in found}, settings.get("threshold"))
    first, last = min(row[2] for row in found), max(row[3] for row in found)
    unit = next((name for name, length in UNITS.items() if last // length - first // length < MOST_BARS), "year")
    length = UNITS[unit]
    earliest = f"SELECT min(found_at) AS found_at {source} GROUP BY t.document_id"
    per_unit = dict(reader.rows(f"SELECT found_at / :length, count(*) FROM ({earliest}) GROUP BY 1", length=length, **where))
    start = max(first // length, last // length - MOST_YEARS)
    times = tuple((moment(place * length, length), per_unit.get(place, 0)) for place in range(start, last // length + 1))
    return bins, times, unit, "" if every == 1 else f"Read from a sample: the matches of one document in {every}."


def _clusters(reader: _Reader, most: int) -> tuple[tuple[Bin, ...], int, int, str]:
    source, where, every = reader.sample("{index}_document", "cluster_id", most)
    counted = f"SELECT count(*) AS size {source} AND t.id NOT IN {{gone}} GROUP BY t.cluster_id HAVING size > 1"
    found = reader.rows(f"SELECT size, count(*) FROM ({counted}) GROUP BY size", **where)
    note = "" if every == 1 else f"Estimated from one cluster in {every}."
    return *by_size({size: count * every for size, count in found}), note


def by_size(counts: Mapping[int, int]) -> tuple[tuple[Bin, ...], int, int]:
    """Cluster bins in powers of two, the number of clusters, and the number of duplicates. counts: clusters by size."""
    bins = [0] * max((size.bit_length() for size in counts), default=0)
    for size, count in counts.items():
        bins[size.bit_length() - 1] += count
    listed = tuple((2**power, 2 ** (power + 1) - 1, count) for power, count in enumerate(bins) if power)
    return listed, sum(bins), sum((size - 1) * count for size, count in counts.items())


def _frequent(reader: _Reader, limit: int) -> list[int]:
    source, where, _ = reader.sample("{index}_match", "document_id", FREQUENT)
    met = f"SELECT DISTINCT t.document_id AS id {source} LIMIT {FREQUENT}"
    rows = reader.rows(
        f"SELECT d.cluster_id, count(*) FROM ({met}) AS m CROSS JOIN {{index}}_document AS d ON d.id = m.id "
        "WHERE d.cluster_id IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT :limit",
        limit=limit,
        **where,
    )
    return [int(row[0]) for row in rows]


def _histogram(counts: Mapping[int, int], threshold: float | None) -> tuple[Bin, ...]:
    """BINS bars up to 1, from the last tenth at or below both the lowest similarity and the threshold."""
    least = min(min(counts), GRID - 1 if threshold is None else int(threshold * GRID + 1e-9))
    start = max(0, min(least * 10 // GRID, 9)) * GRID // 10
    width = (GRID - start) // BINS
    bars = [0] * BINS
    for place, count in counts.items():
        bars[max(0, min((place - start) // width, BINS - 1))] += count
    return tuple(((start + i * width) / GRID, (start + (i + 1) * width) / GRID, count) for i, count in enumerate(bars))


def moment(milliseconds: int, length: int = _SECOND) -> str:
    """A time in UTC, with the precision that a period of this length needs."""
    style = "%Y-%m-%d" if length >= UNITS["day"] else "%Y-%m-%d %H:%M" if length >= UNITS["minute"] else "%Y-%m-%d %H:%M:%S"
    try:
        return utc(milliseconds // 1000).strftime(style)
    except (OverflowError, ValueError):
        return f"{milliseconds} ms"
