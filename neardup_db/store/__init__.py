"""The storage layers; ARCHITECTURE.md has their order."""
