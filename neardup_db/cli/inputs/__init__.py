"""Records that commands read: text in lines, rows and files."""
