-- The rows of {index}_passage_hash for the fingerprints :first_id to :last_id, in table order.
SELECT k.low, k.group_id, k.crowd, k.fingerprint_id
FROM neardup_filing('{index}', :first_id, :last_id) AS k
