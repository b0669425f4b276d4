-- Bottom-k fingerprints with one of the query's first hashes, in a table of all their hashes: the share of the query's set that
-- theirs contains, estimated from the hashes that both cover. NULL, which passes no threshold, if they cover none.
SELECT f.id AS fingerprint_id, neardup_containment_estimate(:fingerprint, f.value, :k) AS similarity, NULL AS distance
FROM (
    SELECT DISTINCT x.fingerprint_id
    FROM neardup_probe('{index}', :fingerprint, :threshold) AS p
    CROSS JOIN {index}_bottomk_prefix AS x
    WHERE x.group_id = +:group_id AND x.hash = p.low
) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
