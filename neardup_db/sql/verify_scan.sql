-- Codes within :max_distance bits, by looking at all of them.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM (
    SELECT f.id AS fingerprint_id, neardup_hamming(f.value, :fingerprint) AS distance
    FROM {index}_fingerprint AS f
    WHERE f.group_id = :group_id AND neardup_hamming(f.value, :fingerprint) <= :max_distance
) AS c
