"""Two indexes that are merged."""

from __future__ import annotations

from typing import Any

from neardup_db import Index

TEXTS = ["one two three", "one two three four", "five six seven", "five six seven", "eight nine ten", ""]


def documents(index: Index) -> list[Any]:
    """All that is stored of documents, less their numbers, in their order."""
    sql = """SELECT d.key, g.name, f.value, d.token_count, d.added_at, d.last_seen, d.times_seen, d.expires_at, d.metadata, d.text
             FROM neardup_document d LEFT JOIN neardup_group g ON g.id = d.group_id
             LEFT JOIN neardup_fingerprint f ON f.id = d.fingerprint_id ORDER BY d.id"""
    return index.connection.execute(sql).fetchall()
