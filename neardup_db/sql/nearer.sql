-- The distance of a fingerprint v and, below it, the first code of the document d that has it: the least of these is that of the
-- best code, the first of several. 0 stands for the code of a document that has one only.
min(v.distance * 281474976710656 + ifnull((
    SELECT min(x.id) FROM {index}_part AS x WHERE x.fingerprint_id = v.fingerprint_id AND x.document_id = d.id), 0))
