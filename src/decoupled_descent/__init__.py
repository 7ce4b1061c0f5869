"""Decoupled descent: full-batch training whose train error is an estimate of its test error."""

from decoupled_descent import heads
from decoupled_descent.callbacks import Step, StopReason
from decoupled_descent.curvature import RowDerivatives
from decoupled_descent.data import mixtures, responses
from decoupled_descent.data.mixtures import GaussianMixture
from decoupled_descent.data.rows import Rows
from decoupled_descent.descent import DecoupledDescent, GradientDescent
from decoupled_descent.descent.decoupled import ScalingWarning
from decoupled_descent.objective import Objective
from decoupled_descent.state_evolution import (
    MixtureLimit,
    StateEvolution,
    asymptotic_test_error,
    fixed_point,
    population_test_error,
    taylor_terms,
)
from decoupled_descent.training import DivergenceWarning, History, Run, fit

__version__ = "0.1.0"

__all__ = [
    "DecoupledDescent",
    "DivergenceWarning",
    "GaussianMixture",
    "GradientDescent",
    "History",
    "MixtureLimit",
    "Objective",
    "RowDerivatives",
    "Rows",
    "Run",
    "ScalingWarning",
    "StateEvolution",
    "Step",
    "StopReason",
    "asymptotic_test_error",
    "fit",
    "fixed_point",
    "heads",
    "mixtures",
    "population_test_error",
    "responses",
    "taylor_terms",
]
