"""The passages that texts share, and those that most texts have, in an index of `Passages`."""

from __future__ import annotations

import bisect
from typing import Any

from ... import native
from ...arrays import np
from ...errors import ParameterError
from ...schemes import Passages
from ...values import CommonPassage, Key, Passage
from ..layout.state import Store
from .documents import DocumentRow
from .search import Search

_SHARED = """SELECT key, start, "end", other_start, other_end, tokens
    FROM neardup_passages(:index, :text, NULL, :limit, NULL, :group, :document_id, :fingerprint, :shortest)"""

_SAMPLED = 16  # texts that tell how far a common passage reaches: the part of the first one that at least half of the others have


def require_passages(store: Store) -> Passages:
    """The scheme of the index. Raises ParameterError if it has no passages."""
    if not isinstance(store.scheme, Passages):
        raise ParameterError(f"the index has {store.scheme!r}, which does not tell passages; make an index with Passages()")
    if store.rules.custom:
        raise ParameterError(
            "passages need built-in text rules, which tell where a token stands in its text; query() works with your own, too"
        )
    return store.scheme


def passages_of_text(
    search: Search, text: bytes, document: DocumentRow | None, group: Key | None, shortest: int | None, limit: int | None
) -> list[Passage]:
    """The passages that a text shares with one document, or with all that match it, longest first."""
    return _shared(search, {"text": text, "group": group, "document_id": document and document.id}, shortest, limit)


def passages_of_documents(search: Search, a: DocumentRow, b: DocumentRow, shortest: int | None) -> list[Passage]:
    """The passages of document a that document b has, longest first."""
    if a.fingerprint_id is None or b.fingerprint_id is None:
        return []
    text = search.documents.text(a.id)
    given = {"fingerprint": search.documents.value(a.fingerprint_id)} if text is None else {"text": native.text_bytes(text)}
    return _shared(search, {**given, "document_id": b.id}, shortest, None)


def _shared(search: Search, given: dict[str, Any], shortest: int | None, limit: int | None) -> list[Passage]:
    places = dict.fromkeys(("text", "group", "document_id", "fingerprint"))
    parameters = {**places, **given, "index": search.store.name, "shortest": shortest, "limit": limit}
    return [Passage(*row) for row in search.rows(_SHARED, parameters)]


def common_passages(search: Search, at_least: int, limit: int | None, now: int) -> list[CommonPassage]:
    """The passages that at least so many texts have, the most frequent first."""
    shortest = require_passages(search.store).shortest
    frequent = """SELECT hash, group_id, count(*) FROM {index}_passage_hash
                  GROUP BY hash, group_id HAVING count(*) >= ? ORDER BY count(*) DESC, hash"""
    keys = "SELECT low FROM neardup_keys('{index}', ?)"
    found: list[CommonPassage] = []  # in the order of the answer
    known: set[tuple[int, int]] = set()  # the hashes of what was found: a passage inside one has no others
    for hash, group_id, at_most in search.stream(frequent, (at_least,)):
        if limit is not None and bisect.bisect_left(found, -at_most, key=lambda passage: -passage.texts) >= limit:
            break
        if (group_id, hash) in known:
            continue
        document_id, value = _common_stretch(search, hash, group_id, shortest, now)
        if not value:
            continue
        texts = _count(search, hash, group_id, value, now)
        if texts >= at_least:
            described = _describe(search, document_id, value, texts)
            bisect.insort(found, described, key=lambda passage: (-passage.texts, -passage.tokens))
            known.update((group_id, low) for (low,) in search.rows(keys, (value,)))
    return found[:limit]


def _common_stretch(search: Search, hash: int, group_id: int, shortest: int, now: int) -> tuple[int, bytes]:
    """Of the texts with a selected hash, a document of the first one, and its tokens around the hash that half of the others
    share with it; b"" if these are no passage."""
    sql = """SELECT min(d.id), h.fingerprint_id
             FROM {index}_passage_hash AS h CROSS JOIN {index}_document AS d ON d.fingerprint_id = h.fingerprint_id
             WHERE h.hash = :hash AND h.group_id = :group_id AND {visible}
             GROUP BY h.fingerprint_id ORDER BY h.fingerprint_id LIMIT :most"""
    sampled = {"hash": hash, "group_id": group_id, "now": now, "most": 1 + _SAMPLED}
    rows = search.rows(sql, sampled)
    if not rows:  # all have expired
        return 0, b""
    (document_id, first), *others = rows
    value = search.documents.value(first)
    sharing = np.zeros(len(value) // 4 + 2, np.int64)  # for each token, the texts that share it
    for other_id, _ in others:
        inside = np.zeros(len(sharing), np.bool_)
        for passage in _shared(search, {"fingerprint": value, "document_id": other_id}, None, None):
            inside[1 + passage.start : 1 + passage.end] = True
        sharing += inside
    common = (2 * sharing >= len(others)) & (sharing > 0)
    edges = np.flatnonzero(common[1:] != common[:-1]).tolist()
    keys = "SELECT 1 FROM neardup_keys('{index}', ?) WHERE low = ?"
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        stretch = value[4 * start : 4 * end]
        if end - start >= shortest and search.rows(keys, (stretch, hash)):
            return document_id, stretch
    return document_id, b""


def _count(search: Search, hash: int, group_id: int, passage: bytes, now: int) -> int:
    """How many texts have the whole passage."""
    sql = """SELECT count(*) FROM {index}_passage_hash AS h CROSS JOIN {index}_fingerprint AS f
             WHERE h.hash = :hash AND h.group_id = :group_id AND f.id = h.fingerprint_id
                 AND neardup_passage_containment(f.value, :passage, :shortest) = 1.0
                 AND EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id AND {visible})"""
    shortest = min(len(passage) // 4, native.lib.ND_SHORTEST_MAX)
    places = {"hash": hash, "group_id": group_id, "passage": passage, "shortest": shortest, "now": now}
    return search.rows(sql, places)[0][0]


def _describe(search: Search, document_id: int, value: bytes, texts: int) -> CommonPassage:
    passage = _shared(search, {"fingerprint": value, "document_id": document_id}, None, 1)[0]
    text = search.documents.text(document_id)
    start, end = passage.other_start, passage.other_end
    return CommonPassage(passage.key, start, end, passage.tokens, texts, None if text is None else text[start:end])
