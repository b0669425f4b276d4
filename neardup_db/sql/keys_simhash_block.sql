-- The rows of {index}_simhash_block that the fingerprints from :first_id to :last_id have, in the order of the table.
SELECT k.group_id, k.table_no, k.low, k.fingerprint_id
FROM neardup_filing('{index}', :first_id, :last_id) AS k
