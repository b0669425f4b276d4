-- The result of a query: visible documents with a verified fingerprint, best first, ties in insertion order. {verified} is one of
-- the verify_*.sql files, {visible} is visible.sql. LIMIT -1 prevents flattening, so that nothing is computed twice. The plus in
-- "+:limit", and in "+:group_id" there, hides the value from the query planner, which would otherwise prepare the statement again
-- for every new value.
SELECT d.key, v.similarity, v.distance, d.id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND {visible}
    AND d.id <> :except_id
ORDER BY v.similarity DESC, d.id{limit}
