-- The verified fingerprints, each with its newest document before :before_id, to connect an added document. All documents of a
-- fingerprint are in one cluster, expired ones included, so one represents all. {alone}: see `ALONE`.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id, :before_id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.id = (
        SELECT max(x.id) FROM {index}_document AS x
        WHERE x.fingerprint_id = v.fingerprint_id AND x.id < :before_id
    )
ORDER BY v.similarity DESC, d.id DESC
