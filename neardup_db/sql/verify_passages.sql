-- Texts with a common selected hash, compared token by token: the share of the shorter text that lies in common passages.
SELECT f.id AS fingerprint_id, neardup_passage_share(f.value, :fingerprint, :shortest) AS similarity, NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
