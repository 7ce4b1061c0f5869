"""The paper's four example mixtures with a model for each, as ``decoupled evolve`` runs them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.datasets import mixtures
from decoupled_descent.objective import Objective, heads
from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.state_evolution import StateEvolution
from decoupled_descent.training.fit import fit

NAMES = ("signalless", "flipped", "discrete", "xor")


def example(name: str, dimension: int, snr: float) -> tuple[mixtures.GaussianMixture, Objective]:
    """Return one of ``NAMES``, an example mixture (Example "data") with an objective for it."""
    if name == "signalless":
        return mixtures.signalless(dimension), Objective(heads.Linear(), "squared")
    if name == "flipped":
        mixture = mixtures.flipped_classes(dimension, snr, labels=(0.0, 1.0))
        return mixture, Objective(heads.Linear(), "logistic")
    if name == "discrete":
        mixture = mixtures.discrete_regression(dimension, snr=snr)
        return mixture, Objective(heads.TwoLayer(1, bias=True, seed=0), "squared")
    if name == "xor":
        return mixtures.xor(dimension, snr), Objective(heads.Product(a=1.0), "logistic")
    raise ValueError(f"mixture {name!r} is unknown; use one of {', '.join(NAMES)}")


class LimitAndRuns(NamedTuple):
    """A prediction, and train and test errors of runs from the same start, shape (runs, T)."""

    evolution: Evolution
    train: Tensor
    test: Tensor


def compare(
    theory: StateEvolution, dimension: int, steps: int, runs: int, seed: int, signal: float = 0.0
) -> LimitAndRuns:
    """Predict a run from a random start, and train from the same start on n = ratio · d rows.

    ``signal`` is the share of the first means that is added to the start, row by row. The seed
    draws the start; for r = seed, seed + 1, … the data of a run are drawn with 2r + 1 and 2r + 2,
    never with the seed of the start.
    """
    mixture, objective = theory.mixture, theory.objective
    assert isinstance(mixture, mixtures.GaussianMixture)
    assert objective.width is not None
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(objective.width, dimension, generator=generator, dtype=torch.float64)
    theta = theta + signal * mixture.means[torch.arange(objective.width) % mixture.modes]
    evolution = theory.run(steps, theta=theta)
    n = max(2, round(theory.ratio * dimension))
    train, test = [], []
    for r in range(seed, seed + runs):
        X, y = mixture.sample(n, seed=2 * r + 1)
        held_out = mixture.sample(2 * n, seed=2 * r + 2)
        options = {"test": held_out, "progress": False}
        run = fit(X, y, objective, theory.algorithm, steps, theta, **options)
        history = run.history
        missing = [math.inf] * (steps - len(history.train_error))  # after a divergence
        train.append(history.train_error + missing)
        test.append(history.test_error + missing)
    errors = (torch.tensor(part, dtype=torch.float64) for part in (train, test))
    return LimitAndRuns(evolution, *(part.reshape(runs, steps) for part in errors))
