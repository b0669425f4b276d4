"""The command line: `neardup`."""
