-- Block and chunk tables. Codes with equal bits in a block table or chunk share a bucket; a row holds up to several hundred of
-- them. No REFERENCES: with PRAGMA foreign_keys, deleting a fingerprint would scan this whole table.
CREATE TABLE {index}_code_bucket (
    id INTEGER PRIMARY KEY,    -- 12 bits table or chunk, 30 bits bucket, 20 bits part: neardup_probe gives the range of a bucket;
                               -- the latest entries are most often under the highest part, earlier ones under 0, 1, ...
    group_id INTEGER NOT NULL, -- {index}_fingerprint.group_id
    entries BLOB NOT NULL      -- a hash (4 bytes), w (1 byte), the codes, of each {index}_fingerprint.id in w bytes: neardup_entries
) STRICT;
