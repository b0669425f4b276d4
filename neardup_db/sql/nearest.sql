-- The :limit nearest visible documents of an index of codes, ties in the order of insertion, among the fingerprints within the
-- smallest distance that holds :count of them: where all of these are gone or have expired there may be more beyond it.
SELECT d.key, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance, d.id
FROM neardup_nearest('{index}', :fingerprint, :group_id, :count) AS c
CROSS JOIN {index}_document AS d
WHERE d.fingerprint_id = c.fingerprint_id
    AND {visible}
ORDER BY c.distance, d.id LIMIT +:limit
