"""The candidate tables: which rows a fingerprint has in them, how these are written, taken out and checked.

The rows follow from the stored value and from where the fingerprint's cluster stands (`neardup_filing`), so that filing, taking
out, rebuilding and checking are a statement or two each, for one fingerprint or for all. In the table of buckets a row holds the
entries of many fingerprints (`neardup_buckets`); in the others it is one's own.
"""

from __future__ import annotations

from .schema import sql_text

BUCKETS = "code_bucket"

COLUMNS: dict[str, tuple[str, ...]] = {
    BUCKETS: ("id", "group_id", "entries"),
    "minhash_band": ("bucket", "group_id", "crowd", "fingerprint_id"),
    "bottomk_prefix": ("hash", "group_id", "crowd", "fingerprint_id"),
}

BUCKET_BITS, PART_BITS = 30, 20
"""The id of a row of buckets: the number of the table, then so many bits of the bucket, then of the part (`ND_PART_BITS`)."""

MAX_ID = 2**62
"""Above every fingerprint id: the end of "all of them"."""


CROWDED: dict[str, str] = {"minhash_band": "bucket", "bottomk_prefix": "hash"}
"""Tables in whose buckets large clusters stand apart, with the column that is the bucket."""


def file_sql(table: str) -> str:
    """Write the rows of fingerprints :first_id to :last_id; they come in the table's order.

    OR FAIL, OR REPLACE: to take a statement back SQLite would copy every page before it changes; an error ends the
    transaction."""
    action = "REPLACE" if table == BUCKETS else "FAIL"
    return f"INSERT OR {action} INTO {{index}}_{table} ({', '.join(COLUMNS[table])}) {_keys(table, 1)}"


def file_keys_sql(table: str) -> str:
    """The same of fingerprints whose :keys are at hand."""
    return file_sql(table).replace(":last_id", ":last_id, :keys")


def unfile_sql(table: str) -> str:
    """Take out the rows of fingerprints :first_id to :last_id (before the fingerprints themselves go). Gives the ids of rows that
    are left without an entry, for `drop_sql`."""
    if table == BUCKETS:
        return (
            f"INSERT OR REPLACE INTO {{index}}_{table} (id, group_id, entries) "
            f"SELECT r.id, r.group_id, ifnull(r.entries, x'') FROM ({_keys(table, 0)}) AS r "
            "RETURNING iif(length(entries) = 0, id, NULL)"
        )
    key = COLUMNS[table]
    expected = ", ".join(key)
    return (
        f"DELETE FROM {{index}}_{table} WHERE ({expected}) IN (SELECT {', '.join(f'e.{name}' for name in key)} "
        f"FROM ({_named_keys(table)}) AS e)"
    )


def holding_sql() -> str:
    """The rows of buckets with an entry of :fingerprint_id, all of them looked at."""
    return f"SELECT t.id, t.entries, length(e.code) FROM {_ENTRIES} WHERE e.fingerprint_id = :fingerprint_id"


def readable_sql() -> str:
    """An error where the bytes of a row of buckets are not the entries that were written."""
    code = "(SELECT zeroblob(value / 8) FROM {index}_setting WHERE name = 'bits')"
    return f"SELECT count(neardup_near(t.entries, {code}, -1)) FROM {{index}}_{BUCKETS} AS t"


def drop_sql(table: str) -> str:
    """Drop the rows with the ids in a JSON list."""
    return f"DELETE FROM {{index}}_{table} WHERE id IN (SELECT value FROM json_each(?))"


def missing_sql(table: str) -> str:
    """Of the rows, or entries, that fingerprints :first_id to :last_id should have: how many there are, how many of them lack,
    and up to :limit fingerprints that lack some (as JSON)."""
    if table == BUCKETS:
        there = f"""EXISTS (
            SELECT 1 FROM {{index}}_{table} AS t CROSS JOIN json_each(neardup_near(t.entries, e.code, 0)) AS n
            WHERE t.id BETWEEN e.low AND e.high AND t.group_id = e.group_id AND n.value ->> 0 = e.fingerprint_id)"""
        expected = "neardup_filing('{index}', :first_id, :last_id)"
    else:
        same = " AND ".join(f"t.{name} = e.{name}" for name in COLUMNS[table])
        there = f"EXISTS (SELECT 1 FROM {{index}}_{table} AS t WHERE {same})"
        expected = f"({_named_keys(table)})"
    return (
        f"SELECT count(*), count(*) FILTER (WHERE lacks), json_group_array(DISTINCT fingerprint_id) FILTER (WHERE lacks) "
        f"FROM (SELECT e.fingerprint_id, NOT {there} AS lacks FROM {expected} AS e)"
    )


def count_sql(table: str) -> str:
    """How many rows, or entries, there are."""
    return f"SELECT count(*) FROM {_ENTRIES}" if table == BUCKETS else f"SELECT count(*) FROM {{index}}_{table}"


def excess_sql(table: str) -> str:
    """Fingerprint ids of rows, or entries, that no fingerprint from :first_id to :last_id has, or that are there twice; slow, for
    where some are known to be."""
    if table == BUCKETS:
        bucket, columns = f"id >> {PART_BITS}", "group_id, fingerprint_id, code"
        excess = (
            f"SELECT {bucket}, {columns} FROM (SELECT t.id, t.group_id, e.fingerprint_id, e.code FROM {_ENTRIES}) "
            f"EXCEPT SELECT low >> {PART_BITS}, {columns} FROM neardup_filing('{{index}}', :first_id, :last_id)"
        )
        twice = f"SELECT e.fingerprint_id FROM {_ENTRIES} GROUP BY t.id >> {PART_BITS}, e.fingerprint_id HAVING count(*) > 1"
        return f"SELECT fingerprint_id FROM ({excess}) UNION {twice} LIMIT :limit"
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


def candidates_sql(table: str, asked: str = ":fingerprint, NULL, :group_id") -> str:
    """How many rows, or entries, and how many different fingerprints, the probes meet; `asked`: what neardup_probe is called
    with."""
    number, met = _met(table)
    return f"SELECT count(*), count(DISTINCT {number}) FROM neardup_probe('{{index}}', {asked}) AS p CROSS JOIN {met}"


def met_sql(table: str) -> str:
    """The probes of :fingerprint that meet the fingerprint :other_id: where two documents became candidates, by the number of the
    table and the key or bucket."""
    number, met = _met(table)
    key = f"p.low >> {PART_BITS} & {2**BUCKET_BITS - 1}" if table == BUCKETS else "p.low"
    return (
        f"SELECT p.table_no, {key} FROM neardup_probe('{{index}}', :fingerprint, NULL, :group_id) AS p CROSS JOIN {met} "
        f"AND {number} = :other_id"
    )


_ENTRIES = """{index}_code_bucket AS t CROSS JOIN neardup_entries(t.entries,
    (SELECT value / 8 FROM {index}_setting WHERE name = 'bits')) AS e"""


def _met(table: str) -> tuple[str, str]:
    """What a probe p meets: the fingerprint's number, and the tables with their WHERE."""
    if table == BUCKETS:
        every = "json_each(neardup_near(t.entries, :fingerprint, 8 * length(:fingerprint)))"
        rows = f"{{index}}_{table} AS t CROSS JOIN {every} AS n"
        return "n.value ->> 0", f"{rows} WHERE t.id BETWEEN p.low AND p.high AND t.group_id = :group_id"
    bucket = COLUMNS[table][0]
    return "t.fingerprint_id", f"{{index}}_{table} AS t WHERE t.group_id = :group_id AND t.{bucket} = p.low"


def _keys(table: str, filed: int) -> str:
    return sql_text("keys_" + table).replace(":filed", str(filed))


def _named_keys(table: str) -> str:
    """The keys query as a SELECT whose columns have the table's names."""
    columns = COLUMNS[table]
    return f"SELECT * FROM (WITH k({', '.join(columns)}) AS ({sql_text('keys_' + table)}) SELECT * FROM k)"
