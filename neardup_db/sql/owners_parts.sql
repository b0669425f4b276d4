-- `owners.sql` in an index with parts: those of which a fingerprint is any code.
SELECT d.fingerprint_id, d.id, d.key FROM {carray}(?1) AS f CROSS JOIN {index}_document AS d
WHERE d.fingerprint_id = f.value AND {visible}
UNION SELECT f.value, d.id, d.key FROM {carray}(?1) AS f CROSS JOIN {index}_part AS p CROSS JOIN {index}_document AS d
WHERE p.fingerprint_id = f.value AND d.id = p.document_id AND {visible}
