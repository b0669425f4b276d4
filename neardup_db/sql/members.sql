-- The visible documents of a range of fingerprints, with their labels, by fingerprint, in the order of insertion.
SELECT fingerprint_id, id, key, ifnull(cluster_id, id + {alone}) FROM {index}_document
WHERE fingerprint_id BETWEEN :first_id AND :last_id AND {visible} ORDER BY fingerprint_id, id LIMIT :most
