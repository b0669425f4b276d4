-- `exported.sql` for an index with parts: a row for each code.
SELECT d.key, g.name, d.token_count, p.part, ifnull(p.fingerprint_id, d.fingerprint_id) AS code_id, f.value, f.value_hash
FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
    LEFT JOIN {index}_part AS p ON p.document_id = d.id
    LEFT JOIN {index}_fingerprint AS f ON f.id = ifnull(p.fingerprint_id, d.fingerprint_id)
WHERE {visible} ORDER BY d.id, p.id
