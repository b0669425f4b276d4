"""Near-duplicates out of a Ray dataset: fingerprints on the workers, clusters in one index on the driver.

    pip install 'neardup-db[arrow]' 'ray[data]'
    python with_ray.py
"""

from __future__ import annotations

import json
import tempfile

import pyarrow as pa
import pyarrow.compute as pc
import ray

from neardup_db import Index, MinHash, TextRules, demo
from neardup_db.fingerprint_files import fingerprint_table

SCHEME, RULES = MinHash(threshold=0.8), TextRules()


def fingerprints(batch: pa.Table) -> pa.Table:
    """Runs on the workers."""
    return fingerprint_table(batch, "id", "text", SCHEME, RULES)


def without(batch: pa.Table, gone: pa.Array) -> pa.Table:
    return batch.filter(pc.invert(pc.is_in(batch["id"], value_set=gone)))


def drop(dataset: ray.data.Dataset, folder: str, index_path: str) -> ray.data.Dataset:
    """The row with the smallest id of each cluster stays: blocks have no order. folder: a new one, which all workers reach."""
    dataset.map_batches(fingerprints, batch_format="pyarrow").write_parquet(folder)
    with Index(index_path, SCHEME, text=RULES) as index:
        index.import_fingerprints(folder)
        gone = [key for cluster in index.clusters() for key in cluster.keys if key != min(cluster.keys)]
    kwargs = {"gone": pa.array(gone, pa.string())}
    return dataset.map_batches(without, batch_format="pyarrow", fn_kwargs=kwargs)


def main() -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    keys, texts = zip(*demo.documents(), strict=True)
    dataset = ray.data.from_arrow(pa.table({"id": keys, "text": texts})).repartition(4)
    with tempfile.TemporaryDirectory() as folder:
        unique = drop(dataset, f"{folder}/fingerprints", f"{folder}/index.db")
        print(json.dumps({"rows": dataset.count(), "drop": unique.count()}))
    ray.shutdown()


if __name__ == "__main__":
    main()
