-- Codes within :max_distance bits, by block tables or by multi-index hashing. The rows of a bucket hold the whole codes and a hash
-- of themselves, so nothing else is read.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id, NULL, :max_distance) AS c
