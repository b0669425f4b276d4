-- The first verified matches that turn up, in no order: the rest of the bucket is not looked at.
SELECT d.key, v.similarity, v.distance, d.id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND {visible}
    AND d.id <> :except_id
LIMIT +:limit
