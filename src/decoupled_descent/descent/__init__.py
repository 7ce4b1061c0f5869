"""Algorithms, one per file: ``init``, ``step``, and what is true of its result."""

from decoupled_descent.descent.common import Algorithm, StackedAlgorithm
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.gradient import GradientDescent
from decoupled_descent.descent.greedy import GreedyDescent
from decoupled_descent.descent.info import DivergenceWarning, Info, LimitStep
from decoupled_descent.descent.noise import ScalingWarning
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent

__all__ = [
    "Algorithm",
    "DecoupledDescent",
    "DivergenceWarning",
    "GradientDescent",
    "GreedyDescent",
    "Info",
    "LimitStep",
    "OrthogonalDecoupledDescent",
    "ScalingWarning",
    "StackedAlgorithm",
]
