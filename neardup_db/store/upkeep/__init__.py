"""The whole file: check, repair, rebuild, backup."""
