"""Recorded matches and clusters."""
