-- The answer of a query: visible documents with a verified fingerprint, best first, ties in the order of insertion.
-- {verified} is one of the verify_*.sql files, {visible} is visible.sql; LIMIT -1 keeps it a stream of its own, so that nothing is computed twice.
-- "+:limit", and "+:group_id" in those files: without the plus SQLite looks at the value for its plan, and plans the statement
-- again for every value bound, which takes longer than running it.
SELECT d.key, v.similarity, v.distance, d.id
FROM ({verified} LIMIT -1) AS v
CROSS JOIN {index}_document AS d
WHERE v.similarity >= :threshold
    AND d.fingerprint_id = v.fingerprint_id
    AND {visible}
    AND d.id <> :except_id
ORDER BY v.similarity DESC, d.id{limit}
