"""Queries: documents, matches, pairs, explanations, statistics."""
