"""Near-duplicates of texts beyond one machine's capacity, on Spark (the extra "spark"). docs/reference/spark.md explains the
method, its use cases and its cost.

An index with the same settings has identical fingerprints, buckets and verdicts, because the executors run the same C core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ParameterError
from ..native import lib, text_of
from ..parameters import check_choice, check_flag, check_integer, check_kind, quoted
from ..schemes import MinHash
from ..text import TextRules
from .executors import require_package
from .given import check_frame, documents_of, remove_keys, whole_row
from .near import KEEPS, Job, all_days, batches_by_bytes, clusters, duplicates, matches, require_distinct, saved, sketched, union
from .tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Keep = Literal["first", "last", "longest"]

MAX_ROUNDS = 100

__all__ = ["Keep", "deduplicate", "near_duplicates"]


def near_duplicates(
    df: DataFrame,
    key: str | None,
    text: str,
    scheme: MinHash | None = None,
    rules: TextRules | None = None,
    exact: bool = True,
    *,
    keep: Keep = "first",
    earlier: Sequence[str] = (),
    save: str | None = None,
    work_dir: str | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> DataFrame:
    """Cluster the rows of a frame. Returns a frame of `key`, `cluster`, `representative` and `similarity`, with a row for each
    row of df.

    key: a column of unique strings or integers; integers are returned as long. None: the SHA-256 of the text is the key, so rows
    with equal texts are one document, and rows without a text are dropped. text: a column of strings. A row whose text is null or
    has no shingle forms no cluster. scheme: a MinHash, `MinHash()` for None. rules: TextRules, `TextRules()` for None. exact:
    verify pairs by their exact similarity, like `MinHash(exact=True)`, else estimate it by the share of equal slots.

    cluster: the smallest key of the cluster; null, like the next two columns, for a row without near-duplicates. representative:
    the row to keep, according to `keep`: "first" (the smallest key), "last" (the largest) or "longest" (the most tokens; the
    smallest key in a tie). similarity: between the row and its representative, possibly below the threshold if other rows connect
    the two. The clusters equal the result of `Index.clusters` for any number of executors and partitions.

    save: a new folder, for fingerprints/, matches/ and clusters/ as Parquet; `Index.import_fingerprints` and `neardup import`
    load fingerprints/. earlier: the folders saved on earlier days, the first day first; df is then a new day with new keys, and
    only its texts are fingerprinted and its rows returned. Clusters span all days, and a representative is a row of the cluster's
    earliest day. work_dir: a folder for intermediate results that all executors reach; None for the session's checkpoint folder
    or, with a local Spark, a temporary folder. The returned frame reads a file in save or work_dir, so keep it. max_rounds:
    limits the rounds of the component search.

    The work is complete on return. Raises ParameterError, DuplicateKeyError for a repeated key, MismatchError if earlier days
    have other settings, and NearDupError if a step returns unexpected rows or max_rounds is too low.
    """
    others = {"keep": keep, "earlier": earlier, "save": save, "work_dir": work_dir, "max_rounds": max_rounds}
    job = _checked(scheme, rules, exact, **others)
    return _answer(df, key, text, job, "clusters")


def deduplicate(
    df: DataFrame,
    key: str | None,
    text: str,
    scheme: MinHash | None = None,
    rules: TextRules | None = None,
    exact: bool = True,
    *,
    keep: Keep = "first",
    connected: bool = False,
    earlier: Sequence[str] = (),
    save: str | None = None,
    work_dir: str | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> DataFrame:
    """The rows of df without near-duplicates, with all columns unchanged. Each removed row is a near-duplicate of a kept row.
    Arguments as in `near_duplicates`.

    Rows are decided in the order of `keep`: "first" (the smallest key first), "last" (the largest first) or "longest" (the most
    tokens first, the smallest key in a tie). A row is kept unless it matches a row kept before, as in `Index.add_many(records,
    only_new=True)`. connected=True: only the representative of each cluster of `near_duplicates` is kept. key=None: one row is
    kept of rows with equal texts, the first in the order of their JSON, and all rows without a text.

    earlier: rows of earlier days are decided first, day by day. Pass the same `keep` every day: then a row of an earlier day
    counts as kept if it was kept on its day. save: contains duplicates/ instead of clusters/, with `key`, `duplicate_of` (the
    most similar kept row, the first decided in a tie; null for a kept row) and `similarity` of each row in a cluster.

    df is read twice, in the call and when the result is read, and must return the same rows both times. The memory of an executor
    task is bounded by the kept rows of one cluster.
    """
    check_flag("connected", connected)
    others = {"keep": keep, "earlier": earlier, "save": save, "work_dir": work_dir, "max_rounds": max_rounds}
    job = _checked(scheme, rules, exact, **others)
    check_frame(df)
    if key is None:  # columns that share a name are refused now, before the work
        _ = df.select(whole_row(df)).schema
    name, gone = ("clusters", "representative != key") if connected else ("duplicates", "duplicate_of IS NOT NULL")
    return remove_keys(df, key, text, _answer(df, key, text, job, name).where(gone))


def _answer(df: DataFrame, key: str | None, text: str, job: Job, name: str) -> DataFrame:
    check_frame(df)
    texts = documents_of(df, key, text)
    spark = df.sparkSession
    with batches_by_bytes(spark):
        require_package(spark, text_of(lib.nd_version()))
        tables = Tables(spark, job.work_dir)
        days = [saved(spark, folder, job) for folder in job.earlier]
        new, count = sketched(tables, texts, job, distinct=key is None)
        documents = all_days([*(fingerprints for fingerprints, _ in days), new])
        require_distinct(documents.select("key"))
        kind = new.schema["key"].dataType.simpleString()
        none = spark.createDataFrame([], f"key_a {kind}, key_b {kind}, similarity double")
        found = matches(tables, documents, union([none, *(pairs for _, pairs in days)]), job)
        if job.save is not None:
            tables.write(found.pairs, "matches", path=job.path("matches"))
        if name == "clusters":
            answer = clusters(tables, documents, found.edges, job, count)
        else:
            answer = duplicates(tables, documents, found, job)
    tables.drop_all_but(name)
    return answer


def _checked(scheme: MinHash | None, rules: TextRules | None, exact: bool, **others: Any) -> Job:
    check_flag("exact", exact)
    earlier = others["earlier"]
    if not isinstance(earlier, (list, tuple)) or not all(isinstance(folder, str) for folder in earlier):
        raise ParameterError(f"earlier={quoted(earlier)}: give a list of folders, each a str")
    for name in ("save", "work_dir"):
        check_kind(name, others[name], str, "a folder as a str, or None")
    check_choice("keep", others["keep"], KEEPS)
    check_integer("max_rounds", others["max_rounds"], 1)
    check_kind("rules", rules, TextRules, "TextRules, or None")
    check_kind("scheme", scheme, MinHash, "a MinHash, e.g. MinHash(threshold=0.8)")
    scheme, rules = scheme or MinHash(), rules or TextRules()
    if scheme.given.get("exact", exact) != exact:
        raise ParameterError(f"exact={exact}, but the scheme is {scheme!r}: say it once, or the same")
    rules.settings()  # raises ParameterError for functions that executors cannot import
    return Job(scheme.with_exact(exact), rules, **others)
