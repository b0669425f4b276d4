"""Maintenance of a whole file: check, repair, rebuild, backup."""
