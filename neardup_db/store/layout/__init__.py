"""The file format: schema, settings and candidate tables; creating and opening an index."""
