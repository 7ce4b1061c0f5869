"""Columns of a raw table: recognised, and turned into columns of numbers."""
