-- `filed.sql` in an index with parts: the codes, each once.
SELECT id, fingerprint_id, {visible} FROM {index}_document
WHERE fingerprint_id BETWEEN :first_id AND :last_id
UNION SELECT d.id, p.fingerprint_id, {visible} FROM {index}_part AS p CROSS JOIN {index}_document AS d
WHERE p.fingerprint_id BETWEEN :first_id AND :last_id AND d.id = p.document_id
ORDER BY 1
