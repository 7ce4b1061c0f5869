"""Checks whether the train error estimates the test error."""
