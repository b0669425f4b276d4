-- In the place of neardup_probe, where no table-valued function can be loaded: the same rows, bound as JSON in :keys. What JSON
-- cannot hold, low, high and code of codes wider than 64 bits, is null there, and stands in :codes, :code_bytes each.
-- LIMIT -1 keeps it a stream of its own, so that nothing is read from the JSON for every row joined with it.
SELECT value ->> 0 AS table_no,
    ifnull(value ->> 1, substr(:codes, :code_bytes * (3 * key) + 1, :code_bytes)) AS low,
    ifnull(value ->> 2, substr(:codes, :code_bytes * (3 * key + 1) + 1, :code_bytes)) AS high,
    ifnull(value ->> 3, substr(:codes, :code_bytes * (3 * key + 2) + 1, :code_bytes)) AS code
FROM json_each(:keys)
LIMIT -1
