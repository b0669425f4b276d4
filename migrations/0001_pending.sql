-- Of an index that follows a table: made by follow(), gone with unfollow(). The application's own writes fill it by triggers, so
-- nothing here may refuse a row: no constraint, whose conflicts the application's statement would settle in its own way.
CREATE TABLE {index}_pending (
    id INTEGER PRIMARY KEY, -- in the order of the changes; begins again when all were taken over
    key ANY                 -- the key of a row, as it was before or after a change
) STRICT;
