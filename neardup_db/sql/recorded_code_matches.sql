-- Documents with a recorded match that belongs to no two codes of theirs: these need not be the most similar ones.
WITH codes(document_id, fingerprint_id) AS (
    SELECT id, fingerprint_id FROM {index}_document UNION SELECT document_id, fingerprint_id FROM {index}_part)
SELECT m.document_id FROM {index}_match AS m WHERE m.distance IS NULL OR m.distance > :radius
    OR m.similarity <> max(0.0, 1.0 - :slope * m.distance / :bits) OR NOT EXISTS (
        SELECT 1 FROM codes AS a CROSS JOIN {index}_fingerprint AS x
        CROSS JOIN neardup_candidates('{index}', x.value, x.group_id, NULL, m.distance) AS n CROSS JOIN codes AS b
        WHERE a.document_id = m.document_id AND x.id = a.fingerprint_id AND n.distance = m.distance
            AND b.document_id = m.other_id AND b.fingerprint_id = n.fingerprint_id)
