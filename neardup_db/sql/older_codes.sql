-- For each fingerprint, in an index with parts: the newest document that had it as a code before code ?3 and document
-- ?2.
SELECT fingerprint_id, max(id)
FROM (
    SELECT f.value AS fingerprint_id, d.id
    FROM {carray}(?1) AS f CROSS JOIN {index}_document AS d
    WHERE d.fingerprint_id = f.value AND d.id < ?2
    UNION ALL SELECT f.value, p.document_id
    FROM {carray}(?1) AS f CROSS JOIN {index}_part AS p
    WHERE p.fingerprint_id = f.value AND p.id < ?3
)
GROUP BY fingerprint_id
