-- The fingerprints of the group that share a bucket of a band with :fingerprint. {crowd} is a condition on the rows, or nothing.
SELECT DISTINCT b.fingerprint_id
FROM neardup_probe('{index}', :fingerprint) AS p
CROSS JOIN {index}_minhash_band AS b
WHERE b.group_id = +:group_id AND b.bucket = p.low{crowd}
