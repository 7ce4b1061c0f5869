"""Checks whether the train error estimates the test error."""

from decoupled_descent.evaluation.checks.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
