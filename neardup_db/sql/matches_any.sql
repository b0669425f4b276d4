-- The first verified matches that turn up, in no order: the rest of the bucket is not looked at.
SELECT d.key, v.similarity, v.distance, d.id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND (d.expires_at IS NULL OR d.expires_at > :now)
    AND d.id > :after_id AND d.id <> :except_id
LIMIT +:limit
