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

import decoupled_descent as dd
from decoupled_descent.checks import whole_number
from decoupled_descent.reproduce.summary import Curves, Panel, summarise_errors

#: Everything that a replication depends on besides its seed; plain values that JSON can hold.
Settings = dict[str, Any]

#: Features and labels.
Labelled = tuple[Tensor, Tensor]


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
            folder of data sets as well. Defined at the top level of its module, so that other
            processes can call it.
        draw: Turns the settings and all curves into a figure.
        findings: Turns the settings and the panels of ``summary.json`` into a paragraph.
        summarise: Turns all curves into the panels of ``summary.json``.
        prepare: ``prepare(data)`` finds the data, or raises ``OSError``. It returns what to add to
            the settings, so that replications on other data are not mixed with these.
        timed: Whether it measures time, so that replications must not run at the same time.
    """

    name: str
    title: str
    label: str
    settings: Settings
    quick: Settings
    replicate: Callable[..., Curves]
    draw: Callable[[Settings, Curves], Figure]
    findings: Callable[[Settings, list[Panel]], str]
    summarise: Callable[[Curves], list[Panel]] = summarise_errors
    prepare: Callable[[Path | None], Settings] | None = None
    timed: bool = False


def resolve(
    experiment: Experiment, quick: bool, replications: int | None, found: Mapping[str, Any]
) -> Settings:
    """Combine an experiment's settings with the quick ones, what ``prepare`` found and a number."""
    settings = experiment.settings | (experiment.quick if quick else {}) | dict(found)
    if replications is not None:
        settings["replications"] = whole_number("replications", replications)
    return settings


def streams(seed: int, count: int) -> list[int]:
    """Derive independent seeds for the data, the start and so on from that of a replication.

    Example:
        >>> streams(0, 3)[:2] == streams(0, 2) != streams(1, 2)
        True
    """
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(count)]


def normal_theta(width: int, dimension: int, seed: int) -> Tensor:
    """Draw θ_1 with independent N(0, 1) entries, shape (L, d)."""
    return torch.randn(width, dimension, generator=torch.Generator().manual_seed(seed))


def default_theta(width: int, dimension: int, seed: int) -> Tensor:
    r"""Draw θ_1, shape (L, d), as ``nn.Linear(d, L)`` does.

    .. math:: \theta \sim U\big(-1/\sqrt d, 1/\sqrt d\big)
    """
    generator = torch.Generator().manual_seed(seed)
    bound = dimension**-0.5
    return torch.empty(width, dimension).uniform_(-bound, bound, generator=generator)


def sample(
    mixture: dd.GaussianMixture, settings: Settings, rows_seed: int, test_seed: int
) -> tuple[Labelled, Labelled]:
    """Draw the training rows and the test rows."""
    rows = mixture.sample(settings["n"], seed=rows_seed)
    return rows, mixture.sample(settings["test_rows"], seed=test_seed)


def train(
    panel: str,
    rows: Labelled,
    test: Labelled,
    objective: dd.Objective,
    algorithms: Mapping[str, Any],
    steps: int,
    theta: Tensor,
    mixture: dd.GaussianMixture | None = None,
) -> Curves:
    """Train every algorithm from the same start and return the errors of all iterates.

    Both errors of an entry belong to the same iterate, and entry 0 is the start. (The paper's
    listing pairs the train error before an update with the test error after it.) With the mixture
    that the rows come from, state evolution predicts the test error of ``"dd"``, too.

    Returns:
        ``"<panel>/<algorithm>/train"``, ``…/test`` and ``…/state_evolution``, shape (T,), infinite
        after a run has diverged.
    """
    curves: Curves = {}
    for name, algorithm in algorithms.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DivergenceWarning)  # counted in the findings instead
            run = dd.fit(*rows, objective, algorithm, steps, theta=theta, test=test, progress=False)
        if run.stop_reason is dd.StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        curves[f"{panel}/{name}/train"] = _filled(run.train_error, steps)
        curves[f"{panel}/{name}/test"] = _filled(run.test_error, steps)
        if mixture is not None and name == "dd":
            ratio = len(rows[0]) / rows[0].shape[1]
            curves[f"{panel}/{name}/state_evolution"] = predict(
                mixture, objective, algorithm, ratio, steps, theta
            )
    return curves


def predict(
    mixture: dd.GaussianMixture,
    objective: dd.Objective,
    algorithm: dd.DecoupledDescent,
    ratio: float,
    steps: int,
    theta: Tensor,
) -> NDArray[np.float64]:
    """The test error by state evolution from a run's own start, infinite after it has diverged."""
    theory = dd.StateEvolution(mixture, objective, algorithm, ratio, paths=4096, randomisations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.DivergenceWarning)
        evolution = theory.run(steps, theta=theta, progress=False)
    return _filled(evolution.test_error, steps)


def _filled(errors: Any, steps: int) -> NDArray[np.float64]:
    """Errors as an array of full length, infinite after the last one reached."""
    values = np.full(steps, np.inf)
    values[: len(errors)] = np.asarray(errors)
    return values
