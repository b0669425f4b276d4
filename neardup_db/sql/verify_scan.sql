-- Codes within :max_distance bits, by looking at all of them. Most files have no groups: there the table is read from end to end,
-- four times faster than row by row through the index, which finds the rows of a group. Only one of the two parts runs.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM (
    SELECT f.id AS fingerprint_id, neardup_hamming(f.value, :fingerprint) AS distance
    FROM {index}_fingerprint AS f NOT INDEXED
    WHERE :group_id = 0 AND f.group_id = 0 AND neardup_hamming(f.value, :fingerprint) <= :max_distance
        AND neardup_intact(f.value, f.value_hash)
    UNION ALL
    SELECT f.id, neardup_hamming(f.value, :fingerprint)
    FROM {index}_fingerprint AS f
    WHERE :group_id <> 0 AND f.group_id = +:group_id AND neardup_hamming(f.value, :fingerprint) <= :max_distance
        AND neardup_intact(f.value, f.value_hash)
) AS c
