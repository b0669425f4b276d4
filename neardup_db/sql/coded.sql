-- The documents, d, of which the fingerprint v is a code, in an index with parts. A document may come by several fingerprints.
d.id IN (
    SELECT x.id FROM {index}_document AS x WHERE x.fingerprint_id = v.fingerprint_id
    UNION ALL SELECT x.document_id FROM {index}_part AS x WHERE x.fingerprint_id = v.fingerprint_id
)
