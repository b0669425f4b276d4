"""Merging indexes, Parquet import and export."""
