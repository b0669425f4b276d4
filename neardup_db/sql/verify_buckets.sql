-- Codes within :max_distance bits, by block tables or by multi-index hashing. A bucket's rows hold the codes, so that only those
-- near enough are looked up; what is compared in the end is the stored value.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM (
    SELECT f.id AS fingerprint_id, neardup_hamming(f.value, :fingerprint) AS distance
    FROM (
        SELECT DISTINCT n.value ->> 0 AS fingerprint_id
        FROM neardup_probe('{index}', :fingerprint, NULL, :group_id) AS p
        CROSS JOIN {index}_code_bucket AS b
        CROSS JOIN json_each(neardup_near(b.entries, :fingerprint, :max_distance)) AS n
        WHERE b.id BETWEEN p.low AND p.high AND b.group_id = +:group_id
    ) AS m
    CROSS JOIN {index}_fingerprint AS f
    WHERE f.id = m.fingerprint_id AND neardup_hamming(f.value, :fingerprint) <= :max_distance
        AND neardup_intact(f.value, f.value_hash)
) AS c
