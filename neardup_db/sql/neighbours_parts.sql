-- `neighbours.sql` for an index with parts: the newest document before :before_id of each fingerprint, except :except_id.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id, :before_id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.id = max(ifnull((
        SELECT max(x.id) FROM {index}_document AS x
        WHERE x.fingerprint_id = v.fingerprint_id AND x.id < :before_id AND x.id <> :except_id
    ), 0), ifnull((
        SELECT max(x.document_id) FROM {index}_part AS x
        WHERE x.fingerprint_id = v.fingerprint_id AND x.document_id < :before_id AND x.document_id <> :except_id
    ), 0))
ORDER BY v.similarity DESC, d.id DESC
