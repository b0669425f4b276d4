-- The visible documents with :first_id <= id < :before_id and a verified fingerprint, in the form of `neighbours_any.sql`: for a
-- large cluster in an index with a window, which most of its documents have left.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id, 1
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND d.id >= :first_id AND d.id < :before_id
    AND {visible}
