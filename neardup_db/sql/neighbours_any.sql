-- The verified fingerprints in any order, each with its newest visible document, or else its newest one, and whether it is
-- visible. The first few are enough to connect an added document.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id, {visible}
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.id = ifnull((
        SELECT max(x.id) FROM {index}_document AS x
        WHERE x.fingerprint_id = v.fingerprint_id AND x.id < :before_id
            AND {visible}
    ), (
        SELECT max(x.id) FROM {index}_document AS x
        WHERE x.fingerprint_id = v.fingerprint_id AND x.id < :before_id
    ))
