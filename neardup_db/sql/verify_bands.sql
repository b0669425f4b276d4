-- MinHash signatures that share a bucket: the share of equal slots. Most candidates of a crowded bucket are passed by without their
-- values (neardup_may_match), and before they are made distinct, which takes longer.
SELECT f.id AS fingerprint_id, neardup_slot_share(f.value, :fingerprint, :slot_bits) AS similarity, NULL AS distance
FROM ({band_candidates}
    AND neardup_may_match(:fingerprint, b.fingerprint_id, :slot_bits, :threshold, :generation)
) AS c
CROSS JOIN {index}_fingerprint AS f
WHERE f.id = c.fingerprint_id AND neardup_intact(f.value, f.value_hash)
    AND neardup_met(f.id, f.value, :slot_bits, :generation, :settled)
