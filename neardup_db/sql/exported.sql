-- The visible documents with their fingerprints, in insertion order.
SELECT d.key, g.name, d.token_count, NULL, d.fingerprint_id, {value}, {value_hash}
FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
    LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id {aside}
WHERE {visible} ORDER BY d.id
