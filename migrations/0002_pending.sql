-- Of an index that follows a table: made by follow(), dropped by unfollow(). The application's own writes fill {index}_pending by
-- triggers, so it has no constraint, whose conflicts the application's statement would settle in its own way.
CREATE TABLE {index}_pending (
    id INTEGER PRIMARY KEY, -- in the order of the changes; begins again when all were taken over
    key ANY                 -- the key of a row, as it was before or after a change
) STRICT;

-- The rows that were no documents when sync() read them. Together with the documents they are as many as the table has rows.
CREATE TABLE {index}_excluded (
    key ANY PRIMARY KEY
) STRICT, WITHOUT ROWID;
