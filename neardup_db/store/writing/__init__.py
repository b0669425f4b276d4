"""Adding documents, one or many."""
