-- A row for each fingerprint of each document, in an index with parts. Other indexes use the table of documents instead.
(
    SELECT c.fingerprint_id, d.id, d.key, d.group_id, d.cluster_id, d.expires_at
    FROM (SELECT id, fingerprint_id FROM {index}_document UNION SELECT document_id, fingerprint_id FROM {index}_part) AS c
    CROSS JOIN {index}_document AS d
    WHERE d.id = c.id
)
