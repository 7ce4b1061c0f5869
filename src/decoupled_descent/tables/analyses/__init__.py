"""What a fitted model says about columns, rows and groups of rows."""
