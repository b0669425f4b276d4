-- MinHash candidates verified exactly: their stored texts are hashed again. Equal fingerprints have equal shingles, so one text will do.
SELECT c.fingerprint_id,
    neardup_text_jaccard('{index}',
        (SELECT d.text FROM {index}_document AS d WHERE d.fingerprint_id = c.fingerprint_id LIMIT 1),
        :evidence, :threshold) AS similarity,
    NULL AS distance
FROM neardup_candidates('{index}', :fingerprint, +:group_id{crowd}) AS c
