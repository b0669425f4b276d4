-- For each fingerprint, in an index with parts: the newest document that had it as a code before code :start_part and document
-- :start_id.
SELECT fingerprint_id, max(id)
FROM (
    SELECT f.value AS fingerprint_id, d.id
    FROM {carray}(:numbers) AS f CROSS JOIN {index}_document AS d
    WHERE d.fingerprint_id = f.value AND d.id < :start_id
    UNION ALL SELECT f.value, p.document_id
    FROM {carray}(:numbers) AS f CROSS JOIN {index}_part AS p
    WHERE p.fingerprint_id = f.value AND p.id < :start_part
)
GROUP BY fingerprint_id
