"""What leaves the window of an index: a few documents with each that comes in, and how the window is changed."""

from __future__ import annotations

from ... import limits
from ..asking.documents import Documents
from ..layout.state import Choices, Store
from ..layout.window import Window
from ..linking.clusters import Clusters

_LEFT = 0
"""The expiry of a document that has left a window of so many documents and is not removed yet: past on every clock."""


def expiry_outside(store: Store, documents: Documents) -> tuple[str, str, dict[str, int]] | None:
    """The expiry that documents outside of the window must have at the latest, and the condition for those that have a later
    one, which none may have; both in SQL, with their parameters. None where there is no window."""
    window = store.window
    if window.documents is not None:
        beyond = documents.next_id() - 1 - window.documents
        return ":left", "id <= :beyond AND ifnull(expires_at, 1) > :left", {"left": _LEFT, "beyond": beyond}
    if window.duration_ms is not None:
        end = "added_at + :duration"
        return end, f"ifnull(expires_at > {end}, 1)", {"duration": window.duration_ms}
    return None


def evict(store: Store, clusters: Clusters, last_id: int, added: int, now: int) -> None:
    """Remove what has left the window, now that documents were added, the last of them with the id `last_id`.

    As many as were added leave a window of documents, and no more are left in it than it may have. Of what has expired, which
    after a pause may be very much, so many go that it becomes less with each document added."""
    window = store.window
    if window.is_unlimited:
        return
    most = added * limits.LEFT_PER_ADDED
    sql = store.sql("SELECT id FROM {index}_document WHERE expires_at <= ? ORDER BY expires_at LIMIT +?")
    gone = {row[0] for row in store.db.rows(sql, (now, most))}
    if window.documents is not None:
        sql = store.sql("SELECT id FROM {index}_document WHERE id <= ? ORDER BY id DESC LIMIT +?")
        gone.update(row[0] for row in store.db.rows(sql, (last_id - window.documents, most)))
    if gone:
        clusters.remove(sorted(gone), now)


def change_window(store: Store, documents: Documents, window: Window, now: int) -> None:
    """Give the index another window; inside a write transaction. What is outside of it is invisible from now on, and removed
    with the next documents added. What has left the one before stays outside."""
    before = store.window
    store.set_window(window)
    store.adopt(Choices(window=window), fingerprints=False)
    if before.duration_ms is not None:  # each document has its own end again, or none
        own = "(SELECT o.expires_at FROM {index}_own_end AS o WHERE o.document_id = id)" if store.keeps_ends else "NULL"
        sql = f"UPDATE {{index}}_document SET expires_at = {own} WHERE expires_at = added_at + ? AND expires_at > ?"
        store.db.execute(store.sql(sql), (before.duration_ms, now))
    if store.keeps_ends:
        store.db.execute(store.sql("DELETE FROM {index}_own_end"))
        sql = "INSERT INTO {index}_own_end SELECT id, expires_at FROM {index}_document WHERE expires_at >= added_at + ?"
        store.db.execute(store.sql(sql), (window.duration_ms,))
    require_window(store, documents)


def require_window(store: Store, documents: Documents) -> int:
    """Make invisible what is outside of the window, and let nothing stay for longer than it allows. Returns how many documents
    that changed."""
    wrong = expiry_outside(store, documents)
    if wrong is None:
        return 0
    latest, condition, parameters = wrong
    store.db.execute(store.sql(f"UPDATE {{index}}_document SET expires_at = {latest} WHERE {condition}"), parameters)
    changed: int = store.db.connection.changes()
    return changed
