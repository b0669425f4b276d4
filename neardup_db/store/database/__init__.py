"""One SQLite connection: opening it, its transactions, its errors, its log."""
