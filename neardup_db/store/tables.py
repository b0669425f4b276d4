"""The candidate tables: which rows a fingerprint has in them, how these are written, taken out and checked.

The rows follow from the stored value and from where the fingerprint's cluster stands (`neardup_filing`), so that filing, taking
out, rebuilding and checking are one statement each, for one fingerprint or for all.
"""

from __future__ import annotations

from .schema import sql_text

COLUMNS: dict[str, tuple[str, ...]] = {
    "simhash_block": ("group_id", "table_no", "permuted", "fingerprint_id"),
    "minhash_band": ("bucket", "group_id", "crowd", "fingerprint_id"),
    "bottomk_prefix": ("hash", "group_id", "crowd", "fingerprint_id"),
    "code_chunk": ("group_id", "chunk_no", "value", "fingerprint_id", "code"),
}

_PROBED: dict[str, str] = {
    "simhash_block": "t.table_no = p.table_no AND t.permuted BETWEEN p.low AND p.high",
    "minhash_band": "t.bucket = p.low",
    "bottomk_prefix": "t.hash = p.low",
    "code_chunk": "t.chunk_no = p.table_no AND t.value = p.low",
}

MAX_ID = 2**62
"""Above every fingerprint id: the end of "all of them"."""


CROWDED: dict[str, str] = {"minhash_band": "bucket", "bottomk_prefix": "hash"}
"""Tables in whose buckets large clusters stand apart, with the column that is the bucket."""


def file_sql(table: str) -> str:
    """Write the rows of fingerprints :first_id to :last_id; they come in the table's order.

    OR FAIL: to take a statement back SQLite would keep in memory every page that it changes; an error ends the transaction."""
    return f"INSERT OR FAIL INTO {{index}}_{table} ({', '.join(COLUMNS[table])}) {sql_text('keys_' + table)}"


def file_keys_sql(table: str) -> str:
    """The same of fingerprints whose :keys are at hand."""
    return file_sql(table).replace(":last_id", ":last_id, :keys")


def unfile_sql(table: str) -> str:
    """Take out the rows of fingerprints :first_id to :last_id (before the fingerprints themselves go)."""
    key = [name for name in COLUMNS[table] if name != "code"]
    expected = ", ".join(key)
    return (
        f"DELETE FROM {{index}}_{table} WHERE ({expected}) IN (SELECT {', '.join(f'e.{name}' for name in key)} "
        f"FROM ({_named_keys(table)}) AS e)"
    )


def missing_sql(table: str) -> str:
    """Of the rows that fingerprints :first_id to :last_id should have: how many there are, how many of them lack, and up to
    :limit fingerprints that lack some (as JSON)."""
    same = " AND ".join(f"t.{name} = e.{name}" for name in COLUMNS[table])
    there = f"EXISTS (SELECT 1 FROM {{index}}_{table} AS t WHERE {same})"
    return (
        f"SELECT count(*), count(*) FILTER (WHERE lacks), json_group_array(DISTINCT fingerprint_id) FILTER (WHERE lacks) "
        f"FROM (SELECT e.fingerprint_id, NOT {there} AS lacks FROM ({_named_keys(table)}) AS e)"
    )


def excess_sql(table: str) -> str:
    """Fingerprint ids of rows that no fingerprint from :first_id to :last_id has; slow, for where some are known to be."""
    columns = ", ".join(COLUMNS[table])
    excess = f"SELECT {columns} FROM {{index}}_{table} EXCEPT {_named_keys(table)}"
    return f"SELECT DISTINCT fingerprint_id FROM ({excess}) LIMIT :limit"


def crowds_sql(table: str) -> str:
    """The crowds in the buckets of :fingerprint: from label to label, past the rows between them."""
    bucket = f"FROM {{index}}_{table} AS b WHERE b.group_id = :group_id AND b.{CROWDED[table]} ="
    return (
        f"WITH RECURSIVE met(bucket, crowd) AS (SELECT p.low, (SELECT min(b.crowd) {bucket} p.low) "
        f"FROM neardup_probe('{{index}}', :fingerprint) AS p "
        f"UNION ALL SELECT m.bucket, (SELECT min(b.crowd) {bucket} m.bucket AND b.crowd > m.crowd) "
        f"FROM met AS m WHERE m.crowd IS NOT NULL) SELECT DISTINCT crowd FROM met WHERE crowd <> 0"
    )


def candidates_sql(table: str, asked: str = ":fingerprint") -> str:
    """How many rows, and how many different fingerprints, the probes meet; `asked`: what neardup_probe is called with."""
    return (
        f"SELECT count(*), count(DISTINCT t.fingerprint_id) FROM neardup_probe('{{index}}', {asked}) AS p "
        f"CROSS JOIN {{index}}_{table} AS t WHERE t.group_id = :group_id AND {_PROBED[table]}"
    )


def met_sql(table: str) -> str:
    """The probes of :fingerprint that meet the fingerprint :other_id: where two documents became candidates."""
    return (
        f"SELECT p.table_no, p.low FROM neardup_probe('{{index}}', :fingerprint) AS p CROSS JOIN {{index}}_{table} AS t "
        f"WHERE t.group_id = :group_id AND {_PROBED[table]} AND t.fingerprint_id = :other_id"
    )


def _named_keys(table: str) -> str:
    """The keys query as a SELECT whose columns have the table's names."""
    columns = COLUMNS[table]
    return f"SELECT * FROM (WITH k({', '.join(columns)}) AS ({sql_text('keys_' + table)}) SELECT * FROM k)"
