-- Block and chunk tables. Codes that agree in the bits of a block table, or in a chunk, are a bucket; a row holds up to some
-- hundred of them. No REFERENCES here: under PRAGMA foreign_keys every removed fingerprint would have this whole table read.
CREATE TABLE {index}_code_bucket (
    id INTEGER PRIMARY KEY,    -- 12 bits table or chunk, 30 bits bucket, 20 bits part: neardup_probe gives the range of a bucket;
                               -- the latest entries are most often under the highest part, earlier ones under 0, 1, ...
    group_id INTEGER NOT NULL, -- {index}_fingerprint.group_id
    entries BLOB NOT NULL      -- a hash (4 bytes), w (1 byte), the codes, of each {index}_fingerprint.id in w bytes: neardup_entries
) STRICT;
