-- Bottom-k fingerprints that share one of the query's first hashes, of a table that holds all hashes of each: how much of the query's
-- set is in theirs, estimated from the hashes that both cover. NULL where they cover none, which no threshold lets pass.
SELECT f.id AS fingerprint_id, neardup_containment_estimate(:fingerprint, f.value, :k) AS similarity, NULL AS distance
FROM (
    SELECT DISTINCT x.fingerprint_id
    FROM neardup_probe('{index}', :fingerprint, :threshold) AS p
    CROSS JOIN {index}_bottomk_prefix AS x
    WHERE x.group_id = +:group_id AND x.hash = p.low
) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
