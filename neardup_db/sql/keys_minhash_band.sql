-- The rows of {index}_minhash_band that the fingerprints from :first_id to :last_id have.
SELECT f.group_id, k.low, f.id
FROM {index}_fingerprint AS f
CROSS JOIN neardup_keys('{index}', f.value) AS k
WHERE f.id BETWEEN :first_id AND :last_id
