"""Exchange of documents: merging indexes, Parquet import and export."""
