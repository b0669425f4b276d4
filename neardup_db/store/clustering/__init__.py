"""Recorded matches, clusters, dismissed pairs, allowed texts and the change log."""
