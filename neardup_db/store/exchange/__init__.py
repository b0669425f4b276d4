"""Fingerprints out of an index and into one, as Parquet."""
