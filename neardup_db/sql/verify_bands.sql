-- MinHash signatures that share a bucket: the share of equal slots.
SELECT f.id AS fingerprint_id, neardup_slot_share(f.value, :fingerprint, :slot_bits) AS similarity, NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
