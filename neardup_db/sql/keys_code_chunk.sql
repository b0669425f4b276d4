-- The rows of {index}_code_chunk that the fingerprints from :first_id to :last_id have.
SELECT f.group_id, k.table_no, k.low, f.id, f.value
FROM {index}_fingerprint AS f
CROSS JOIN neardup_keys('{index}', f.value) AS k
WHERE f.id BETWEEN :first_id AND :last_id
