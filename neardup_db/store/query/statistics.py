"""Index statistics."""

from __future__ import annotations

import json
from typing import Any

from ...native import lib, text_of
from ...values import Stats
from ..layout.following import PREFIX, SCAN
from ..layout.state import Store


def file_size(store: Store) -> int:
    return store.db.value("PRAGMA page_count") * store.db.value("PRAGMA page_size")


def collect(store: Store, now: int) -> Stats:
    count = {
        "documents": "SELECT count(*) FROM {index}_document WHERE {visible}",
        "expired": "SELECT count(*) FROM {index}_document WHERE expires_at <= :now",
        "empty": "SELECT count(*) FROM {index}_document WHERE fingerprint_id IS NULL",
        "fingerprints": "SELECT count(*) FROM {index}_fingerprint",
        "groups": "SELECT count(*) FROM {index}_group",
        "recorded_matches": "SELECT count(*) FROM {index}_match",
        "clusters": """SELECT count(*) FROM (SELECT 1 FROM {index}_document WHERE cluster_id IS NOT NULL
                       AND {visible} GROUP BY cluster_id HAVING count(*) > 1)""",
    }
    if store.allows:
        count["empty"] += " AND id NOT IN (SELECT document_id FROM {index}_allowed_document)"
        count["allowed"] = "SELECT count(*) FROM {index}_allowed_document"
        count["allowed_texts"] = "SELECT count(*) FROM {index}_allowed"
    figures: dict[str, Any] = {name: store.value(sql, {"now": now}) for name, sql in count.items()}
    settings = {name: value for name, value in store.settings.items() if not name.startswith(PREFIX)}
    if isinstance(settings.get("text.stopwords"), str):
        settings["text.stopwords"] = json.loads(settings["text.stopwords"])
    return Stats(
        {
            "name": store.name,
            "scheme": repr(store.scheme),
            **figures,
            "candidate_table": store.table.name,
            "candidate_rows": store.db.value(f"SELECT count(*) FROM {store.table.name}"),
            "size_bytes": file_size(store),
            "following": _following(store),
            "settings": settings,
            "isa": text_of(lib.nd_isa_name()),
            "version": text_of(lib.nd_version()),
            "unicode_version": text_of(lib.nd_unicode_version()),
            "sqlite_version": store.db.value("SELECT sqlite_version()"),
        }
    )


def _following(store: Store) -> dict[str, Any] | None:
    """The followed table, its number of pending changes, and all_rows: True if the next sync compares all rows."""
    if store.following is None:
        return None
    table_exists = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?"
    pending = 0
    if store.db.value(table_exists, (f"{store.name}_pending",)) is not None:
        pending = store.value("SELECT count(*) FROM main.{index}_pending")
    return {**store.following._asdict(), "pending": pending, "all_rows": store.setting(SCAN) is not None}
