-- Codes within :max_distance bits, by block tables or by multi-index hashing. The rows of a bucket hold the whole codes and a hash
-- of themselves, so nothing else is read. Most buckets are one row, the last one that they may have: to look for it by its id,
-- and for others before it, ends there, where a range goes on to the next bucket, often on the next page.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM (
    SELECT DISTINCT n.value ->> 0 AS fingerprint_id, n.value ->> 1 AS distance
    FROM neardup_probe('{index}', :fingerprint, NULL, :group_id) AS p
    CROSS JOIN {index}_code_bucket AS b
    CROSS JOIN json_each(neardup_near(b.entries, :fingerprint, :max_distance)) AS n
    WHERE (b.id = p.high OR b.id BETWEEN p.low AND p.high - 1) AND b.group_id = +:group_id
) AS c
