-- Whether a visible document with an id from :after_id to before :before_id has a verified fingerprint: a row if so.
SELECT 1
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND d.id >= :after_id AND d.id < :before_id
    AND {visible}
LIMIT 1
