"""Connected components of a graph of any size, by alternating large-star and small-star (Kiveris, Lattanzi, Mirrokni, Rastogi and
Vassilvitskii, "Connected Components in MapReduce and Beyond", 2014).

An edge has the larger key first. Both steps preserve components and vertices. When all edges form stars, the centre of each star
is the smallest key of its component. Few edges are a single task, because the cost of a round over them is that of its jobs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .. import limits
from ..errors import NearDupError
from .sql import F
from .tables import Tables, count_rows
from .tasks import stars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGER, SMALLER = "larger", "smaller"


def components(tables: Tables, pairs: DataFrame, name: str, most_rounds: int) -> DataFrame:
    """(larger, smaller) of each vertex except the smallest of its component, which is `smaller`.

    pairs: two key columns. Raises NearDupError if most_rounds is too low, or if a round loses a vertex.
    """
    a, b = (F.col(f"`{column}`") for column in pairs.columns)
    edges = pairs.select(F.greatest(a, b).alias(LARGER), F.least(a, b).alias(SMALLER)).where(F.col(LARGER) != F.col(SMALLER))
    rows = count_rows(edges)
    if rows > limits.SPARK_EDGES:
        edges, figures = tables.write(edges.distinct(), f"{name}-0")
        rows = figures["rows"]
    if rows <= limits.SPARK_EDGES:
        return tables.write(stars_of_few(edges, rows), name)[0]
    (vertices, loose), number = shape_of(edges), 0
    while loose:
        if number == most_rounds:
            raise NearDupError(
                f"after {number} rounds {loose:,} of {vertices:,} vertices are not connected with the smallest key of "
                "their component: give a higher max_rounds; no result was given"
            )
        number += 1
        edges, _ = tables.write(small_star(large_star(edges)), f"{name}-{number}")
        left, loose = shape_of(edges)
        if left != vertices:
            raise NearDupError(
                f"round {number} of the components has {left:,} vertices, the edges had {vertices:,}: a table was "
                "lost or changed between two steps. Run again with work_dir= on a reliable file system; no result was given"
            )
        tables.drop(f"{name}-{number - 1}")
    return edges


def labels_of(stars: DataFrame) -> DataFrame:
    """(key, label) of each vertex, including the smallest of each component."""
    return stars.toDF("key", "label").union(stars.select(SMALLER).distinct().select(SMALLER, SMALLER))


def large_star(edges: DataFrame) -> DataFrame:
    """Each larger neighbour of a vertex, with the smallest key of the vertex and all its neighbours."""
    both = edges.toDF("vertex", "other").union(edges.select(SMALLER, LARGER))
    smallest = both.groupBy("vertex").agg(F.least(F.col("vertex"), F.min("other")).alias("centre"))
    upwards = both.where(F.col("other") > F.col("vertex"))
    return upwards.join(smallest, "vertex").select("other", "centre").toDF(LARGER, SMALLER).distinct()


def small_star(edges: DataFrame) -> DataFrame:
    """A vertex and each smaller neighbour, with the smallest key of these."""
    smallest = edges.groupBy(LARGER).agg(F.min(SMALLER).alias("centre"))
    others = edges.join(smallest, LARGER).where(F.col(SMALLER) != F.col("centre"))
    return others.select(SMALLER, "centre").union(smallest).toDF(LARGER, SMALLER).distinct()


def stars_of_few(edges: DataFrame, rows: int) -> DataFrame:
    """Each vertex with the smallest of its component, by one task that holds all edges; the smallest has no row. rows: the number
    of edges."""
    kind = edges.schema[LARGER].dataType.simpleString()
    return edges.coalesce(1).mapInArrow(partial(stars, rows), f"{LARGER} {kind}, {SMALLER} {kind}")


def shape_of(edges: DataFrame) -> tuple[int, int]:
    """The number of vertices, and of those that are neither a star's centre nor a leaf of exactly one star."""
    ups, downs = edges.select(LARGER, F.lit(1), F.lit(0)), edges.select(SMALLER, F.lit(0), F.lit(1))
    ends = ups.union(downs).toDF("vertex", "up", "down")
    vertices = ends.groupBy("vertex").agg(F.sum("up").alias("up"), F.max("down").alias("down"))
    is_loose = (F.col("up") > 1) | ((F.col("up") > 0) & (F.col("down") > 0))
    row = vertices.agg(F.count(F.lit(1)), F.count(F.when(is_loose, True))).first()
    assert row is not None
    return int(row[0]), int(row[1])
