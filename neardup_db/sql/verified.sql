-- The verified fingerprints that a visible document has: what a query counts before it lists documents.
SELECT v.fingerprint_id
FROM ({verified} LIMIT -1) AS v
WHERE v.similarity >= :threshold
    AND EXISTS (
        SELECT 1 FROM {index}_document AS d
        WHERE d.fingerprint_id = v.fingerprint_id AND (d.expires_at IS NULL OR d.expires_at > :now)
    )
