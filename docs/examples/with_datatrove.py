"""A block for datatrove that drops documents that are near-duplicates of what an index holds, and adds the others to it.

    pip install neardup-db datatrove orjson regex
    python with_datatrove.py

All tasks write to one index file, on a local disk. A batch is one transaction, so of two copies in two tasks one stays: that of
the task that commits first. With workers=1 it is the first in the order of the tasks; with more it can be another one in the next
run. A task that failed is to be run again; it keeps what it kept. The ids must be unique.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from datatrove.data import Document, DocumentsPipeline
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.pipeline.writers.disk_base import DiskWriter

from neardup_db import Index, MinHash, TextRules, demo
from neardup_db.schemes import Scheme


class NearDuplicateFilter(BaseFilter):
    """Keeps a document unless the index holds a near-duplicate of it. The index is opened where the task runs."""

    name = "near-duplicates"

    def __init__(
        self,
        index_path: str,
        scheme: Scheme | None = None,
        rules: TextRules | None = None,
        exclusion_writer: DiskWriter | None = None,
        batch_size: int = 1000,
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        self.index_path, self.scheme, self.rules = index_path, scheme or MinHash(threshold=0.8), rules

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        with Index(self.index_path, self.scheme, text=self.rules, timeout=600) as self.index:
            yield from super().run(data, rank, world_size)

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        matches = self.index.add_if_new(doc.id, doc.text, if_exists="ignore", limit=1)
        return (False, "near_duplicate") if matches else True

    def filter_batch(self, batch: Sequence[Document]) -> list[bool | tuple[bool, str]]:
        with self.index.transaction():
            return [self.filter(doc) for doc in batch]


def run(folder: str, tasks: int, workers: int) -> None:
    """Reads FOLDER/in, writes FOLDER/out, with the index and the dropped documents beside it."""
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(f"{folder}/in"),
            NearDuplicateFilter(f"{folder}/seen.db", exclusion_writer=JsonlWriter(f"{folder}/dropped", compression=None)),
            JsonlWriter(f"{folder}/out", compression=None),
        ],
        tasks=tasks,
        workers=workers,
        logging_dir=f"{folder}/logs",
    ).run()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").mkdir()
        for part in range(4):
            chapters = demo.documents()[part::4]
            text = "".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in chapters)
            Path(folder, "in", f"{part}.jsonl").write_text(text, "utf-8")
        run(folder, tasks=4, workers=2)
        files = {name: Path(folder, name).iterdir() for name in ("out", "dropped")}
        print(json.dumps({name: sum(path.read_text("utf-8").count("\n") for path in paths) for name, paths in files.items()}))


if __name__ == "__main__":
    main()
