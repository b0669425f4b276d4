"""The bundled sample of real text: 33 Bible chapters in eleven public-domain translations (`demo_data/README.md`)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

SAMPLE = Path(__file__).with_name("demo_data") / "chapters.jsonl.gz"
"""The sample: JSON lines with `id` and `text`, packed."""


def documents() -> list[tuple[str, str]]:
    """Id and text of the 363 documents of the sample, translations of one chapter one after another.

    >>> from neardup_db.demo import documents
    >>> key, text = documents()[0]
    >>> key, text[:32]
    ('Ruth 1 (KJVPCE)', 'NOW it came to pass in the days ')
    """
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [(record["id"], record["text"]) for record in records]
