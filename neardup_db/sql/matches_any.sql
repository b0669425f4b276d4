-- The first verified matches found, in any order. The rest of the bucket is not read.
SELECT d.key, v.similarity, v.distance, d.id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND {visible}
    AND d.id <> :except_id
LIMIT +:limit
