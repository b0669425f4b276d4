#error "the core knows no sqlite3: what needs <sqlite3.h> belongs into csrc/sqlite or csrc/python"
