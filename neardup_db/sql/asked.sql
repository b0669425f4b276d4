-- The next fingerprints that a visible document has, of one group, or of all where :group_id is -2, to be asked of another index.
SELECT f.id, g.name, f.group_id, f.value, f.value_hash
FROM {index}_fingerprint AS f LEFT JOIN {index}_group AS g ON g.id = f.group_id
WHERE f.id > :after AND :group_id IN (f.group_id, -2) AND EXISTS (SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id AND {visible})
ORDER BY f.id LIMIT +:most
