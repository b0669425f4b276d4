-- The next fingerprints with a visible document, of one group or, if :group_id is -2, of all; for a join with another index.
SELECT v.fingerprint_id, g.name, v.group_id, v.value, v.value_hash
FROM (SELECT id AS fingerprint_id, group_id, value, value_hash FROM {index}_fingerprint) AS v
    LEFT JOIN {index}_group AS g ON g.id = v.group_id
WHERE v.fingerprint_id > :after AND :group_id IN (v.group_id, -2)
    AND EXISTS (SELECT 1 FROM {index}_document AS d WHERE {has_code} AND {visible})
ORDER BY v.fingerprint_id LIMIT +:most
