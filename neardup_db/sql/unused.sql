-- The fingerprints without a document.
SELECT v.fingerprint_id FROM (SELECT id AS fingerprint_id FROM {index}_fingerprint) AS v
WHERE NOT EXISTS (SELECT 1 FROM {index}_document AS d WHERE {has_code})
