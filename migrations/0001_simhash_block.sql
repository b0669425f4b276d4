-- No REFERENCES here: under PRAGMA foreign_keys every removed fingerprint would have this whole table read.
CREATE TABLE {index}_simhash_block (
    group_id INTEGER NOT NULL,       -- {index}_fingerprint.group_id
    table_no INTEGER NOT NULL,       -- which choice of leading blocks
    permuted ANY NOT NULL,           -- the whole code with those blocks in front: a number up to 64 bits, else a blob
    fingerprint_id INTEGER NOT NULL, -- {index}_fingerprint.id
    PRIMARY KEY (group_id, table_no, permuted, fingerprint_id)
) STRICT, WITHOUT ROWID;
