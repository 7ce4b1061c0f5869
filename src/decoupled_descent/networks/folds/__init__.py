"""Copies of a network that leave folds out, as one tensor dimension."""
