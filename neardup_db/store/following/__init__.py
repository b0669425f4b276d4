"""Synchronization with a table of the application: triggers record changed rows, and `sync` updates the documents."""
