-- No REFERENCES: with PRAGMA foreign_keys, deleting a fingerprint would scan this whole table.
CREATE TABLE {index}_minhash_band (
    bucket INTEGER NOT NULL,         -- 32-bit hash of a band's slots and its number, sign-extended; first, since it tells rows apart
    group_id INTEGER NOT NULL,       -- {index}_fingerprint.group_id
    crowd INTEGER NOT NULL,          -- {index}_fingerprint.crowd: the rows of a bucket stand together by it
    fingerprint_id INTEGER NOT NULL, -- {index}_fingerprint.id
    PRIMARY KEY (bucket, group_id, crowd, fingerprint_id)
) STRICT, WITHOUT ROWID;
