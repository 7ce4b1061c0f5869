"""Decoupled descent: full-batch training whose train error is an estimate of its test error.

Names are imported when they are first used, so that ``import decoupled_descent`` costs nothing.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

if "torch" not in sys.modules:  # idle threads sleep: spinning ones waste a busy machine's time
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
del os, sys

TYPE_CHECKING = False  # type checkers take a variable of this name as true
if TYPE_CHECKING:  # what type checkers and editors read; the tables below are what runs
    from decoupled_descent import datasets as datasets
    from decoupled_descent import descent as descent
    from decoupled_descent import evaluation as evaluation
    from decoupled_descent import objective as objective
    from decoupled_descent import plotting as plotting
    from decoupled_descent import rows as rows
    from decoupled_descent import theory as theory
    from decoupled_descent import training as training
    from decoupled_descent.app import reproduce as reproduce
    from decoupled_descent.app.files.reading import read_table as read_table
    from decoupled_descent.datasets import mixtures as mixtures
    from decoupled_descent.datasets import responses as responses
    from decoupled_descent.datasets.mixtures import GaussianMixture as GaussianMixture
    from decoupled_descent.descent import DecoupledDescent as DecoupledDescent
    from decoupled_descent.descent import DivergenceWarning as DivergenceWarning
    from decoupled_descent.descent import GradientDescent as GradientDescent
    from decoupled_descent.descent import OrthogonalDecoupledDescent as OrthogonalDecoupledDescent
    from decoupled_descent.descent import noise as noise
    from decoupled_descent.descent import prox as prox
    from decoupled_descent.descent import rules as rules
    from decoupled_descent.evaluation.checks.diagnosis import diagnose as diagnose
    from decoupled_descent.evaluation.evaluate import evaluate as evaluate
    from decoupled_descent.leave_one_out import DecoupledNewton as DecoupledNewton
    from decoupled_descent.networks.fit import fit as fit
    from decoupled_descent.networks.folds.cross_fit import CrossFit as CrossFit
    from decoupled_descent.networks.path.algorithm import (
        DecoupledGaussNewton as DecoupledGaussNewton,
    )
    from decoupled_descent.objective import Objective as Objective
    from decoupled_descent.objective import heads as heads
    from decoupled_descent.rows.blocks import Rows as Rows
    from decoupled_descent.tables import analyses as analyses
    from decoupled_descent.tables import estimators as estimators
    from decoupled_descent.tables import features as features
    from decoupled_descent.tables.estimators import DecoupledClassifier as DecoupledClassifier
    from decoupled_descent.tables.estimators import DecoupledRegressor as DecoupledRegressor
    from decoupled_descent.tables.estimators.saving import load_model as load_model
    from decoupled_descent.tables.estimators.saving import save_model as save_model
    from decoupled_descent.theory.state_evolution import StateEvolution as StateEvolution
    from decoupled_descent.training import sweeps as sweeps
    from decoupled_descent.training.checkpoint import Checkpoint as Checkpoint
    from decoupled_descent.training.run import Run as Run
    from decoupled_descent.training.stopping import EarlyStopping as EarlyStopping
    from decoupled_descent.training.sweeps.sweep import sweep as sweep

__version__ = "0.1.0"

#: The public names and the modules that define them.
_NAMES = {
    # for everybody: tables in, models and verdicts out
    "DecoupledClassifier": "tables.estimators",
    "DecoupledRegressor": "tables.estimators",
    "diagnose": "evaluation.checks.diagnosis",
    "evaluate": "evaluation.evaluate",
    "load_model": "tables.estimators.saving",
    "read_table": "app.files.reading",
    "save_model": "tables.estimators.saving",
    # for users of PyTorch: models of their own, and the way they are trained
    "Checkpoint": "training.checkpoint",
    "CrossFit": "networks.folds.cross_fit",
    "DecoupledDescent": "descent",
    "EarlyStopping": "training.stopping",
    "GradientDescent": "descent",
    "Objective": "objective",
    "DecoupledNewton": "leave_one_out",
    "DecoupledGaussNewton": "networks.path.algorithm",
    "OrthogonalDecoupledDescent": "descent",
    "Rows": "rows.blocks",
    "Run": "training.run",
    "fit": "networks.fit",
    # for choosing among many models
    "sweep": "training.sweeps.sweep",
    # for theorists
    "GaussianMixture": "datasets.mixtures",
    "StateEvolution": "theory.state_evolution",
    # warnings
    "DivergenceWarning": "descent",
}
#: Modules that are used as ``dd.heads``, and where they are.
_MODULES = {
    # models and data
    "analyses": "tables.analyses",
    "datasets": "datasets",
    "features": "tables.features",
    "heads": "objective.heads",
    "mixtures": "datasets.mixtures",
    "objective": "objective",
    "responses": "datasets.responses",
    "rows": "rows",
    # algorithms and their options, the loop, choices among runs
    "descent": "descent",
    "noise": "descent.noise",
    "prox": "descent.prox",
    "rules": "descent.rules",
    "sweeps": "training.sweeps",
    "training": "training",
    # theory, checks, figures, scikit-learn
    "evaluation": "evaluation",
    "estimators": "tables.estimators",
    "plotting": "plotting",
    "reproduce": "app.reproduce",
    "theory": "theory",
}

__all__ = [*_NAMES, *_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name on first use, and keep it."""
    if name in _NAMES:
        value = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"{__name__}.{_MODULES[name]}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that are not imported yet, too."""
    hidden = {"TYPE_CHECKING", "annotations", "import_module"}
    return sorted({*globals(), *__all__} - hidden)
