"""The command line: `neardup`."""

from .app import main

__all__ = ["main"]
