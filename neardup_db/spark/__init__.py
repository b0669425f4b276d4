"""Near-duplicates of more texts than one machine holds, on Spark (the extra "spark").

Fingerprints, buckets and verdicts are those of an index with the same settings, to the bit: the same C core makes them, on the
executors. docs/reference/spark.md says how it works, when it pays and what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..errors import ParameterError
from ..native import lib, text_of
from ..parameters import check_choice, check_flag, check_integer, check_kind, quoted
from ..schemes import MinHash
from ..text import TextRules
from .duplicates import duplicates
from .executors import require_package
from .given import check_distinct, check_frame, documents_of, remove_keys
from .near import (
    KEEPS,
    Settings,
    all_days,
    batches_by_bytes,
    clusters,
    matches,
    require_distinct,
    saved,
    sketched,
)
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
    """The cluster of each row: a frame of `key`, `cluster`, `representative` and `similarity` to that, one row for each row of
    df.

    key: a column of strings or integers, each value once; integers come back as long. None: the SHA-256 of the text is the key,
    so that rows of equal texts are one document, and rows without a text are left out. text: a column of strings. A row whose
    text is null or has no shingle is alone. scheme: a MinHash, `MinHash()` for None. rules: TextRules, `TextRules()` for None.
    exact: pairs are verified by their true similarity, as in an index of `MinHash(exact=True)`, else by the share of equal slots.

    cluster: the smallest key of the cluster, null for a row that is alone; then the two columns after it are null too.
    representative: the row of the cluster that is to stay, by keep: "first" (the smallest key), "last" (the largest) or "longest"
    (the most tokens; the smallest key among equals). similarity: between the two, which may be below the threshold where rows
    between them connect them. Clusters are those of `Index.clusters`, whatever the number of executors and partitions.

    save: a folder for fingerprints/, matches/ and clusters/ as Parquet, which must not exist; `Index.import_fingerprints` and
    `neardup import` load fingerprints/. earlier: such folders of the days before, the earliest first: df is a new day then, whose
    keys are new. Only its texts are fingerprinted and only its rows come back, but clusters are those of all days, and a
    representative is a row of the earliest day in the cluster. work_dir: where the steps are written in between, a folder that
    all executors reach; None: the session's checkpoint folder, or with a local Spark a temporary one. The frame that comes back
    is read from a file in save or work_dir, which has to stay so long. max_rounds: of the components.

    The work is done when the call comes back. Raises ParameterError, DuplicateKeyError for a repeated key, MismatchError where
    earlier days have other settings, and NearDupError where a step gives other rows than it should or rounds are not enough.
    """
    settings = _checked(scheme, rules, exact, keep, earlier, save, work_dir, max_rounds)
    return _answer(df, key, text, settings, earlier, save, work_dir, "clusters")


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
    """The rows of df without near-duplicates, all columns as they are: a row goes only if it is a near-duplicate of a row that
    stays. Arguments as of `near_duplicates`.

    Rows are decided in the order of keep: "first" (the smallest key first), "last" (the largest first) or "longest" (the most
    tokens first, the smallest key among equals). A row stays unless it matches a row that stays already, so the same rows stay as
    in an index to which `Index.add_many(records, only_new=True)` adds them in that order. connected=True: one row of each cluster
    of `near_duplicates` stays, its representative; rows that only a chain of others connects with it go too.

    earlier: rows of earlier days are decided first, day by day, as if `add_many` had added one day after the other. Give the same
    keep every day: so a row of an earlier day counts as staying if it stayed on its day. save: in place of clusters/ it gets
    duplicates/, with `key`, `duplicate_of` and `similarity` of each row in a cluster. duplicate_of: the most similar row that
    stays, the first decided among equals; null for a row that stays itself. Rows of equal texts go with the first of them.

    df is read twice, now and when the answer is read, so both times it has to give the same rows. The memory of an executor's
    task is bounded by the rows that stay of one cluster.

    key=None: of rows of equal texts one stays, the first in the order of their JSON; rows without a text stay all.
    """
    check_flag("connected", connected)
    settings = _checked(scheme, rules, exact, keep, earlier, save, work_dir, max_rounds)
    check_frame(df)
    check_distinct(df, key)
    if connected:
        found = _answer(df, key, text, settings, earlier, save, work_dir, "clusters")
        return remove_keys(df, key, text, found.where("representative != key"))
    found = _answer(df, key, text, settings, earlier, save, work_dir, "duplicates")
    return remove_keys(df, key, text, found.where("duplicate_of IS NOT NULL"))


def _answer(
    df: DataFrame,
    key: str | None,
    text: str,
    settings: Settings,
    earlier: Sequence[str],
    save: str | None,
    work_dir: str | None,
    name: Literal["clusters", "duplicates"],
) -> DataFrame:
    """The table of this name, written: `clusters`, or `duplicates`."""
    check_frame(df)
    texts = documents_of(df, key, text)
    spark, today = df.sparkSession, len(earlier)
    require_package(spark, text_of(lib.nd_version()))
    tables = Tables(spark, work_dir)
    days = [saved(spark, folder, settings) for folder in earlier]
    paths = {one: None if save is None else f"{save.rstrip('/')}/{one}" for one in ("fingerprints", "matches", name)}
    with batches_by_bytes(spark):
        new, count = sketched(tables, texts, settings.scheme, settings.rules, paths["fingerprints"], distinct=key is None)
        documents = all_days([*(fingerprints for fingerprints, _ in days), new])
        require_distinct(documents.select("key"))
        before = spark.createDataFrame([], _matches_schema(new))
        for _, pairs in days:
            before = before.unionByName(pairs)
        found = matches(tables, documents, before, today, settings)
        if save is not None:
            tables.write(found.pairs, "matches", path=paths["matches"])
        if name == "clusters":
            answer = clusters(tables, documents, found.edges, today, settings, paths[name], count)
        else:
            answer = duplicates(tables, documents, found, today, settings, paths[name])
    tables.drop_all_but(name)
    return answer


def _matches_schema(fingerprints: DataFrame) -> str:
    kind = fingerprints.schema["key"].dataType.simpleString()
    return f"key_a {kind}, key_b {kind}, similarity double"


def _checked(
    scheme: MinHash | None,
    rules: TextRules | None,
    exact: bool,
    keep: str,
    earlier: Sequence[str],
    save: str | None,
    work_dir: str | None,
    max_rounds: int,
) -> Settings:
    check_flag("exact", exact)
    if not isinstance(earlier, (list, tuple)) or not all(isinstance(folder, str) for folder in earlier):
        raise ParameterError(f"earlier={quoted(earlier)}: give a list of folders, each a str")
    for name, folder in (("save", save), ("work_dir", work_dir)):
        check_kind(name, folder, str, "a folder as a str, or None")
    check_choice("keep", keep, KEEPS)
    check_integer("max_rounds", max_rounds, 1)
    check_kind("rules", rules, TextRules, "TextRules, or None")
    check_kind("scheme", scheme, MinHash, "a MinHash, e.g. MinHash(threshold=0.8)")
    scheme, rules = scheme or MinHash(), rules or TextRules()
    if scheme.given.get("exact", exact) != exact:
        raise ParameterError(f"exact={exact}, but the scheme is {scheme!r}: say it once, or the same")
    rules.settings()  # ParameterError for functions that executors cannot import
    return Settings(scheme.with_exact(exact), rules, keep, max_rounds)
