-- MinHash signatures that share a bucket: the share of equal slots.
SELECT f.id AS fingerprint_id, neardup_slot_share(f.value, :fingerprint, :slot_bits) AS similarity, NULL AS distance
FROM (
    SELECT DISTINCT b.fingerprint_id
    FROM neardup_probe('{index}', :fingerprint) AS p
    CROSS JOIN {index}_minhash_band AS b
    WHERE b.group_id = +:group_id AND b.bucket = p.low{crowd}
) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
