#error "the core knows no Python: what needs <Python.h> belongs into csrc/sqlite or csrc/python"
