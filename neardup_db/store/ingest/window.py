"""Eviction from the window, and changes of the window."""

from __future__ import annotations

from ... import limits
from ..clustering.clusters import Clusters
from ..layout.window import Window
from ..query.documents import Documents

_EVICTED = 0  # the expiry of a document that left a count window and is not deleted yet: in the past on every clock


def expiry_outside(documents: Documents) -> tuple[str, str, dict[str, int]] | None:
    """(latest expiry, condition, parameters) in SQL for documents outside the window that expire later; None without a window."""
    window = documents.store.window
    if window.documents is not None:
        beyond = documents.next_id() - 1 - window.documents
        return ":left", "id <= :beyond AND ifnull(expires_at, 1) > :left", {"left": _EVICTED, "beyond": beyond}
    if window.duration_ms is not None:
        end = "added_at + :duration"
        return end, f"ifnull(expires_at > {end}, 1)", {"duration": window.duration_ms}
    return None


def evict(clusters: Clusters, last_id: int, added: int, now: int) -> None:
    """Delete documents that left the window after `added` documents were stored, the last one with the id `last_id`.

    A count window loses as many documents as were added; of expired ones each call deletes a bounded number, to catch up.
    """
    store, window = clusters.store, clusters.store.window
    if window.is_unlimited:
        return
    limit = added * limits.LEFT_PER_ADDED
    sql = "SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY expires_at LIMIT +?"
    evicted = {row[0] for row in store.rows(sql, (now, limit))}
    if window.documents is not None:
        sql = "SELECT id FROM {index}_document WHERE id <= ? ORDER BY id DESC LIMIT +?"
        evicted.update(row[0] for row in store.rows(sql, (last_id - window.documents, limit)))
    if evicted:
        clusters.remove(sorted(evicted), now)


def change_window(documents: Documents, window: Window, now: int) -> None:
    """Set another window, inside `writing`. Documents outside it or the previous one are invisible now, deleted by later adds."""
    store, before = documents.store, documents.store.window
    store.set_window(window)
    store.new_generation()
    if before.duration_ms is not None:  # restore each document's explicit expiry
        own_expiry = "(SELECT o.expires_at FROM {index}_own_end AS o WHERE o.document_id = id)" if store.keeps_ends else "NULL"
        sql = f"UPDATE {{index}}_document SET expires_at = {own_expiry} WHERE expires_at = added_at + ? AND expires_at > ?"
        store.execute(sql, (before.duration_ms, now))
    if store.keeps_ends:
        store.execute("DELETE FROM {index}_own_end")
        sql = "INSERT INTO {index}_own_end SELECT id, expires_at FROM {index}_document WHERE expires_at >= added_at + ?"
        store.execute(sql, (window.duration_ms,))
    require_window(documents)


def require_window(documents: Documents) -> int:
    """Expire documents outside the window and limit the expiry of all others. Returns the number of documents changed."""
    outside = expiry_outside(documents)
    if outside is None:
        return 0
    latest, condition, parameters = outside
    documents.store.execute(f"UPDATE {{index}}_document SET expires_at = {latest} WHERE {condition}", parameters)
    return documents.store.db.connection.changes()
