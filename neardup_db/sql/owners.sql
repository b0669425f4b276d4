-- The visible documents of fingerprints.
SELECT d.fingerprint_id, d.id, d.key FROM {carray}(?1) AS f CROSS JOIN {index}_document AS d
WHERE d.fingerprint_id = f.value AND {visible}
