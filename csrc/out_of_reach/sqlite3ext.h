#error "the core knows no sqlite3ext: what needs <sqlite3ext.h> belongs into csrc/sqlite or csrc/python"
