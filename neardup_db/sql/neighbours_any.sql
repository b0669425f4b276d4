-- The first verified fingerprints that turn up, each with its newest visible document: enough to connect an added document. With
-- a :now before every expiry all documents are visible.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.id = (
        SELECT max(x.id) FROM {index}_document AS x
        WHERE x.fingerprint_id = v.fingerprint_id AND x.id < :before_id
            AND {visible}
    )
LIMIT +:limit
