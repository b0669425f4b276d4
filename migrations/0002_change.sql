-- Created by the first call of changes(). The changes of documents, except additions, which follow from their ids.
CREATE TABLE {index}_change (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of the changes, never used twice
    document_id INTEGER NOT NULL UNIQUE,      -- {index}_document.id; of each document the latest change only
    key ANY                                   -- the key that it had, if it was removed; NULL = another cluster, or none
) STRICT;
