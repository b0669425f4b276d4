-- Codes within :max_distance bits, by permuted block tables. The permuted code holds all bits, so nothing else is read.
SELECT c.fingerprint_id, max(0.0, 1.0 - :slope * c.distance / :bits) AS similarity, c.distance
FROM (
    SELECT DISTINCT b.fingerprint_id, neardup_hamming(b.permuted, p.code) AS distance
    FROM neardup_probe('{index}', :fingerprint) AS p
    CROSS JOIN {index}_simhash_block AS b
    WHERE b.group_id = +:group_id AND b.table_no = p.table_no AND b.permuted BETWEEN p.low AND p.high
        AND neardup_hamming(b.permuted, p.code) <= :max_distance
) AS c
