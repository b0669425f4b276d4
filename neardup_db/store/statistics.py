"""Figures about an index."""

from __future__ import annotations

import json
from typing import Any

from ..native import lib, text_of
from ..values import Stats
from .state import Store


def file_size(store: Store) -> int:
    """Bytes of the database's pages."""
    pages: int = store.db.value("PRAGMA page_count") * store.db.value("PRAGMA page_size")
    return pages


def collect(store: Store, now: int) -> Stats:
    """What `Index.stats` returns."""
    count = {
        "documents": "SELECT count(*) FROM {index}_document WHERE expires_at IS NULL OR expires_at > :now",
        "expired": "SELECT count(*) FROM {index}_document WHERE expires_at <= :now",
        "empty": "SELECT count(*) FROM {index}_document WHERE fingerprint_id IS NULL",
        "fingerprints": "SELECT count(*) FROM {index}_fingerprint",
        "groups": "SELECT count(*) FROM {index}_group",
        "recorded_matches": "SELECT count(*) FROM {index}_match",
        "clusters": """SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id IS NOT NULL
                       AND (expires_at IS NULL OR expires_at > :now) GROUP BY cluster_id HAVING count(*) > 1)""",
    }
    figures: dict[str, Any] = {name: store.db.value(store.sql(sql), {"now": now}) for name, sql in count.items()}
    table = store.scheme.table
    rows = store.db.value(store.sql(f"SELECT count(*) FROM {{index}}_{table}"))
    settings = dict(store.settings)
    if isinstance(settings.get("text.stopwords"), str):
        settings["text.stopwords"] = json.loads(settings["text.stopwords"])
    return Stats(
        {
            "name": store.name,
            "scheme": repr(store.scheme),
            **figures,
            "candidate_table": f"{store.name}_{table}",
            "candidate_rows": rows,
            "size_bytes": file_size(store),
            "settings": settings,
            "isa": text_of(lib.nd_isa_name()),
            "version": text_of(lib.nd_version()),
            "unicode_version": text_of(lib.nd_unicode_version()),
            "sqlite_version": store.db.value("SELECT sqlite_version()"),
        }
    )
