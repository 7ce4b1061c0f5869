r"""Regression without a signal: labels zero, x ~ N(0, I/d), squared loss ½ (xᵀθ)².

Gradient descent's train error falls faster than its test error; decoupled descent's two errors are
the same, and grow, since all that a step can learn here is noise. Damping η₀ = 1 − η turns growth
into decay for small η₁ = cη, and the train error alone tells which c are small enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from decoupled_descent.datasets import mixtures
from decoupled_descent.descent import DecoupledDescent, GradientDescent
from decoupled_descent.objective import Objective
from decoupled_descent.objective.heads import Linear
from decoupled_descent.reproduce.drawing import error_grid
from decoupled_descent.reproduce.experiment import (
    Curves,
    Experiment,
    Rows,
    Settings,
    predict,
    streams,
    train,
)
from decoupled_descent.reproduce.summary import (
    curve,
    divergences,
    last,
    measure,
    summarise_errors,
)

LOSS = "½ mean squared error"


def _problem(settings: Settings, seed: int) -> tuple[Rows, Rows, torch.Tensor]:
    """Training rows, test rows and θ_1 ~ N(0, I)."""
    rows_seed, test_seed, theta_seed = streams(seed, 3)
    mixture = mixtures.signalless(settings["d"])
    theta = torch.randn(1, settings["d"], generator=torch.Generator().manual_seed(theta_seed))
    rows = mixture.sample(settings["n"], seed=rows_seed)
    return rows, mixture.sample(settings["test_rows"], seed=test_seed), theta


def replicate(settings: Settings, seed: int) -> Curves:
    """Train GD and pure DD on one data set, from the same start."""
    rows, test, theta = _problem(settings, seed)
    n, d, lr, steps = (settings[name] for name in ("n", "d", "lr", "steps"))
    objective, decoupled = Objective(Linear(), "squared"), DecoupledDescent(lr)
    curves: Curves = {}
    for name, algorithm in (("gd", GradientDescent(lr)), ("dd", decoupled)):
        curves |= train(f"signalless/{name}", rows, test, objective, algorithm, steps, theta)
    curves["signalless/dd/state_evolution"] = predict(
        mixtures.signalless(d), objective, decoupled, n / d, steps, theta
    )
    return curves


def draw(settings: Settings, curves: Curves) -> Figure:
    """Gradient descent left, decoupled descent right, on logarithmic axes."""
    return error_grid(curves, _title(settings), LOSS, {"signalless": ""}, share=False, log=True)


def findings(settings: Settings, panels: list[dict[str, Any]]) -> str:
    """Say how far apart the errors of both algorithms are."""
    (panel,) = panels
    train_error, test_error = last(panel, "gd", "train"), last(panel, "gd", "test")
    decoupled = curve(panel, "dd")
    theory = decoupled["state_evolution"][-1]
    return (
        f"Medians over {settings['replications']} runs after {settings['steps']} steps. Gradient "
        f"descent's train error falls to {train_error:.4f} while its test error is "
        f"{test_error:.4f}, {test_error / train_error:.0f} times as much (mean absolute gap "
        f"{measure(panel, 'gd', 'mean_absolute_gap'):.3f}). Decoupled descent's train and test "
        f"errors stay together, at {last(panel, 'dd', 'train'):.2f} and "
        f"{last(panel, 'dd', 'test'):.2f}: they explode, since there is no signal to learn, and "
        "state evolution says so, with "
        f"{math.inf if theory is None else theory:.2f}. Their largest difference is "
        f"{largest_relative_gap(decoupled):.1%} of the test error." + divergences(panels)
    )


def largest_relative_gap(errors: dict[str, Any]) -> float:
    """The largest |train − test| / test over the steps, of the medians."""
    train_error, test_error = (
        np.array(errors[kind]["median"], dtype=float) for kind in ("train", "test")
    )
    return float(np.nanmax(np.abs(train_error - test_error) / test_error))


def replicate_sweep(settings: Settings, seed: int) -> Curves:
    """Train DD with every c on the same data, from the same start."""
    rows, test, theta = _problem(settings, seed)
    n, d, eta, steps = (settings[name] for name in ("n", "d", "lr", "steps"))
    objective = Objective(Linear(), "squared")
    curves: Curves = {}
    for c in settings["c"]:
        algorithm = DecoupledDescent(c * eta, damping=1 - eta)
        curves |= train(f"c={c:g}/dd", rows, test, objective, algorithm, steps, theta)
        curves[f"c={c:g}/dd/state_evolution"] = predict(
            mixtures.signalless(d), objective, algorithm, n / d, steps, theta
        )
    return curves


def selected(curves: Curves, kind: str = "train") -> list[str]:
    """The panel with the lowest last error, run by run.

    Args:
        curves: Of all runs.
        kind: Whether the train or the test error selects.

    Returns:
        One panel per run, such as ``"c=0.5"``.
    """
    ends = {k.split("/")[0]: v[:, -1] for k, v in curves.items() if k.endswith(f"/{kind}")}
    return [list(ends)[winner] for winner in np.stack(list(ends.values())).argmin(axis=0)]


def summarise_sweep(curves: Curves) -> list[dict[str, Any]]:
    """Panels as usual, each with the share of runs whose train (or test) error selects its c."""
    panels = summarise_errors(curves)
    for kind in ("train", "test"):
        choices = selected(curves, kind)
        for panel in panels:
            panel[f"selected_by_{kind}"] = choices.count(panel["name"]) / len(choices)
    return panels


def draw_sweep(settings: Settings, curves: Curves) -> Figure:
    """One panel per c on logarithmic axes, the selected one marked."""
    choices = selected(curves)
    winner = max(choices, key=choices.count)
    marked = f"{winner.replace('=', ' = ')}: selected in {choices.count(winner)} of {len(choices)}"
    title = f"{_title(settings)}, η₀ = 1 − η, η₁ = cη"
    figure = error_grid(curves, title, LOSS, {winner: f"{marked} runs"}, columns=3, log=True)
    for ax in figure.axes:
        if ax.get_title().startswith(marked):
            ax.set_title(ax.get_title(), fontweight="bold")
            ax.set_facecolor("#FFF7E0")
    return figure


def findings_sweep(settings: Settings, panels: list[dict[str, Any]]) -> str:
    """Say which c the train error selects, and whether the test error agrees."""
    values = settings["c"]
    ends = ", ".join(
        f"{last(panel, 'dd', 'test'):.2g} for c = {c:g}"
        for c, panel in zip(values, panels, strict=True)
    )
    winners = {
        kind: max(range(len(values)), key=lambda k: panels[k][f"selected_by_{kind}"])
        for kind in ("train", "test")
    }
    chosen = panels[winners["train"]]
    growing = [
        c
        for c, panel in zip(values, panels, strict=True)
        if last(panel, "dd", "test") > curve(panel, "dd")["test"]["median"][0]
    ]
    growth = f"it grows for c ≥ {min(growing):g}" if growing else "it falls for every c"
    return (
        f"Over {settings['replications']} runs on shared data, after {settings['steps']} steps, "
        f"the median test error is {ends}; {growth}. The train error selects c = "
        f"{values[winners['train']]:g} in {chosen['selected_by_train']:.0%} of the runs, the test "
        f"error selects c = {values[winners['test']]:g} in "
        f"{panels[winners['test']]['selected_by_test']:.0%}. Train and test error differ by at "
        f"most {max(largest_relative_gap(curve(p, 'dd')) for p in panels):.1%} of the test error "
        "(medians, any c and step)." + divergences(panels)
    )


def _title(settings: Settings) -> str:
    return (
        f"Signal-less regression: n = {settings['n']}, d = {settings['d']}, "
        f"η = {settings['lr']:g}, {settings['replications']} runs"
    )


SIGNALLESS = Experiment(
    name="signalless",
    title="Regression without a signal",
    label="fig:noSignalReg",
    settings={
        "n": 200,
        "d": 800,
        "lr": 0.05,
        "steps": 100,
        "test_rows": 2000,
        "replications": 100,
    },
    quick={"replications": 20},
    replicate=replicate,
    summarise=summarise_errors,
    draw=draw,
    findings=findings,
)

SWEEP = Experiment(
    name="signalless-sweep",
    title="Regression without a signal: a step size chosen by the train error",
    label="fig:noSignalSweep",
    settings={
        "n": 800,
        "d": 800,
        "lr": 0.05,
        "c": [0.25, 0.5, 0.75, 1.0, 1.25, 1.5],
        "steps": 100,
        "test_rows": 2000,
        "replications": 100,
    },
    quick={"replications": 10},
    replicate=replicate_sweep,
    summarise=summarise_sweep,
    draw=draw_sweep,
    findings=findings_sweep,
)
