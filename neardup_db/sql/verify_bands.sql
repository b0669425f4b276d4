-- MinHash signatures in a shared bucket, by their share of equal slots. neardup_may_match skips most candidates of a large bucket
-- without reading their values.
SELECT f.id AS fingerprint_id, neardup_slot_share(f.value, :fingerprint, :slot_bits) AS similarity, NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE neardup_may_match(:fingerprint, c.fingerprint_id, :slot_bits, :threshold, :outlined)
    AND f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
    AND neardup_met(f.id, f.value, :slot_bits, :outlined, :settled)
