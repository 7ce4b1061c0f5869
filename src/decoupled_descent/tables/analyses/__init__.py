"""What a fitted model says about columns, rows and groups of rows."""

from decoupled_descent.tables.analyses.baselines import Baseline, baselines, better_than_guessing
from decoupled_descent.tables.analyses.coefficients import LinearPart, coefficients
from decoupled_descent.tables.analyses.importance import Importance, importance
from decoupled_descent.tables.analyses.reasons import reasons
from decoupled_descent.tables.analyses.sample import SampleRow, sample_by_class
from decoupled_descent.tables.analyses.subgroups import Subgroup, subgroups

__all__ = [
    "Baseline",
    "Importance",
    "LinearPart",
    "SampleRow",
    "Subgroup",
    "baselines",
    "better_than_guessing",
    "coefficients",
    "importance",
    "reasons",
    "sample_by_class",
    "subgroups",
]
