-- `unused.sql` in an index with parts.
SELECT f.id FROM {index}_fingerprint AS f
WHERE NOT EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id)
    AND NOT EXISTS (SELECT 1 FROM {index}_part AS p WHERE p.fingerprint_id = f.id)
