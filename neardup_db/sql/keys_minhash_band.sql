-- The rows of {index}_minhash_band that the fingerprints from :first_id to :last_id have, in the order of the table.
SELECT k.low, k.group_id, k.crowd, k.fingerprint_id
FROM neardup_filing('{index}', :first_id, :last_id) AS k
