-- Created by the first code with a part. All codes of each document that has a named code or several codes.
CREATE TABLE {index}_part (
    id INTEGER PRIMARY KEY,          -- ascends in the order in which the codes of a document came
    document_id INTEGER NOT NULL     -- the document; its fingerprint_id is that of its first code
        REFERENCES {index}_document (id),
    part ANY,                        -- the caller's name of the code: text or integer; NULL = none
    fingerprint_id INTEGER NOT NULL  -- the code
        REFERENCES {index}_fingerprint (id)
) STRICT;
CREATE UNIQUE INDEX {index}_part_document ON {index}_part (document_id, part);
CREATE INDEX {index}_part_fingerprint ON {index}_part (fingerprint_id, document_id);
