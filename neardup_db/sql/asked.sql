-- The next fingerprints that a visible document has, to be asked of another index.
SELECT f.id, g.name, f.group_id, f.value, f.value_hash
FROM {index}_fingerprint AS f LEFT JOIN {index}_group AS g ON g.id = f.group_id
WHERE f.id > ?1 AND EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id AND {visible})
ORDER BY f.id LIMIT +:most
