"""The class of experiments, and their common parts: seeds, training, theory, findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

import decoupled_descent as dd
from decoupled_descent.app.reproduce import summary
from decoupled_descent.app.reproduce.drawing import error_grid, title
from decoupled_descent.app.reproduce.summary import Curves, Panel
from decoupled_descent.checks import whole_number
from decoupled_descent.quiet import ignoring

#: Everything that a replication depends on besides its seed; plain values that JSON can hold.
Settings = dict[str, Any]

#: Features and labels.
Labelled = tuple[Tensor, Tensor]


class PanelProblem(NamedTuple):
    """One panel of one replication: algorithms on the same rows, from the same start."""

    panel: str
    rows: Labelled
    test: Labelled
    objective: dd.Objective
    algorithms: Mapping[str, Any]  # by the names in summary.NAMES
    theta: Tensor
    mixture: dd.GaussianMixture | None = None  # of the rows, for state evolution


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure of the paper: by default train and test errors, panel by panel.

    ``problems(settings, seed)`` yields the panels of one replication; for real data,
    ``problems(settings, seed, data)``. ``prepare(data)`` finds the data, or raises ``OSError``. It
    returns what to add to the settings, so that replications on different data are not mixed.
    """

    name: str  # what users ask for, such as "xor"
    title: str
    label: str  # in the paper's source
    settings: Settings  # the paper's, "replications" among them
    quick: Settings  # what --quick changes
    problems: Callable[..., Any]
    heading: str  # what the figure's title says first
    shown: tuple[str, ...]  # the settings that the title states
    loss: str = "cross-entropy"  # on the vertical axes
    selects: bool = False  # the panels are candidates on the same data, chosen by train error
    remarks: Callable[[list[Panel]], list[str]] = lambda _: []  # sentences of this figure alone
    grid: Mapping[str, Any] = field(default_factory=dict)  # options of error_grid
    prepare: Callable[[Path | None], Settings] | None = None
    timed: bool = False  # measures time, so that replications must not run at the same time

    def resolve(self, quick: bool, replications: int | None, of_data: Settings) -> Settings:
        """Combine the settings with the quick ones, those of the data, and a number."""
        settings = self.settings | (self.quick if quick else {}) | of_data
        if replications is not None:
            settings["replications"] = whole_number("replications", replications)
        return settings

    def replicate(self, settings: Settings, seed: int, data: Path | None = None) -> Curves:
        """Compute one replication: train all panels."""
        curves: Curves = {}
        for problem in self.problems(settings, seed, *([data] if self.prepare else [])):
            curves |= train(problem, settings["steps"])
        return curves

    def summarise(self, curves: Curves) -> list[Panel]:
        """Turn the curves of all replications into the panels of ``summary.json``."""
        panels = summary.summarise_errors(curves)
        for kind in ("train", "test") if self.selects else ():
            choices = summary.selected(curves, kind)
            for panel in panels:
                panel[f"selected_by_{kind}"] = choices.count(panel["name"]) / len(choices)
        return panels

    def draw(self, settings: Settings, curves: Curves) -> Figure:
        """Draw one row per panel and one column per algorithm, or as ``grid`` says."""
        heading = title(self.heading, settings, *self.shown)
        return error_grid(curves, heading, self.loss, **self.grid)

    def findings(self, settings: Settings, panels: list[Panel]) -> str:
        """Sentences on the number of runs, the errors of the panels, and runs that diverged."""
        runs = "runs on shared data" if self.selects else "runs"
        start = f"Medians over {settings['replications']} {runs} after {settings['steps']} steps."
        sentences = [start, *map(summary.reached, panels), *self.remarks(panels)]
        if self.selects:
            sentences.append(summary.selection(panels))
        return " ".join(sentences + summary.diverged(panels))


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
    """Draw θ_1 from U(−1/√d, 1/√d), shape (L, d), as ``nn.Linear(d, L)`` does."""
    generator = torch.Generator().manual_seed(seed)
    bound = dimension**-0.5
    return torch.empty(width, dimension).uniform_(-bound, bound, generator=generator)


def sample(
    mixture: dd.GaussianMixture, settings: Settings, rows_seed: int, test_seed: int
) -> tuple[Labelled, Labelled]:
    """Draw the training rows and the test rows."""
    rows = mixture.sample(settings["n"], seed=rows_seed)
    return rows, mixture.sample(settings["test_rows"], seed=test_seed)


def train(problem: PanelProblem, steps: int) -> Curves:
    """Train every algorithm and return the errors of all iterates, infinite after a divergence.

    Both errors of an entry belong to the same iterate, and entry 0 is the start. (The paper's
    listing pairs the train error before an update with the test error after it.) The curves are
    ``"<panel>/<algorithm>/train"``, ``…/test``, ``…/state_evolution`` and, for train errors with a
    separate limit, ``…/state_evolution_train``, shape (T,).
    """
    panel, rows, test, objective, algorithms, theta, mixture = problem
    curves: Curves = {}
    for name, algorithm in algorithms.items():
        with ignoring(dd.DivergenceWarning):  # counted in the findings instead
            run = dd.fit(*rows, objective, algorithm, steps, theta=theta, test=test, progress=False)
            if run.stop_reason is dd.training.StopReason.INTERRUPTED:
                raise KeyboardInterrupt
            errors: dict[str, Any] = {"train": run.train_error, "test": run.test_error}
            if mixture is not None:
                ratio = len(rows[0]) / rows[0].shape[1]
                paths = 4096 if algorithm.estimates_test_error else 2048  # the latter cost more
                theory = dd.StateEvolution(
                    mixture, objective, algorithm, ratio, paths=paths, randomisations=2
                )
                evolution = theory.run(steps, theta=theta, progress=False)
                errors["state_evolution"] = evolution.test_error
                if not algorithm.estimates_test_error:
                    errors["state_evolution_train"] = evolution.train_error
        curves |= {f"{panel}/{name}/{kind}": _filled(e, steps) for kind, e in errors.items()}
    return curves


def _filled(errors: Any, steps: int) -> NDArray[np.float64]:
    """Errors as an array of full length, infinite after the last finite one."""
    values = np.full(steps, np.inf)
    values[: len(errors)] = np.asarray(errors)
    return values
