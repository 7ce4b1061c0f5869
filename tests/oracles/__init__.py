"""Naive float64 reference implementations, written straight from the paper's equations."""
