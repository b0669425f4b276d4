-- For each fingerprint, in an index with parts: the newest document that had it as a code before code :start_part and document
-- :start_id, with its label; the first and last visible document among these.
SELECT o.fingerprint_id, n.id, ifnull(n.cluster_id, n.id + {alone}), o.first, o.last
FROM (
    SELECT fingerprint_id, max(id) AS newest, min(id) FILTER (WHERE {visible}) AS first, max(id) FILTER (WHERE {visible}) AS last
    FROM (
        SELECT f.value AS fingerprint_id, d.id, d.expires_at
        FROM {carray}(:numbers) AS f CROSS JOIN {index}_document AS d
        WHERE d.fingerprint_id = f.value AND d.id < :start_id
        UNION ALL SELECT f.value, d.id, d.expires_at
        FROM {carray}(:numbers) AS f CROSS JOIN {index}_part AS p CROSS JOIN {index}_document AS d
        WHERE p.fingerprint_id = f.value AND p.id < :start_part AND d.id = p.document_id
    )
    GROUP BY fingerprint_id
) AS o
CROSS JOIN {index}_document AS n
WHERE n.id = o.newest
