-- `members.sql` in an index with parts: a document stands under each of its fingerprints, once.
SELECT fingerprint_id, id, key, ifnull(cluster_id, id + {alone}) FROM {index}_document
WHERE fingerprint_id BETWEEN :first_id AND :last_id AND {visible} AND :group_id IN (group_id, -2)
UNION SELECT p.fingerprint_id, d.id, d.key, ifnull(d.cluster_id, d.id + {alone})
FROM {index}_part AS p CROSS JOIN {index}_document AS d
WHERE p.fingerprint_id BETWEEN :first_id AND :last_id AND d.id = p.document_id AND {visible} AND :group_id IN (d.group_id, -2)
ORDER BY 1, 2 LIMIT :most
