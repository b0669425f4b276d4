-- Bottom-k fingerprints with a shared hash in their prefixes, by the unbiased estimate of the texts' Jaccard similarity.
SELECT f.id AS fingerprint_id, neardup_jaccard_estimate(f.value, :fingerprint, :k) AS similarity, NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
