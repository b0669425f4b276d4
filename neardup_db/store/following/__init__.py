"""An index whose documents are the rows of a table of the application: triggers say which changed, `sync` takes them over."""
