-- Created by the first dismissal. Pairs of documents that a person has declared no duplicates. Their fingerprints are not shared.
CREATE TABLE {index}_dismissed (
    document_id INTEGER NOT NULL   -- the later document
        REFERENCES {index}_document (id),
    other_id INTEGER NOT NULL      -- the earlier one
        REFERENCES {index}_document (id),
    dismissed_at INTEGER NOT NULL, -- milliseconds since 1970, UTC
    PRIMARY KEY (document_id, other_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX {index}_dismissed_other ON {index}_dismissed (other_id);
