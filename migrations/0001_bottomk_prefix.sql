-- No REFERENCES here: under PRAGMA foreign_keys every removed fingerprint would have this whole table read.
CREATE TABLE {index}_bottomk_prefix (
    group_id INTEGER NOT NULL,       -- {index}_fingerprint.group_id
    hash INTEGER NOT NULL,           -- one of the fingerprint's first hashes, of all with the setting 'containment'; 64 bits, signed
    crowd INTEGER NOT NULL,          -- {index}_fingerprint.crowd: the rows of a bucket stand together by it
    fingerprint_id INTEGER NOT NULL, -- {index}_fingerprint.id
    PRIMARY KEY (group_id, hash, crowd, fingerprint_id)
) STRICT, WITHOUT ROWID;
