"""How good a model is on new rows, and how sure that is."""

from decoupled_descent.evaluation.checks import Diagnosis, diagnose
from decoupled_descent.evaluation.comparison import (
    CorrectedError,
    Difference,
    one_standard_error,
    paired_difference,
    winners_curse,
)

__all__ = [
    "CorrectedError",
    "Diagnosis",
    "Difference",
    "diagnose",
    "one_standard_error",
    "paired_difference",
    "winners_curse",
]
