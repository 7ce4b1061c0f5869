"""How good a model is on new rows, and how sure that is."""

from decoupled_descent.evaluation.checks import Diagnosis, diagnose
from decoupled_descent.evaluation.comparison import (
    Comparison,
    CorrectedError,
    PairedDifference,
    one_standard_error,
    paired_difference,
    winners_curse,
)
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.estimate import Estimate
from decoupled_descent.evaluation.evaluation import Evaluation

__all__ = [
    "Comparison",
    "CorrectedError",
    "DecisionRule",
    "Diagnosis",
    "Estimate",
    "Evaluation",
    "PairedDifference",
    "diagnose",
    "one_standard_error",
    "paired_difference",
    "winners_curse",
]
