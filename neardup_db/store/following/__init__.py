"""Synchronization with a table of the application."""
