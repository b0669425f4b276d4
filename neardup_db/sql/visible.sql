-- True if a document has not expired at :now: the condition of every query that lists documents. Column names are unqualified, so
-- only one table of documents may be in scope.
(expires_at IS NULL OR expires_at > :now)
