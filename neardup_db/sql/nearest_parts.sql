-- `nearest.sql` for an index with parts: each document once, with its best code.
SELECT b.key, max(0.0, 1.0 - :slope * b.distance / :bits) AS similarity, b.distance, b.id, {best_part}
FROM (
    SELECT d.key, min(v.distance) AS distance, d.id, {nearer} AS nearer
    FROM neardup_nearest('{index}', :fingerprint, :group_id, :count) AS v
    CROSS JOIN {index}_document AS d
    WHERE {coded}
        AND {visible}
    GROUP BY d.id
) AS b
ORDER BY b.distance, b.id LIMIT +:limit
