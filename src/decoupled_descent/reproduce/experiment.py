"""What an experiment is, and the steps that the experiments share: seeds, training, theory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.datasets.mixtures import GaussianMixture
from decoupled_descent.descent import DecoupledDescent
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.objective import Objective
from decoupled_descent.state_evolution import StateEvolution
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import DivergenceWarning, fit

#: Everything that a replication depends on besides its seed; plain values that JSON can hold.
Settings = dict[str, Any]

#: Numbers by ``"panel/algorithm/kind"``: of one replication (T,), of several (replications, T).
Curves = dict[str, NDArray[np.float64]]

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper: its settings, how to compute it, how to show it.

    Attributes:
        name: What users ask for, such as ``"xor"``.
        title: A heading.
        label: The figure's label in the paper's source.
        settings: The paper's settings, ``replications`` among them.
        quick: What ``--quick`` changes.
        replicate: ``replicate(settings, seed)``, one replication; experiments on real data take the
            folder of data sets as well. At the top level of its module: other processes call it.
        summarise: Turns all curves into the panels of ``summary.json``.
        draw: Turns the settings and all curves into a figure.
        findings: Turns the settings and ``summary.json``'s panels into a paragraph.
        prepare: ``prepare(data)`` finds the data, or raises ``OSError``, and says what to add to
            the settings so that other data count as another experiment.
        timed: Whether it measures time, so that replications must not run side by side.
    """

    name: str
    title: str
    label: str
    settings: Settings
    quick: Settings
    replicate: Callable[..., Curves]
    summarise: Callable[[Curves], list[dict[str, Any]]]
    draw: Callable[[Settings, Curves], Figure]
    findings: Callable[[Settings, list[dict[str, Any]]], str]
    prepare: Callable[[Path | None], Settings] | None = None
    timed: bool = False


def streams(seed: int, count: int) -> list[int]:
    """Derive independent seeds for the data, the start and so on from that of a replication.

    Args:
        seed: Of the replication.
        count: How many are needed.

    Returns:
        The seeds; the first few do not depend on ``count``.

    Example:
        >>> streams(0, 3)[:2] == streams(0, 2) != streams(1, 2)
        True
    """
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(count)]


def default_theta(width: int, dimension: int, seed: int) -> Tensor:
    r"""Draw θ_1 as ``nn.Linear(d, L)`` does.

    .. math:: \theta \sim U\big(-1/\sqrt d, 1/\sqrt d\big)

    Args:
        width: L.
        dimension: d.
        seed: Of the draw.

    Returns:
        θ_1, shape (L, d), float32.

    Example:
        >>> bool((default_theta(3, 100, seed=0).abs() <= 0.1).all())
        True
    """
    generator = torch.Generator().manual_seed(seed)
    bound = dimension**-0.5
    return torch.empty(width, dimension).uniform_(-bound, bound, generator=generator)


def train(
    name: str,
    rows: Rows,
    test: Rows,
    objective: Objective,
    algorithm: Algorithm,
    steps: int,
    theta: Tensor,
) -> Curves:
    """Train once and return the errors of every iterate.

    Args:
        name: ``"panel/algorithm"``.
        rows: X and y.
        test: X and y of the test set.
        objective: Ψ.
        algorithm: GD, DD, ….
        steps: T, the number of iterates; entry 0 is the start, and both errors of an entry belong
            to the same iterate (the paper's listing pairs the train error before an update with the
            test error after it).
        theta: θ_1.

    Returns:
        ``"<name>/train"`` and ``"<name>/test"``, shape (T,); infinite from where a run diverged.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # counted in the findings instead
        run = fit(*rows, objective, algorithm, steps, theta=theta, test=test, progress=False)
    if run.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    history = run.history
    return {
        f"{name}/train": _filled(history.train_error, steps),
        f"{name}/test": _filled(history.test_error, steps),
    }


def predict(
    mixture: GaussianMixture,
    objective: Objective,
    algorithm: DecoupledDescent,
    ratio: float,
    steps: int,
    theta: Tensor,
    paths: int = 4096,
) -> NDArray[np.float64]:
    """Follow the state evolution from the same start as a run of decoupled descent.

    Args:
        mixture: The law of the data.
        objective: Ψ.
        algorithm: Decoupled descent.
        ratio: α = n/d.
        steps: T.
        theta: θ_1, whose own alignment and overlap are taken for the limits.
        paths: Sampled paths; unused where the expectations are exact (L = 1).

    Returns:
        The test error, shape (T,); infinite from where it diverged.
    """
    theory = StateEvolution(mixture, objective, algorithm, ratio, paths=paths, randomisations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        evolution = theory.run(steps, theta=theta, progress=False)
    return _filled(evolution.test_error, steps)


def _filled(errors: Any, steps: int) -> NDArray[np.float64]:
    """Errors as an array of full length, infinite after the last one reached."""
    values = np.full(steps, np.inf)
    values[: len(errors)] = np.asarray(errors)
    return values


def resolve(
    experiment: Experiment, quick: bool, replications: int | None, found: Mapping[str, Any]
) -> Settings:
    """Put the settings of a run together.

    Args:
        experiment: Which.
        quick: Whether to apply the quick settings.
        replications: Replaces their number when given.
        found: What ``prepare`` found.

    Returns:
        The settings.
    """
    settings = experiment.settings | (experiment.quick if quick else {}) | dict(found)
    if replications is not None:
        if replications < 1:
            raise ValueError(f"replications={replications} must be at least 1")
        settings["replications"] = replications
    return settings
