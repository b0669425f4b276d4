-- In the place of neardup_probe, where no table-valued function can be loaded: the same rows, bound as JSON in :keys.
-- LIMIT -1 keeps it a stream of its own, so that nothing is read from the JSON for every row joined with it.
SELECT value ->> 0 AS table_no, value ->> 1 AS low, value ->> 2 AS high
FROM json_each(:keys)
LIMIT -1
