"""Predictions of fitted models, with NumPy alone."""
