-- `neighbours_parts.sql` where pairs are dismissed: documents of one fingerprint may be in several clusters, so that it is the newest
-- one in each, without those that are dismissed as duplicates of :except_id.
SELECT d.id, ifnull(d.cluster_id, d.id + {alone}), v.similarity, v.distance, v.fingerprint_id, :before_id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.id IN (
        SELECT max(y.id) FROM {index}_document AS y
        WHERE y.id IN (
                SELECT x.id FROM {index}_document AS x WHERE x.fingerprint_id = v.fingerprint_id
                UNION ALL SELECT x.document_id FROM {index}_part AS x WHERE x.fingerprint_id = v.fingerprint_id
            )
            AND y.id < :before_id AND y.id <> :except_id
            AND y.id NOT IN (SELECT z.other_id FROM {index}_dismissed AS z WHERE z.document_id = :except_id)
            AND y.id NOT IN (SELECT z.document_id FROM {index}_dismissed AS z WHERE z.other_id = :except_id)
        GROUP BY ifnull(y.cluster_id, y.id + {alone})
    )
ORDER BY v.similarity DESC, d.id DESC
