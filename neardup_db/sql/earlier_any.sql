-- One row if a visible document with :after_id <= id < :before_id has a verified fingerprint.
SELECT 1
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND d.id >= :after_id AND d.id < :before_id
    AND {visible}
LIMIT 1
