-- The tables of every index. {index} is replaced by the name of the index, the only substitution.

CREATE TABLE {index}_setting (
    name TEXT NOT NULL PRIMARY KEY, -- what is set: 'schema_version', 'scheme', 'text.shingle', ...
    value ANY                       -- its value; NULL where the setting is "none"
) STRICT, WITHOUT ROWID;

CREATE TABLE {index}_group (
    id INTEGER PRIMARY KEY,   -- 1, 2, ...; 0 stands for "no group" and has no row
    name ANY NOT NULL UNIQUE  -- the caller's name: text, blob or integer
) STRICT;

CREATE TABLE {index}_fingerprint (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
    group_id INTEGER NOT NULL,            -- the group in which duplicates are sought
    value BLOB NOT NULL,                  -- the stored fingerprint; its layout belongs to the scheme
    value_hash INTEGER NOT NULL,          -- XXH3-64 of value, as a signed number: look-up by value, and a check when read
    crowd INTEGER NOT NULL DEFAULT 0      -- label of its cluster where that is so large that its rows stand apart, else 0
) STRICT;
CREATE INDEX {index}_fingerprint_value ON {index}_fingerprint (group_id, value_hash);

CREATE TABLE {index}_document (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of insertion, never used twice
    key ANY NOT NULL UNIQUE,              -- the caller's key: text, blob or integer
    group_id INTEGER NOT NULL,            -- {index}_group.id, or 0
    fingerprint_id INTEGER                -- NULL for an empty text
        REFERENCES {index}_fingerprint (id),
    cluster_id INTEGER,                   -- label of its cluster; NULL while it is in none, and where matches are not recorded
    token_count INTEGER,                  -- tokens of the text; NULL for a code
    added_at INTEGER NOT NULL,            -- milliseconds since 1970, UTC
    last_seen INTEGER NOT NULL,           -- when it, or what matched it and was not stored, was last offered; milliseconds
    times_seen INTEGER NOT NULL,          -- how often it was offered
    expires_at INTEGER,                   -- invisible from then on; milliseconds; NULL = never
    metadata TEXT                         -- JSON of the caller
        CHECK (metadata IS NULL OR json_valid(metadata)),
    text TEXT                             -- the text itself, where the index stores texts
) STRICT;
CREATE INDEX {index}_document_fingerprint ON {index}_document (fingerprint_id);
-- Includes expires_at, so that visible documents are counted by cluster without reading the documents.
CREATE INDEX {index}_document_cluster ON {index}_document (cluster_id, expires_at) WHERE cluster_id IS NOT NULL;
CREATE INDEX {index}_document_expiry ON {index}_document (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE {index}_match (
    document_id INTEGER NOT NULL  -- the later document
        REFERENCES {index}_document (id),
    other_id INTEGER NOT NULL     -- the earlier one
        REFERENCES {index}_document (id),
    similarity REAL NOT NULL,     -- as the scheme measures it
    distance INTEGER,             -- differing bits; NULL where the scheme has no distance
    found_at INTEGER NOT NULL,    -- milliseconds since 1970, UTC
    PRIMARY KEY (document_id, other_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX {index}_match_other ON {index}_match (other_id);

-- Views for people. Times are UTC. Expired documents are not shown.

-- A row for each document. cluster is NULL outside of clusters, metadata is JSON, text is NULL unless texts are stored.
CREATE VIEW {index}_documents AS
SELECT d.key, g.name AS "group", d.cluster_id AS cluster, d.token_count,
    strftime('%Y-%m-%d %H:%M:%f', d.added_at / 1000.0, 'unixepoch') AS added_at,
    strftime('%Y-%m-%d %H:%M:%f', d.last_seen / 1000.0, 'unixepoch') AS last_seen,
    d.times_seen,
    strftime('%Y-%m-%d %H:%M:%f', d.expires_at / 1000.0, 'unixepoch') AS expires_at,
    d.metadata, d.text, d.id AS document_id
FROM {index}_document AS d
LEFT JOIN {index}_group AS g ON g.id = d.group_id
WHERE d.expires_at IS NULL OR d.expires_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- A row for each recorded match: the later document matches the earlier one. Not all pairs, but enough to connect each cluster.
CREATE VIEW {index}_matches AS
SELECT a.key, b.key AS other_key, m.similarity, m.distance,
    strftime('%Y-%m-%d %H:%M:%f', m.found_at / 1000.0, 'unixepoch') AS found_at
FROM {index}_match AS m
JOIN {index}_document AS a ON a.id = m.document_id
JOIN {index}_document AS b ON b.id = m.other_id
WHERE (a.expires_at IS NULL OR a.expires_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    AND (b.expires_at IS NULL OR b.expires_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER));

-- A row for each member of a cluster of two or more; the representative is the earliest. Until expired documents are deleted,
-- documents that only they connect are shown as one cluster.
CREATE VIEW {index}_clusters AS
SELECT c.cluster, c.size, r.key AS representative, d.key AS member
FROM (
    SELECT cluster_id AS cluster, count(*) AS size, min(id) AS representative_id
    FROM {index}_document
    WHERE cluster_id IS NOT NULL
        AND (expires_at IS NULL OR expires_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    GROUP BY cluster_id
    HAVING count(*) > 1
) AS c
JOIN {index}_document AS r ON r.id = c.representative_id
JOIN {index}_document AS d ON d.cluster_id = c.cluster
WHERE d.expires_at IS NULL OR d.expires_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- A row for each setting.
CREATE VIEW {index}_settings AS
SELECT name, value FROM {index}_setting;
