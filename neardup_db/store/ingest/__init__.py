"""Adding documents, singly or in bulk."""
