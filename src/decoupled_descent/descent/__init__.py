"""Algorithms, one per file, each with ``init(…) -> State`` and ``step(…) -> State, Info``."""

from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.gradient import GradientDescent
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent

__all__ = ["DecoupledDescent", "GradientDescent", "OrthogonalDecoupledDescent"]
