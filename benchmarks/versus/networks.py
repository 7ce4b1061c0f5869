"""Small networks stopped early: gradient descent judged by other rows, and decoupled descent.

Everyone starts from the same weights, and has the same rate and number of steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import decoupled_descent as dd
from benchmarks.versus.scaling import Map, scaler
from benchmarks.versus.ways import (
    Answer,
    Array,
    Learner,
    RowLosses,
    Way,
    common_ways,
    single_fit,
)


@dataclass(frozen=True)
class Setting:
    """A network, how it starts, and how it descends.

    Attributes:
        head: Makes the head for a seed.
        start: Makes θ_1 for a width d and a seed.
        options: Rate and reduction of gradient and decoupled descent.
        steps: The most iterates.
    """

    head: Callable[[int], torch.nn.Module]
    start: Callable[[int, int], Tensor]
    options: dict[str, Any]
    steps: int


def normal(width: int) -> Callable[[int, int], Tensor]:
    """θ_1 from N(0, 1)."""
    return lambda d, seed: torch.randn(width, d, generator=torch.Generator().manual_seed(seed))


def as_layer(width: int) -> Callable[[int, int], Tensor]:
    """θ_1 as ``nn.Linear`` starts: uniform within ±1/√d."""

    def start(d: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return (2 * torch.rand(width, d, generator=generator) - 1) / d**0.5

    return start


SETTINGS = {
    "xor": Setting(lambda seed: dd.heads.Product(seed=seed), normal(2), {"lr": 0.05}, 200),
    "flipped classes": Setting(
        lambda seed: dd.heads.TwoLayer(3, seed=seed), normal(3), {"lr": 0.2}, 60
    ),
    "noisy MNIST": Setting(
        lambda seed: dd.heads.TwoLayer(9, seed=seed), as_layer(9),
        {"lr": 1.0, "reduction": "mean"}, 250,
    ),
    "embeddings": Setting(
        lambda seed: dd.heads.TwoLayer(5, bias=True, seed=seed), as_layer(5),
        {"lr": 2.0, "reduction": "mean"}, 150,
    ),
}  # fmt: skip


def tensors(scale: Map, X: Array, y: Array) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(scale(X)).float(), torch.from_numpy(y).float()


@dataclass(frozen=True)
class Iterates:
    """The states of a descent, step by step."""

    scale: Map
    objective: dd.Objective
    states: list[Any]

    def losses(self, X: Array, y: Array) -> Array:
        rows = tensors(self.scale, X, y)
        return np.array([self._of(state, *rows) for state in self.states])

    def pick(self, index: int) -> RowLosses:
        state = self.states[index]
        return lambda X, y: self._of(state, *tensors(self.scale, X, y))

    def _of(self, state: Any, X: Tensor, y: Tensor) -> Array:
        losses = self.objective.losses(X @ state.theta.T, y, state.head)
        return losses.double().numpy()


@dataclass(frozen=True)
class Problem:
    """A setting on rows of one kind, with the start of one seed."""

    setting: Setting
    standardise: bool
    seed: int

    @property
    def objective(self) -> dd.Objective:
        return dd.Objective(self.setting.head(self.seed), "logistic")

    def rows(self, X: Array, y: Array) -> tuple[Map, Tensor, Tensor, Tensor]:
        """The map of new rows, scaled rows, labels, and θ_1."""
        scale = scaler(X, self.standardise)
        return scale, *tensors(scale, X, y), self.setting.start(X.shape[1], self.seed)

    def learner(self) -> Learner:
        """Gradient descent; every iterate is a candidate."""

        def train(X: Array, y: Array, last: int | None = None) -> Iterates:
            scale, A, labels, theta = self.rows(X, y)
            states: list[Any] = []
            steps = self.setting.steps if last is None else last + 1
            algorithm = dd.GradientDescent(**self.setting.options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dd.DivergenceWarning)
                dd.fit(
                    A, labels, self.objective, algorithm, steps, theta,
                    callbacks=lambda step: states.append(step.state), progress=False,
                )  # fmt: skip
            return Iterates(scale, self.objective, states)

        return train

    def decoupled(self, X: Array, y: Array) -> Answer:
        """Stopped where the train error is lowest."""
        scale, A, labels, theta = self.rows(X, y)
        algorithm = dd.DecoupledDescent(**self.setting.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DivergenceWarning)
            steps = self.setting.steps
            run = dd.fit(A, labels, self.objective, algorithm, steps, theta, progress=False)
        model = Iterates(scale, self.objective, [run.best_state]).pick(0)
        return Answer(run.best.train_error, run.best.train_error_stderr, model)


def ways(name: str, standardise: bool, rows: int, seed: int) -> dict[str, Way]:
    """All ways of this model class."""
    problem = Problem(SETTINGS[name], standardise, seed)
    train = problem.learner()
    found = {"one fit": single_fit(train)} | common_ways(train)
    return found | {"DD": problem.decoupled}
