"""Readers for the records of a command: lines, rows and files of text."""
