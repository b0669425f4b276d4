-- Codes within :max_distance bits, by multi-index hashing.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM (
    SELECT DISTINCT k.fingerprint_id, neardup_hamming(k.code, :fingerprint) AS distance
    FROM neardup_probe('{index}', :fingerprint) AS p
    CROSS JOIN {index}_code_chunk AS k
    WHERE k.group_id = +:group_id AND k.chunk_no = p.table_no AND k.value = p.low
        AND neardup_hamming(k.code, :fingerprint) <= :max_distance
) AS c
