-- The documents of `matches.sql` that were added at :since or later: how many there are, how often they were offered, and when.
SELECT count(*), ifnull(sum(d.times_seen), 0), min(d.added_at), max(d.added_at), max(d.last_seen)
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND {visible}
    AND d.added_at >= :since
