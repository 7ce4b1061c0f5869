"""Which model: sweep, tune and search on the train error, and what a choice costs.

Here are the functions that compare configurations row by row; :func:`~decoupled_descent.sweep` and
:func:`~decoupled_descent.tune` use them.
"""

from decoupled_descent.selection.comparison import (
    CorrectedError,
    Difference,
    one_standard_error,
    paired_difference,
    winners_curse,
)
from decoupled_descent.selection.sweep import Halving, Sweep, select_architecture

__all__ = [
    "CorrectedError",
    "Difference",
    "Halving",
    "Sweep",
    "one_standard_error",
    "paired_difference",
    "select_architecture",
    "winners_curse",
]
