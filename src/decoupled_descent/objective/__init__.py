"""The objective Ψ(h, y, a) = loss(head_a(h), y) and all its derivatives.

:class:`Objective` describes, :class:`BoundObjective` differentiates. ``structured`` has closed
forms layer by layer, ``autodiff`` works for any smooth module, ``smoothed`` is for kinks.
"""

from decoupled_descent.objective.bound import BoundObjective
from decoupled_descent.objective.derivatives import (
    Direction,
    HeadDirection,
    Parameters,
    RowDerivatives,
)
from decoupled_descent.objective.objective import Objective

__all__ = [
    "BoundObjective",
    "Direction",
    "HeadDirection",
    "Objective",
    "Parameters",
    "RowDerivatives",
]
