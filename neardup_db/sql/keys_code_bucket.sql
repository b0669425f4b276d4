-- The rows of {index}_code_bucket that change when the fingerprints :first_id to :last_id are indexed (:filed = 1) or removed
-- (0), in table order. entries is NULL for an empty row.
SELECT k.id, k.group_id, k.entries
FROM neardup_buckets('{index}', :first_id, :last_id, :filed) AS k
