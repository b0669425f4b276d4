-- The share of the query's shingles that each stored set contains. Scans all fingerprints, because bands find similar sets, not
-- subsets of larger ones. Without groups the table is scanned in order, four times as fast as through the index by group. Only
-- one branch runs.
SELECT f.id AS fingerprint_id, neardup_containment(neardup_hashes(:fingerprint), neardup_hashes(f.value)) AS similarity, NULL AS distance
FROM {index}_fingerprint AS f NOT INDEXED
WHERE :group_id = 0 AND f.group_id = 0 AND neardup_intact(f.value, f.value_hash)
UNION ALL
SELECT f.id, neardup_containment(neardup_hashes(:fingerprint), neardup_hashes(f.value)), NULL
FROM {index}_fingerprint AS f
WHERE :group_id <> 0 AND f.group_id = +:group_id AND neardup_intact(f.value, f.value_hash)
