r"""Regression without a signal: labels zero, x ~ N(0, I/d), squared loss ½ (xᵀθ)².

Gradient descent's train error falls faster than its test error; decoupled descent's two errors are
the same and grow, because there is only noise to learn. With damping η₀ = 1 − η they fall if c in
η₁ = cη is small, and the train error alone shows which c are small enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import decoupled_descent as dd
from decoupled_descent.app.reproduce import experiment as shared
from decoupled_descent.app.reproduce.experiment import Experiment, PanelProblem, Settings
from decoupled_descent.app.reproduce.summary import (
    Curves,
    Panel,
    apart,
    last,
    medians,
    selected,
    written,
)
from decoupled_descent.checks import percent


def problem(settings: Settings, seed: int, panel: str, algorithms: dict[str, Any]) -> PanelProblem:
    """The linear model on rows without a signal, from θ_1 ~ N(0, I)."""
    rows_seed, test_seed, theta_seed = shared.streams(seed, 3)
    mixture = dd.mixtures.signalless(settings["d"])
    rows, test = shared.sample(mixture, settings, rows_seed, test_seed)
    theta = shared.normal_theta(1, settings["d"], theta_seed)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    return PanelProblem(panel, rows, test, objective, algorithms, theta, mixture)


def pure(settings: Settings, seed: int) -> Iterator[PanelProblem]:
    """GD and pure DD on one data set, from the same start."""
    lr = settings["lr"]
    algorithms = {"gd": dd.GradientDescent(lr), "dd": dd.DecoupledDescent(lr)}
    yield problem(settings, seed, "signalless", algorithms)


def swept(settings: Settings, seed: int) -> Iterator[PanelProblem]:
    """DD with every c on the same data, from the same start."""
    eta = settings["lr"]
    for c in settings["c"]:
        algorithms = {"dd": dd.DecoupledDescent(c * eta, damping=1 - eta)}
        yield problem(settings, seed, f"c={c:g}", algorithms)


def explosion(panels: list[Panel]) -> list[str]:
    """A sentence on the difference between train and test errors of both algorithms."""
    (panel,) = panels
    ratio = last(panel, "gd", "test") / last(panel, "gd", "train")
    theory = panel["curves"][1]["state_evolution"][-1]
    predicted = "infinity" if theory is None else f"{theory:.2f}"
    return [
        f"The test error of gradient descent is {ratio:.0f} times its train error. The errors of "
        "decoupled descent explode together, because there is no signal to learn; state evolution "
        f"predicts {predicted}.",
        closeness(panels),
    ]


def growth(panels: list[Panel]) -> list[str]:
    """Say for which c the test error grows."""
    ends = {panel["name"]: medians(panel, "dd", "test")[[0, -1]] for panel in panels}
    growing = [float(name.removeprefix("c=")) for name, (start, end) in ends.items() if end > start]
    grows = f"grows for c ≥ {min(growing):g}" if growing else "falls for every c"
    return [f"The test error {grows}.", closeness(panels)]


def closeness(panels: list[Panel]) -> str:
    """A sentence on the largest |train − test| / test of decoupled descent's medians."""
    distance = np.stack([apart(panel, "dd") for panel in panels])
    finite = np.isfinite(distance)
    test = np.stack([medians(panel, "dd", "test") for panel in panels])
    return (
        "The train and test errors of decoupled descent differ by at most "
        f"{percent(np.max(distance[finite] / test[finite]))} "
        "of the test error (medians, at any step)."
    )


class SignallessSweep(Experiment):
    """Panels, with a mark on the one that most runs select."""

    def draw(self, settings: Settings, curves: Curves) -> Figure:
        """Draw the panels, mark one, and say on which side of the border c²α = 1 each is."""
        figure, choices = super().draw(settings, curves), selected(curves, "train")
        winner = max(choices, key=choices.count)
        for ax in figure.axes:
            c = float(ax.get_title().split("=")[1])
            size = c**2 * settings["n"] / settings["d"]
            trend = "falls" if size < 1 else "grows" if size > 1 else "the border"
            ax.text(0.03, 0.05, f"c²α = {size:.3g}: {trend}", transform=ax.transAxes)
            if ax.get_title() == written(winner):
                share = f"selected in {choices.count(winner)} of {len(choices)} runs"
                ax.set_title(f"{written(winner)}: {share}", fontweight="bold")
                ax.set_facecolor("#FFF7E0")
        return figure


COMMON = {"d": 800, "lr": 0.05, "steps": 100, "test_rows": 2000, "replications": 100}

SIGNALLESS = Experiment(
    name="signalless",
    title="Regression without a signal",
    label="fig:noSignalReg",
    settings=COMMON | {"n": 200},
    quick={"replications": 20},
    problems=pure,
    heading="Signal-less regression",
    shown=("n", "d", "lr"),
    loss="½ mean squared error",
    remarks=explosion,
    grid={"share": False, "log": True},
)

SWEEP = SignallessSweep(
    name="signalless-sweep",
    title="Regression without a signal: a step size chosen by the train error",
    label="fig:noSignalSweep",
    settings=COMMON | {"n": 800, "c": [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]},
    quick={"replications": 10},
    problems=swept,
    heading="Signal-less regression, η₀ = 1 − η, η₁ = cη",
    shown=("n", "d", "lr"),
    loss="½ mean squared error",
    selects=True,
    remarks=growth,
    grid={"columns": 3, "log": True},
)
