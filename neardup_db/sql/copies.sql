-- The fingerprints of more than one document.
SELECT fingerprint_id FROM {index}_document WHERE fingerprint_id IS NOT NULL GROUP BY fingerprint_id HAVING count(*) > 1
