"""The picture of a transaction, for finding.md."""

from __future__ import annotations

from drawing import NARROW, Picture, box, line, words

WRITTEN = (
    "the document, metadata, times",
    "its fingerprint",
    "12 rows in the candidate table",
    "matches with earlier documents",
    "labels of clusters",
    "rows of your own tables",
)


def pictures() -> list[Picture]:
    return [transaction()]


def transaction() -> Picture:
    """What one transaction writes, and what a crash leaves before and after its end."""
    left, wide, commit = 20, 236, 214.0
    parts = [words(left, 26, "BEGIN", kind="strong")]
    for place, written in enumerate(WRITTEN):
        y = 38 + place * 28
        parts += [box(left, y, wide, 22, "hit" if place < 5 else "card"), words(left + 10, y + 16, written, kind="small")]
    parts += [words(left, commit + 14, "COMMIT: the log is on the disk", kind="strong")]
    parts += [box(left, commit + 28, wide, 22), words(left + 10, commit + 44, "later: the log moves into the file", kind="small")]
    right = left + wide + 16
    for top, bottom, kind, told in ((16, commit - 2, "lost", "nothing of it"), (commit + 4, commit + 50, "found", "all of it")):
        middle = (top + bottom) / 2
        parts += [line(right, top, right, bottom, kind), words(right + 10, middle - 2, "a crash here:")]
        parts.append(words(right + 10, middle + 16, told, kind="strong"))
    text = (
        "Document, fingerprint, rows, matches, labels and the application's own rows are written between BEGIN and COMMIT. A "
        "crash before the end of COMMIT leaves nothing of it, a crash after it leaves all."
    )
    return Picture("transaction", text, parts, commit + 66, NARROW)
