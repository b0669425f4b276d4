-- The visible documents of some fingerprints.
SELECT v.fingerprint_id, d.id, d.key
FROM (SELECT value AS fingerprint_id FROM {carray}(?1)) AS v CROSS JOIN {index}_document AS d
WHERE {has_code} AND {visible}
