-- For an index that follows a table: created by follow(), dropped by unfollow(). Triggers fill {index}_pending during the
-- application's writes, so it has no constraint, whose conflicts the application's statement would resolve its own way.
CREATE TABLE {index}_pending (
    id INTEGER PRIMARY KEY, -- in the order of the changes; begins again when all were taken over
    key ANY                 -- the key of a row, as it was before or after a change
) STRICT;

-- The rows without a document when sync() read them. With the documents they add up to the rows of the table.
CREATE TABLE {index}_excluded (
    key ANY PRIMARY KEY
) STRICT, WITHOUT ROWID;
