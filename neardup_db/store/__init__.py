"""The file: connection and transactions, schema, the statements of each table, recorded matches and clusters."""
