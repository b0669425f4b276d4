-- One row if a visible document other than :except_id had a verified fingerprint when :before_part and :before_id were the next
-- numbers. The first code of a document is stored together with it.
SELECT 1
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.id <> :except_id
    AND (
        (d.fingerprint_id = v.fingerprint_id AND d.id < :before_id)
        OR d.id IN (
            SELECT x.document_id FROM {index}_part AS x
            WHERE x.fingerprint_id = v.fingerprint_id AND x.id < :before_part
        )
    )
    AND {visible}
LIMIT 1
