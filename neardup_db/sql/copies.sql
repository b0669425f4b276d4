-- The fingerprints with several documents.
SELECT fingerprint_id FROM {codes} WHERE fingerprint_id IS NOT NULL GROUP BY fingerprint_id HAVING count(*) > 1
