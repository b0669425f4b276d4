"""What a process does that was spawned, not forked: all that it knows came to it pickled."""

from __future__ import annotations

from typing import Any

from neardup_db import Index, MinHash, TextRules


def answers(path: str, scheme: MinHash, rules: TextRules, text: str) -> Any:
    """The settings of an index, what it has like a text, a document, the clusters, and how many documents there are."""
    with Index(path, scheme, text=rules) as index:
        matches = index.query(text)
        return index.scheme, index.text_rules, matches, index.get(matches[0].key), index.clusters(), len(index)
