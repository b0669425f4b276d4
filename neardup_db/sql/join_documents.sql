-- What connects the fingerprints from :first_id to :last_id with earlier ones: the first document of each, and of what it matches
-- the newest document and the id of the first visible one. :ever is before every expiry, so that expired documents are connected.
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
