-- The :limit nearest visible documents of an index of codes, ties in insertion order, among the :count nearest fingerprints and
-- ties. If their documents are deleted or expired, more may exist at larger distances.
SELECT d.key, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance, d.id
FROM neardup_nearest('{index}', :fingerprint, :group_id, :count) AS c
CROSS JOIN {index}_document AS d
WHERE d.fingerprint_id = c.fingerprint_id
    AND {visible}
ORDER BY c.distance, d.id LIMIT +:limit
