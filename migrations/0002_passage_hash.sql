-- No REFERENCES: with PRAGMA foreign_keys, deleting a fingerprint would scan this whole table.
CREATE TABLE {index}_passage_hash (
    hash INTEGER NOT NULL,           -- of a selected run of tokens, 48 bits, signed
    group_id INTEGER NOT NULL,       -- {index}_fingerprint.group_id
    crowd INTEGER NOT NULL,          -- {index}_fingerprint.crowd: the rows of a bucket stand together by it
    fingerprint_id INTEGER NOT NULL, -- {index}_fingerprint.id
    PRIMARY KEY (hash, group_id, crowd, fingerprint_id)
) STRICT, WITHOUT ROWID;
