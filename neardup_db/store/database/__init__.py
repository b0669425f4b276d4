"""One SQLite connection: opening, transactions, errors, write-ahead log."""
