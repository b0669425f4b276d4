"""Near-duplicates out of a Hugging Face dataset: in one process, in several, and against an index.

    pip install 'neardup-db[frames]' datasets
    python with_datasets.py
"""

from __future__ import annotations

import json
import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset

from neardup_db import Index, MinHash, TextRules, demo
from neardup_db.fingerprint_files import fingerprint_schema, fingerprint_table
from neardup_db.frames import mark_near_duplicates

SCHEME, RULES = MinHash(threshold=0.8), TextRules()


# ---- in one process: a row goes if it is a near-duplicate of one that stays --------------------------------------------------


def drop(dataset: Dataset) -> Dataset:
    """The rows stay in their file: only numbers of rows are computed."""
    texts = dataset.select_columns("text").with_format("arrow")[:]
    marks = mark_near_duplicates(texts, "text", scheme=SCHEME, rules=RULES)
    return dataset.select(marks["duplicate_of"].is_null().to_numpy().nonzero()[0])


# ---- in several processes ----------------------------------------------------------------------------------------------------


def fingerprints(batch: pa.Table) -> pa.Table:
    """Runs in each process. Neither it nor the scheme holds anything open, so `datasets` can send and hash them."""
    return fingerprint_table(batch, "id", "text", SCHEME, RULES)


def drop_in_parallel(dataset: Dataset, index_path: str, num_proc: int) -> Dataset:
    """Fingerprints in all processes, clusters in this one: the first row of each cluster stays, as `connected=True` keeps it.

    "id" is unique. The index stays, for the next dataset."""
    made = dataset.with_format("arrow").map(fingerprints, batched=True, num_proc=num_proc, remove_columns=dataset.column_names)
    with tempfile.TemporaryDirectory() as folder:
        schema = fingerprint_schema(SCHEME, RULES)  # with the settings, which `datasets` drops
        with pq.ParquetWriter(f"{folder}/all.parquet", schema) as file:
            for batch in made.iter(10_000):
                file.write_table(batch.cast(schema))
        with Index(index_path, SCHEME, text=RULES) as index:
            index.import_fingerprints(folder)
            gone = {key for cluster in index.clusters() for key in cluster.keys if key != cluster.representative}
    return dataset.filter(lambda ids: [key not in gone for key in ids], batched=True, input_columns="id")


# ---- against an index, such as one of the test set ---------------------------------------------------------------------------


def is_clean(batch: pa.Table, index_path: str) -> list[bool]:
    """Each process opens the file for itself: a millisecond a batch. An Index cannot be sent to another process."""
    with Index(index_path, read_only=True) as index:
        return [not matches for matches in index.query_many(batch, text="text", limit=1, any=True)]


def drop_contaminated(dataset: Dataset, index_path: str, num_proc: int) -> Dataset:
    """Without the cache: `datasets` would not notice that the file has changed."""
    clean = dataset.with_format("arrow").filter(
        is_clean, batched=True, num_proc=num_proc, fn_kwargs={"index_path": index_path}, load_from_cache_file=False
    )
    return clean.with_format(None)


def main() -> None:
    chapters = [{"id": key, "text": text} for key, text in demo.documents()]
    dataset = Dataset.from_list(chapters)
    with tempfile.TemporaryDirectory() as folder:
        test_set = os.path.join(folder, "test_set.db")
        with Index(test_set, SCHEME, text=RULES) as index:
            index.add_many(dataset.with_format("arrow")[:50], key="id", text="text")
        print(json.dumps({
            "rows": len(dataset),
            "drop": len(drop(dataset)),
            "drop_in_parallel": len(drop_in_parallel(dataset, os.path.join(folder, "all.db"), num_proc=2)),
            "drop_contaminated": len(drop_contaminated(dataset, test_set, num_proc=2)),
        }))  # fmt: skip


if __name__ == "__main__":
    main()
