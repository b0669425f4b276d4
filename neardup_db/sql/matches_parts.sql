-- `matches.sql` for an index with parts: each document once, with its best code.
SELECT b.key, b.similarity, b.distance, b.id, {best_part}
FROM (
    SELECT d.key, max(v.similarity) AS similarity, min(v.distance) AS distance, d.id, {nearer} AS nearer
    FROM ({verified} LIMIT -1) AS v
    CROSS JOIN {index}_document AS d
    WHERE v.similarity >= :threshold
        AND {coded}
        AND {visible}
        AND d.id <> :except_id
    GROUP BY d.id
) AS b
ORDER BY b.similarity DESC, b.id{limit}
