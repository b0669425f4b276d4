-- The fingerprints that no document has.
SELECT f.id FROM {index}_fingerprint AS f
WHERE NOT EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id)
