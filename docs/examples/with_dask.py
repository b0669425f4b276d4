"""Near-duplicates out of a Dask dataframe: fingerprints where the partitions are, clusters in one index.

    pip install 'neardup-db[arrow]' 'dask[dataframe]'
    python with_dask.py
"""

from __future__ import annotations

import json
import tempfile

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow.parquet as pq

from neardup_db import Index, MinHash, TextRules, demo
from neardup_db.fingerprint_files import fingerprint_table

SCHEME, RULES = MinHash(threshold=0.8), TextRules()


@dask.delayed
def write_fingerprints(partition: pd.DataFrame, path: str) -> None:
    """Runs on the workers. A partition that is computed twice writes the same file."""
    pq.write_table(fingerprint_table(partition, "id", "text", SCHEME, RULES), path)


def drop(frame: dd.DataFrame, folder: str, index_path: str) -> dd.DataFrame:
    """The first row of each cluster stays. folder: a new one, which all workers reach. "id" is unique."""
    partitions = frame[["id", "text"]].to_delayed()  # files are read in the order of their names, so number them
    dask.compute([write_fingerprints(one, f"{folder}/{number:06}.parquet") for number, one in enumerate(partitions)])
    with Index(index_path, SCHEME, text=RULES) as index:
        index.import_fingerprints(folder)
        gone = [key for cluster in index.clusters() for key in cluster.keys if key != cluster.representative]
    return frame[~frame["id"].isin(gone)]


def main() -> None:
    chapters = pd.DataFrame(demo.documents(), columns=["id", "text"])
    frame = dd.from_pandas(chapters, npartitions=4, sort=False)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({"rows": len(frame), "drop": len(drop(frame, folder, f"{folder}/index.db"))}))


if __name__ == "__main__":
    main()
