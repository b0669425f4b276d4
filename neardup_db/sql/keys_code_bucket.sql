-- The rows of {index}_code_bucket that change when the fingerprints from :first_id to :last_id are filed (:filed = 1) or taken out
-- (0), in the order of the table; entries is NULL where nothing is left.
SELECT k.id, k.group_id, k.entries
FROM neardup_buckets('{index}', :first_id, :last_id, :filed) AS k
