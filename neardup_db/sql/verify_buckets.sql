-- Codes within :max_distance bits, by block tables or multi-index hashing. Bucket rows contain the whole codes and a checksum, so
-- no other table is read.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id, NULL, :max_distance) AS c
