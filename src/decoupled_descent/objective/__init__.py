"""The objective Ψ(h, y, a) = loss(head_a(h), y) and all its derivatives.

:class:`Objective` describes, :class:`BoundObjective` differentiates. ``structured`` has closed
forms layer by layer, ``autodiff`` works for any smooth module, ``smoothed`` is for kinks.
"""

from decoupled_descent.objective.bound import BoundObjective
from decoupled_descent.objective.derivatives import Direction as Direction
from decoupled_descent.objective.derivatives import HeadDirection as HeadDirection
from decoupled_descent.objective.derivatives import Parameters as Parameters
from decoupled_descent.objective.derivatives import RowDerivatives
from decoupled_descent.objective.kinks import KinkWarning
from decoupled_descent.objective.objective import Objective
from decoupled_descent.objective.shift import label_shift

__all__ = [
    "BoundObjective",
    "KinkWarning",
    "Objective",
    "RowDerivatives",
    "label_shift",
]
