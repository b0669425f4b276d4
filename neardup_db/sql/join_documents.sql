-- Edges between the fingerprints :first_id to :last_id and earlier ones: the first document of each, and for each match its
-- newest document and first visible document. :ever precedes every expiry, so expired documents are included.
SELECT a.id, ifnull(a.cluster_id, a.id + {alone}), d.id, ifnull(d.cluster_id, d.id + {alone}), j.similarity, j.distance,
    j.other_id, (
    SELECT min(x.id) FROM {index}_document AS x
    WHERE x.fingerprint_id = j.other_id AND {visible}
)
FROM neardup_join('{index}', :first_id, :last_id, 0, :ever) AS j
CROSS JOIN {index}_document AS a
CROSS JOIN {index}_document AS d
WHERE a.id = (SELECT min(x.id) FROM {index}_document AS x WHERE x.fingerprint_id = j.fingerprint_id)
    AND d.id = (SELECT max(x.id) FROM {index}_document AS x WHERE x.fingerprint_id = j.other_id)
ORDER BY a.id, j.similarity DESC, d.id DESC
