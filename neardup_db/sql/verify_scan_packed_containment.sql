-- How much of the query's set of shingles is in each stored set: all are looked at, for bands find what is alike as a whole, not a
-- part in something longer. Most files have no groups: there the table is read from end to end, four times
-- faster than row by row through the index, which finds the rows of a group. Only one of the two parts runs.
SELECT f.id AS fingerprint_id, neardup_containment(neardup_hashes(:fingerprint), neardup_hashes(f.value)) AS similarity, NULL AS distance
FROM {index}_fingerprint AS f NOT INDEXED
WHERE :group_id = 0 AND f.group_id = 0 AND neardup_intact(f.value, f.value_hash)
UNION ALL
SELECT f.id, neardup_containment(neardup_hashes(:fingerprint), neardup_hashes(f.value)), NULL
FROM {index}_fingerprint AS f
WHERE :group_id <> 0 AND f.group_id = +:group_id AND neardup_intact(f.value, f.value_hash)
