-- The distance of fingerprint v in the high bits and, in the low bits, the number of the first code of document d with it. The
-- minimum selects the best code, the first of equals. 0 is the code of a document with a single one.
min(v.distance * 281474976710656 + ifnull((
    SELECT min(x.id) FROM {index}_part AS x WHERE x.fingerprint_id = v.fingerprint_id AND x.document_id = d.id), 0))
