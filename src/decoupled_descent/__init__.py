"""Decoupled descent: full-batch training whose train error is an estimate of its test error."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from decoupled_descent.datasets import mixtures, responses
from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.descent import (
    Algorithm,
    DecoupledDescent,
    GradientDescent,
    OrthogonalDecoupledDescent,
)
from decoupled_descent.descent.decoupled import ScalingWarning
from decoupled_descent.descent.greedy import GreedyDescent
from decoupled_descent.diagnostics.checks import Finding
from decoupled_descent.diagnostics.diagnosis import Diagnosis, diagnose
from decoupled_descent.objective import Objective, heads
from decoupled_descent.objective.derivatives import RowDerivatives
from decoupled_descent.objective.kinks import KinkWarning
from decoupled_descent.plotting.runs import plot_run, plot_sweep
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.state_evolution import (
    MixtureLimit,
    StateEvolution,
    asymptotic_test_error,
    fixed_point,
    population_test_error,
    taylor_terms,
)
from decoupled_descent.training.callbacks import Step, StopReason
from decoupled_descent.training.checkpoint import SaveIterates, load_iterate
from decoupled_descent.training.loop import History
from decoupled_descent.training.run import DivergenceWarning, Run, fit
from decoupled_descent.training.stopping import EarlyStopping
from decoupled_descent.validation.selection import (
    one_standard_error,
    paired_difference,
    winners_curse,
)
from decoupled_descent.validation.sweep import Halving, Sweep, select_architecture, sweep
from decoupled_descent.validation.tuning import tune

if TYPE_CHECKING:
    from decoupled_descent.estimators import DecoupledClassifier, DecoupledRegressor
    from decoupled_descent.estimators.saving import SavedModel, load_model, save_model

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "DecoupledClassifier",
    "DecoupledDescent",
    "DecoupledRegressor",
    "Diagnosis",
    "DivergenceWarning",
    "EarlyStopping",
    "Finding",
    "GaussianMixture",
    "GradientDescent",
    "GreedyDescent",
    "Halving",
    "History",
    "KinkWarning",
    "MixtureLimit",
    "Objective",
    "OrthogonalDecoupledDescent",
    "RowDerivatives",
    "Rows",
    "Run",
    "SaveIterates",
    "SavedModel",
    "ScalingWarning",
    "StateEvolution",
    "Step",
    "StopReason",
    "Sweep",
    "asymptotic_test_error",
    "diagnose",
    "fit",
    "fixed_point",
    "heads",
    "load_iterate",
    "load_model",
    "mixtures",
    "one_standard_error",
    "paired_difference",
    "plot_run",
    "plot_sweep",
    "population_test_error",
    "responses",
    "save_model",
    "select_architecture",
    "sweep",
    "taylor_terms",
    "tune",
    "winners_curse",
]

#: What needs scikit-learn and pandas, which take as long to import as PyTorch: done on first use.
_LATE = {
    "DecoupledClassifier": "estimators",
    "DecoupledRegressor": "estimators",
    "SavedModel": "estimators.saving",
    "load_model": "estimators.saving",
    "save_model": "estimators.saving",
}


def __getattr__(name: str) -> Any:
    """Import a late name, or the module that has it."""
    if name not in _LATE and name not in _LATE.values():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATE.get(name, name)}")
    return getattr(module, name) if name in _LATE else module


def __dir__() -> list[str]:
    """List late names, too."""
    return sorted({*globals(), *_LATE})
