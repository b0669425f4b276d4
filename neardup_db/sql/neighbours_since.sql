-- Documents with an id from :first_id to before :before_id that have a verified fingerprint and are visible, as neighbours_any has
-- them: of a crowd in an index with a window, most of which has left it.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id, 1
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND d.id >= :first_id AND d.id < :before_id
    AND {visible}
