-- The documents of an index with parts, once for each fingerprint that they have. In any other index their table stands for it.
(
    SELECT c.fingerprint_id, d.id, d.key, d.group_id, d.cluster_id, d.expires_at
    FROM (SELECT id, fingerprint_id FROM {index}_document UNION SELECT document_id, fingerprint_id FROM {index}_part) AS c
    CROSS JOIN {index}_document AS d
    WHERE d.id = c.id
)
