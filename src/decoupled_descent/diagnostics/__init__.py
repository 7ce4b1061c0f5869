"""Checks whether the train error estimates the test error."""

from decoupled_descent.diagnostics.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
