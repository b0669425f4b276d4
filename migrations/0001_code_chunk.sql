-- No REFERENCES here: under PRAGMA foreign_keys every removed fingerprint would have this whole table read.
CREATE TABLE {index}_code_chunk (
    group_id INTEGER NOT NULL,        -- {index}_fingerprint.group_id
    chunk_no INTEGER NOT NULL,        -- 0 = the most significant chunk
    value INTEGER NOT NULL,           -- the chunk's bits; 64 bits as a signed number
    fingerprint_id INTEGER NOT NULL,  -- {index}_fingerprint.id
    code BLOB NOT NULL,               -- the whole code, so that verification stays in this table
    PRIMARY KEY (group_id, chunk_no, value, fingerprint_id)
) STRICT, WITHOUT ROWID;
