-- Aggregates over the documents of `matches.sql` added at :since or later: their number, how often they were offered, and their
-- times.
SELECT count(*), ifnull(sum(d.times_seen), 0), min(d.added_at), max(d.added_at), max(d.last_seen)
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND {visible}
    AND d.added_at >= :since
