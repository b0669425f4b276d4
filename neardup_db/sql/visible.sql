-- Whether a document has not expired at :now: the condition of every query that lists documents. A query may have only one table of
-- documents in reach where it says this.
(expires_at IS NULL OR expires_at > :now)
