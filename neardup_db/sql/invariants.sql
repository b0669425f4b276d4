-- The invariants of rows, for `Index.check`: each statement returns rows that violate one; the comment above it is the message,
-- which names the first column of some. A statement that reads a missing optional table is skipped.

-- ids of {index}_document that are never given (restore a backup)
SELECT id FROM {index}_document WHERE id < 1 OR id > :last_id

-- ids of {index}_fingerprint that are never given (restore a backup)
SELECT id FROM {index}_fingerprint WHERE id < 1 OR id > :last_id

-- ids of {index}_part that are never given (restore a backup)
SELECT id FROM {index}_part WHERE id < 1 OR id > :last_part

-- fingerprints stored more than once
WITH alike(group_id, value_hash) AS MATERIALIZED (
    SELECT group_id, value_hash FROM {index}_fingerprint WHERE NOT :dismisses GROUP BY 1, 2 HAVING count(*) > 1)
SELECT min(f.id) FROM alike AS a CROSS JOIN {index}_fingerprint AS f
WHERE f.group_id = a.group_id AND f.value_hash = a.value_hash
GROUP BY f.group_id, f.value_hash, f.value HAVING count(*) > 1

-- fingerprints that no document has
{unused} AND (:has_parts OR (
    SELECT count(*) <> (SELECT count(DISTINCT fingerprint_id) FROM {index}_document) FROM {index}_fingerprint))

-- documents whose fingerprint is missing or of another group
SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_fingerprint AS f ON f.id = d.fingerprint_id
WHERE d.fingerprint_id IS NOT NULL AND (f.id IS NULL OR f.group_id <> d.group_id)

-- documents whose group has no name
SELECT d.id FROM {index}_document AS d LEFT JOIN {index}_group AS g ON g.id = d.group_id
WHERE d.group_id <> 0 AND g.id IS NULL

-- documents with a wrong cluster label
SELECT id FROM {index}_document WHERE cluster_id IN (
    SELECT cluster_id FROM {index}_document WHERE cluster_id IS NOT NULL GROUP BY 1
    HAVING count(*) = 1 OR NOT :record_matches)

-- documents whose text is missing
SELECT id FROM {index}_document WHERE :store_text AND text IS NULL AND token_count IS NOT NULL

-- parts whose document or fingerprint is missing or of another group
SELECT p.id FROM {index}_part AS p LEFT JOIN {index}_document AS d ON d.id = p.document_id
LEFT JOIN {index}_fingerprint AS f ON f.id = p.fingerprint_id
WHERE d.id IS NULL OR f.id IS NULL OR f.group_id <> d.group_id

-- documents whose fingerprint is not that of their first part
SELECT d.id FROM (SELECT document_id, min(id) AS first FROM {index}_part GROUP BY document_id) AS o
CROSS JOIN {index}_part AS p CROSS JOIN {index}_document AS d
WHERE p.id = o.first AND d.id = o.document_id AND d.fingerprint_id IS NOT p.fingerprint_id

-- documents with a part that has no name of its own
SELECT document_id FROM {index}_part GROUP BY document_id, part
HAVING count(*) > 1 OR typeof(part) NOT IN ('text', 'integer', 'null')

-- highest ids that are not numbers of the right size
SELECT name || ' ' || quote(seq) FROM sqlite_sequence
WHERE name IN ('{index}_document', '{index}_fingerprint', '{index}_change', '{index}_allowed')
    AND (typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND :last_id)

-- ids of {index}_document above the highest one ever given
SELECT max(id) FROM {index}_document
HAVING max(id) > coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{index}_document'), 0)

-- ids of {index}_fingerprint above the highest one ever given
SELECT max(id) FROM {index}_fingerprint
HAVING max(id) > coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{index}_fingerprint'), 0)

-- cluster labels that are never given
SELECT value FROM {index}_setting WHERE :record_matches AND name = 'next_cluster' AND value NOT BETWEEN -:last_id AND -1

-- documents with a cluster label that was never given
SELECT id FROM {index}_document
WHERE :record_matches AND (
    cluster_id <= (SELECT value FROM {index}_setting WHERE name = 'next_cluster')
    OR cluster_id > (SELECT max(id) FROM {index}_document)
        AND cluster_id > coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '{index}_document'), 0))

-- dismissed pairs that are not two documents
SELECT x.document_id || '-' || x.other_id FROM {index}_dismissed AS x
LEFT JOIN {index}_document AS a ON a.id = x.document_id LEFT JOIN {index}_document AS b ON b.id = x.other_id
WHERE a.id IS NULL OR b.id IS NULL OR x.document_id <= x.other_id

-- dismissed pairs that are recorded as matches
SELECT m.document_id || '-' || m.other_id FROM {index}_dismissed AS x CROSS JOIN {index}_match AS m
WHERE m.document_id = x.document_id AND m.other_id = x.other_id

-- dismissed documents that share their fingerprint
SELECT c.id FROM {codes} AS c
WHERE (c.id IN (SELECT document_id FROM {index}_dismissed) OR c.id IN (SELECT other_id FROM {index}_dismissed))
    AND c.fingerprint_id IN (SELECT fingerprint_id FROM {codes} GROUP BY fingerprint_id HAVING min(id) < max(id))

-- documents set aside that are missing or have a fingerprint
SELECT z.document_id FROM {index}_allowed_document AS z LEFT JOIN {index}_document AS d ON d.id = z.document_id
WHERE d.id IS NULL OR d.fingerprint_id IS NOT NULL

-- changes of documents that are not there, or that are there and noted as removed
SELECT c.number FROM {index}_change AS c LEFT JOIN {index}_document AS d ON d.id = c.document_id
WHERE c.key IS NULL AND d.id IS NULL
    OR c.key IS NOT NULL AND d.id IS NOT NULL AND NOT :has_parts -- with parts, changed codes are noted with a key, too

-- settings of the log of changes that are missing or no such numbers
WITH wanted(name, least, most) AS (VALUES ('change_log', 1, 9223372036854775807), ('changes_trimmed', 0,
    (SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = '{index}_change')))
SELECT w.name || ' ' || quote(s.value) FROM wanted AS w LEFT JOIN {index}_setting AS s ON s.name = w.name
WHERE :notes_changes AND (typeof(s.value) <> 'integer' OR s.value NOT BETWEEN w.least AND w.most)

-- fingerprints in a crowd that is not their cluster
SELECT f.id FROM {index}_fingerprint AS f
WHERE f.crowd <> 0 AND (NOT :crowds OR EXISTS (
    SELECT 1 FROM {index}_document AS d WHERE d.fingerprint_id = f.id AND d.cluster_id IS NOT f.crowd))

-- fingerprints that are not in the crowd of their cluster
WITH crowds(label) AS MATERIALIZED (SELECT DISTINCT crowd FROM {index}_fingerprint WHERE :crowds AND crowd <> 0)
SELECT f.id FROM crowds AS c CROSS JOIN {index}_document AS d CROSS JOIN {index}_fingerprint AS f
WHERE d.cluster_id = c.label AND f.id = d.fingerprint_id AND f.crowd = 0

-- recorded matches that do not join two documents of one cluster
SELECT m.document_id || '-' || m.other_id FROM {index}_match AS m
LEFT JOIN {index}_document AS a ON a.id = m.document_id LEFT JOIN {index}_document AS b ON b.id = m.other_id
WHERE a.id IS NULL OR b.id IS NULL OR m.document_id <= m.other_id OR a.group_id <> b.group_id
    OR a.cluster_id IS NULL OR a.cluster_id IS NOT b.cluster_id
