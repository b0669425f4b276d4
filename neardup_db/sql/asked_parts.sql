-- `asked.sql` in an index with parts: any code of a document is asked.
SELECT f.id, g.name, f.group_id, f.value, f.value_hash
FROM {index}_fingerprint AS f LEFT JOIN {index}_group AS g ON g.id = f.group_id
WHERE f.id > :after AND :group_id IN (f.group_id, -2) AND EXISTS (
    SELECT 1 FROM {index}_document AS d
    WHERE (d.fingerprint_id = f.id OR d.id IN (SELECT p.document_id FROM {index}_part AS p WHERE p.fingerprint_id = f.id))
        AND {visible}
)
ORDER BY f.id LIMIT +:most
