-- The same where stored texts are hashed again: one text of each fingerprint, for equal fingerprints have equal shingles.
SELECT c.fingerprint_id,
    neardup_text_containment('{index}',
        (SELECT d.text FROM {index}_document AS d WHERE d.fingerprint_id = c.fingerprint_id LIMIT 1),
        :evidence) AS similarity,
    NULL AS distance
FROM (
    SELECT f.id AS fingerprint_id
    FROM {index}_fingerprint AS f NOT INDEXED
    WHERE :group_id = 0 AND f.group_id = 0
    UNION ALL
    SELECT f.id
    FROM {index}_fingerprint AS f
    WHERE :group_id <> 0 AND f.group_id = +:group_id
) AS c
