"""Questions: documents, matches, pairs, explanations, figures."""
