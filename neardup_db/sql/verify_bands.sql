-- MinHash signatures that share a bucket: the share of equal slots. Most candidates of a crowded bucket are passed by without their
-- values (neardup_may_match).
SELECT f.id AS fingerprint_id, neardup_slot_share(f.value, :fingerprint, :slot_bits) AS similarity, NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE neardup_may_match(:fingerprint, c.fingerprint_id, :slot_bits, :threshold, :outlined)
    AND f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
    AND neardup_met(f.id, f.value, :slot_bits, :outlined, :settled)
