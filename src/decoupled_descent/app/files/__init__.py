"""Tables in files: read, recognised and turned into numbers."""
