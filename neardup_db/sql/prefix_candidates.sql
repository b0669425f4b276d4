-- The fingerprints of the group that share a hash of their prefix with :fingerprint. {crowd} is a condition on the rows, or nothing.
SELECT DISTINCT x.fingerprint_id
FROM neardup_probe('{index}', :fingerprint) AS p
CROSS JOIN {index}_bottomk_prefix AS x
WHERE x.group_id = +:group_id AND x.hash = p.low{crowd}
