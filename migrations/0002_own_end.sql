-- Made with the first window of a time. The ends that documents have of their own, where the window ends them as soon or sooner.
CREATE TABLE {index}_own_end (
    document_id INTEGER PRIMARY KEY, -- {index}_document.id
    expires_at INTEGER NOT NULL      -- milliseconds since 1970, UTC
) STRICT;
