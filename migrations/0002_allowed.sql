-- Created by the first allowed text. Texts similar to an allowed text match nothing.
CREATE TABLE {index}_allowed (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order in which they were allowed, never used twice
    value BLOB NOT NULL,         -- the fingerprint that texts are compared with
    text TEXT,                   -- the text itself, where the index stores texts
    note TEXT,                   -- the caller's words
    allowed_at INTEGER NOT NULL  -- milliseconds since 1970, UTC
) STRICT;

-- The stored documents similar to an allowed text. Like empty texts, they have no fingerprint while that is so.
CREATE TABLE {index}_allowed_document (
    document_id INTEGER PRIMARY KEY  -- the document; its fingerprint_id is NULL
        REFERENCES {index}_document (id),
    value BLOB NOT NULL,             -- its fingerprint, as {index}_fingerprint would hold it
    value_hash INTEGER NOT NULL      -- XXH3-64 of value, as a signed number
) STRICT;
