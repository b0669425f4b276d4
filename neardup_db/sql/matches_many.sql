-- The results of `matches.sql` for the queries packed in :asked, numbered 0 to :last_id, in this order. {earliest} is a condition
-- on the documents of a fingerprint, or empty.
SELECT j.fingerprint_id, d.key, j.similarity, j.distance
FROM neardup_join('{index}', 0, :last_id, 2, :now, :asked) AS j
CROSS JOIN {index}_document AS d
WHERE j.similarity >= :threshold
    AND (j.distance IS NULL OR j.distance <= :max_distance)
    AND d.fingerprint_id = j.other_id
    AND {visible}{earliest}
ORDER BY j.fingerprint_id, j.similarity DESC, d.id
