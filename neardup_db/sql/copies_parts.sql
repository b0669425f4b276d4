-- `copies.sql` in an index with parts: a document that has a fingerprint several times counts once.
SELECT fingerprint_id FROM (
    SELECT id, fingerprint_id FROM {index}_document WHERE fingerprint_id IS NOT NULL
    UNION SELECT document_id, fingerprint_id FROM {index}_part
)
GROUP BY fingerprint_id HAVING count(*) > 1
