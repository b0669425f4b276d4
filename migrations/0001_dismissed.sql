-- Made by the first dismissal. Pairs of documents of which a person has said that they are not duplicates.
CREATE TABLE {index}_dismissed (
    document_id INTEGER NOT NULL   -- the later document
        REFERENCES {index}_document (id),
    other_id INTEGER NOT NULL      -- the earlier one
        REFERENCES {index}_document (id),
    fingerprint_id INTEGER,        -- {index}_document.fingerprint_id of the later one
    other_fingerprint_id INTEGER,  -- that of the earlier one; the same where the two are equal copies
    dismissed_at INTEGER NOT NULL, -- milliseconds since 1970, UTC
    PRIMARY KEY (document_id, other_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX {index}_dismissed_other ON {index}_dismissed (other_id);
CREATE INDEX {index}_dismissed_fingerprint ON {index}_dismissed (fingerprint_id, other_fingerprint_id);
CREATE INDEX {index}_dismissed_other_fingerprint ON {index}_dismissed (other_fingerprint_id);
