"""The storage layers. Each imports only earlier ones: database (one SQLite connection), layout (schema and settings), asking,
linking (edges and clusters), writing, upkeep (check, repair, rebuild, backup). `readers` assigns connections to threads."""
