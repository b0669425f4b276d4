-- The visible documents of a range of fingerprints with their labels, by fingerprint, in insertion order; of one group or, if
-- :group_id is -2, of all.
SELECT fingerprint_id, id, key, ifnull(cluster_id, id + {alone}) FROM {codes}
WHERE fingerprint_id BETWEEN :first_id AND :last_id AND {visible} AND :group_id IN (group_id, -2)
ORDER BY fingerprint_id, id LIMIT :most
