-- `count.sql` for an index with parts: each document counts once.
SELECT count(*), ifnull(sum(c.times_seen), 0), min(c.added_at), max(c.added_at), max(c.last_seen)
FROM (
    SELECT DISTINCT d.id, d.times_seen, d.added_at, d.last_seen
    FROM ({verified} LIMIT -1) AS v
    CROSS JOIN {index}_document AS d
    WHERE v.similarity >= :threshold
        AND {coded}
        AND {visible}
        AND d.added_at >= :since
) AS c
