-- The documents d with the code v, in an index with parts. Several fingerprints may yield the same document.
d.id IN (
    SELECT x.id FROM {index}_document AS x WHERE x.fingerprint_id = v.fingerprint_id
    UNION ALL SELECT x.document_id FROM {index}_part AS x WHERE x.fingerprint_id = v.fingerprint_id
)
