"""Algorithms, one per file: ``init``, ``step``, and what is true of its result."""

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.gradient import GradientDescent
from decoupled_descent.descent.greedy import GreedyDescent
from decoupled_descent.descent.info import Info, LimitStep
from decoupled_descent.descent.methods import METHODS, SETTINGS, Method, check_method
from decoupled_descent.descent.newton import DecoupledNewton
from decoupled_descent.descent.noise import ScalingWarning
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent

__all__ = [
    "METHODS",
    "SETTINGS",
    "Algorithm",
    "DecoupledDescent",
    "DecoupledNewton",
    "GradientDescent",
    "GreedyDescent",
    "Info",
    "LimitStep",
    "Method",
    "OrthogonalDecoupledDescent",
    "ScalingWarning",
    "check_method",
]
