-- Visible documents of a fingerprint: id, key, order among the codes of a document, part. Parameters: fingerprint, first document,
-- document after the last, document to leave out, time, limit.
SELECT d.id, d.key, 0, NULL FROM {index}_document AS d
WHERE d.fingerprint_id = +?1 AND d.id >= ?2 AND d.id < ?3 AND d.id <> ?4 AND {visible} ORDER BY d.id LIMIT +?6
