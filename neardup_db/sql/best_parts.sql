-- `best` where documents may have several codes, of all documents; the part is that of the first code with the fingerprint.
SELECT f.id, f.key, ifnull(f.first, 0), (SELECT x.part FROM {index}_part AS x WHERE x.id = f.first) FROM (
    SELECT d.id, d.key, (SELECT min(x.id) FROM {index}_part AS x WHERE x.document_id = d.id AND x.fingerprint_id = ?1) AS first
    FROM (
        SELECT * FROM (
            SELECT d.id FROM {index}_document AS d
            WHERE d.fingerprint_id = ?1 AND d.id <> ?4 AND {visible} ORDER BY d.id LIMIT ?6)
        UNION SELECT * FROM (
            SELECT DISTINCT p.document_id FROM {index}_part AS p CROSS JOIN {index}_document AS d
            WHERE p.fingerprint_id = ?1 AND d.id = p.document_id AND d.id <> ?4 AND {visible}
            ORDER BY p.document_id LIMIT ?6)) AS v
    CROSS JOIN {index}_document AS d WHERE d.id = v.id) AS f
