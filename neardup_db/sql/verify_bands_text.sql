-- MinHash candidates verified exactly: their stored texts are hashed again. Equal fingerprints have equal shingles, so one text will do.
SELECT c.fingerprint_id,
    neardup_text_jaccard('{index}',
        (SELECT d.text FROM {index}_document AS d WHERE d.fingerprint_id = c.fingerprint_id LIMIT 1),
        :evidence, :threshold) AS similarity,
    NULL AS distance
FROM (
    SELECT DISTINCT b.fingerprint_id
    FROM neardup_probe('{index}', :fingerprint) AS p
    CROSS JOIN {index}_minhash_band AS b
    WHERE b.group_id = +:group_id AND b.bucket = p.low{crowd}
) AS c
