"""The file, in wings. Each imports only those before it: database (one SQLite connection), layout (what a file is), asking,
linking (edges and clusters), writing, upkeep (check, repair, rebuild, backup). `readers` gives threads their connections."""
