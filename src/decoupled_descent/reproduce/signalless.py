r"""Regression without a signal: labels zero, x ~ N(0, I/d), squared loss ½ (xᵀθ)².

Gradient descent's train error falls faster than its test error; decoupled descent's two errors are
the same, and grow, since all that a step can learn here is noise. Damping η₀ = 1 − η turns growth
into decay for small η₁ = cη, and the train error alone tells which c are small enough.
"""

from __future__ import annotations

from operator import itemgetter

import numpy as np
import torch
from matplotlib.figure import Figure

import decoupled_descent as dd
from decoupled_descent.reproduce.drawing import error_grid, title
from decoupled_descent.reproduce.experiment import (
    Experiment,
    Labelled,
    Settings,
    normal_theta,
    sample,
    streams,
    train,
)
from decoupled_descent.reproduce.summary import (
    Curves,
    Panel,
    apart,
    last,
    measure,
    medians,
    paragraph,
    summarise_errors,
)

LOSS = "½ mean squared error"
TITLE = "Signal-less regression"


def problem(settings: Settings, seed: int) -> tuple[Labelled, Labelled, torch.Tensor]:
    """Training rows, test rows and θ_1 ~ N(0, I)."""
    rows_seed, test_seed, theta_seed = streams(seed, 3)
    rows, test = sample(dd.mixtures.signalless(settings["d"]), settings, rows_seed, test_seed)
    return rows, test, normal_theta(1, settings["d"], theta_seed)


def replicate(settings: Settings, seed: int) -> Curves:
    """Train GD and pure DD on one data set, from the same start."""
    rows, test, theta = problem(settings, seed)
    lr, mixture = settings["lr"], dd.mixtures.signalless(settings["d"])
    objective = dd.Objective(dd.heads.Linear(), "squared")
    algorithms = {"gd": dd.GradientDescent(lr), "dd": dd.DecoupledDescent(lr)}
    return train("signalless", rows, test, objective, algorithms, settings["steps"], theta, mixture)


def draw(settings: Settings, curves: Curves) -> Figure:
    """Gradient descent left, decoupled descent right, on logarithmic axes."""
    heading = title(TITLE, settings, "n", "d", "lr")
    return error_grid(curves, heading, LOSS, {"signalless": ""}, share=False, log=True)


def findings(settings: Settings, panels: list[Panel]) -> str:
    """Say how far apart the errors of both algorithms are."""
    (panel,) = panels
    train_error, test_error = last(panel, "gd", "train"), last(panel, "gd", "test")
    theory = panel["curves"][1]["state_evolution"][-1]
    predicted = "infinity" if theory is None else f"{theory:.2f}"
    sentence = (
        f"Gradient descent's train error falls to {train_error:.4f} while its test error is "
        f"{test_error:.4f}, {test_error / train_error:.0f} times as much (mean absolute gap "
        f"{measure(panel, 'gd'):.3f}). Decoupled descent's train and test errors stay together, at "
        f"{last(panel, 'dd', 'train'):.2f} and {last(panel, 'dd', 'test'):.2f}: they explode, "
        f"because there is no signal to learn, and state evolution predicts {predicted}. Their "
        f"largest difference is {largest_relative_gap(panel):.1%} of the test error."
    )
    return paragraph(settings, [sentence], panels)


def largest_relative_gap(panel: Panel) -> float:
    """The largest |train − test| / test over the steps, of decoupled descent's medians."""
    distance, test_error = apart(panel, "dd"), medians(panel, "dd", "test")
    finite = np.isfinite(distance)
    return float(np.max(distance[finite] / test_error[finite]))


def replicate_sweep(settings: Settings, seed: int) -> Curves:
    """Train DD with every c on the same data, from the same start."""
    rows, test, theta = problem(settings, seed)
    eta, mixture = settings["lr"], dd.mixtures.signalless(settings["d"])
    objective = dd.Objective(dd.heads.Linear(), "squared")
    curves: Curves = {}
    for c in settings["c"]:
        algorithms = {"dd": dd.DecoupledDescent(c * eta, damping=1 - eta)}
        curves |= train(
            f"c={c:g}", rows, test, objective, algorithms, settings["steps"], theta, mixture
        )
    return curves


def selected(curves: Curves, kind: str = "train") -> list[str]:
    """For every run, the panel with the lowest last train (or test) error: ``"c=0.5"``."""
    ends = {k.split("/")[0]: v[:, -1] for k, v in curves.items() if k.endswith(f"/{kind}")}
    return [list(ends)[winner] for winner in np.stack(list(ends.values())).argmin(axis=0)]


def summarise_sweep(curves: Curves) -> list[Panel]:
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
    heading = f"{title(TITLE, settings, 'n', 'd', 'lr')}, η₀ = 1 − η, η₁ = cη"
    figure = error_grid(curves, heading, LOSS, {winner: f"{marked} runs"}, columns=3, log=True)
    for ax in figure.axes:
        if ax.get_title().startswith(marked):
            ax.set_title(ax.get_title(), fontweight="bold")
            ax.set_facecolor("#FFF7E0")
    return figure


def findings_sweep(settings: Settings, panels: list[Panel]) -> str:
    """Say which c the train error selects, and whether the test error agrees."""
    values = settings["c"]
    ends = [last(panel, "dd", "test") for panel in panels]
    growing = [
        c
        for c, panel, end in zip(values, panels, ends, strict=True)
        if end > medians(panel, "dd", "test")[0]
    ]
    growth = f"it grows for c ≥ {min(growing):g}" if growing else "it falls for every c"
    choices = []
    for kind in ("train", "test"):
        chosen = max(panels, key=itemgetter(f"selected_by_{kind}"))
        name, share = chosen["name"].replace("=", " = "), chosen[f"selected_by_{kind}"]
        choices.append(f"the {kind} error selects {name} in {share:.0%} of the runs")
    listed = ", ".join(f"{end:.2g} for c = {c:g}" for c, end in zip(values, ends, strict=True))
    sentence = (
        f"The test error is {listed}; {growth}. At the last step {choices[0]}, and {choices[1]}. "
        f"Train and test error differ by at most {max(map(largest_relative_gap, panels)):.1%} of "
        "the test error (medians, any c and step)."
    )
    return paragraph(settings, [sentence], panels, runs="runs on shared data")


COMMON = {"d": 800, "lr": 0.05, "steps": 100, "test_rows": 2000, "replications": 100}

SIGNALLESS = Experiment(
    name="signalless",
    title="Regression without a signal",
    label="fig:noSignalReg",
    settings=COMMON | {"n": 200},
    quick={"replications": 20},
    replicate=replicate,
    draw=draw,
    findings=findings,
)

SWEEP = Experiment(
    name="signalless-sweep",
    title="Regression without a signal: a step size chosen by the train error",
    label="fig:noSignalSweep",
    settings=COMMON | {"n": 800, "c": [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]},
    quick={"replications": 10},
    replicate=replicate_sweep,
    summarise=summarise_sweep,
    draw=draw_sweep,
    findings=findings_sweep,
)
