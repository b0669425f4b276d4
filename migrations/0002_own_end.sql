-- Created with the first time window. The explicit expiry of each document that the window expires at the same time or earlier.
CREATE TABLE {index}_own_end (
    document_id INTEGER PRIMARY KEY, -- {index}_document.id
    expires_at INTEGER NOT NULL      -- milliseconds since 1970, UTC
) STRICT;
