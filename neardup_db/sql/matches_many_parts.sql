-- `matches_many.sql` for an index with parts: each query returns a document once, with its best code.
SELECT b.number, b.key, b.similarity, b.distance, {best_part}
FROM (
    SELECT v.number, d.key, max(v.similarity) AS similarity, min(v.distance) AS distance, d.id, {nearer} AS nearer
    FROM (
        SELECT j.fingerprint_id AS number, j.other_id AS fingerprint_id, j.similarity, j.distance
        FROM neardup_join('{index}', 0, :last_id, 2, :now, :asked) AS j
        WHERE j.similarity >= :threshold AND j.distance <= :max_distance LIMIT -1
    ) AS v
    CROSS JOIN {index}_document AS d
    WHERE {coded}
        AND {visible}
    GROUP BY v.number, d.id
) AS b
ORDER BY b.number, b.similarity DESC, b.id
