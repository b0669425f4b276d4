-- MinHash candidates, verified exactly: the stored values are packed shingle hashes.
SELECT f.id AS fingerprint_id, neardup_jaccard(neardup_hashes(f.value), neardup_hashes(:fingerprint), :threshold) AS similarity, NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
