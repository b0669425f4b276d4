-- What people ask of a file in the stock sqlite3 shell; the first column says what a line answers, numbers with a fraction are
-- written as their 64 bits. question is a table of the application's own. tests/test_sqlite_shell.py runs it.
.bail on
.mode list
.separator "\t"

SELECT 'document', key, "group", token_count, metadata ->> '$.translation' FROM neardup_documents ORDER BY document_id;

SELECT 'cluster', representative, size, member FROM neardup_clusters ORDER BY size DESC, representative, member;

SELECT 'match', key, other_key, hex(ieee754_to_blob(similarity)), distance FROM neardup_matches ORDER BY key, other_key;

SELECT 'setting', name, typeof(value), value FROM neardup_settings ORDER BY name;

-- The text, or code, of each question in the index; row by row as it comes.
SELECT 'found', q.id, s.key, hex(ieee754_to_blob(s.similarity)), s.distance
FROM question AS q, neardup_search('neardup', q.text, q.threshold, q.max_results, q.measure, q.group_name) AS s
ORDER BY q.id, s.rowid;

-- Matches measured again: by the stored texts, else by the stored fingerprints.
SELECT 'measured', a.key, b.key,
    hex(ieee754_to_blob(CASE
        WHEN a.text IS NOT NULL THEN neardup_similarity('neardup', a.text, b.text)
        ELSE neardup_similarity('neardup', f.value, g.value)
    END))
FROM neardup_match AS m
JOIN neardup_document AS a ON a.id = m.document_id
JOIN neardup_document AS b ON b.id = m.other_id
JOIN neardup_fingerprint AS f ON f.id = a.fingerprint_id
JOIN neardup_fingerprint AS g ON g.id = b.fingerprint_id
ORDER BY a.key, b.key;
