"""The figure of the front page: four ways to train the same network, train and test error of each.

``python studies/story.py`` draws docs/figures/story.png. Half a minute on one core.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.checks import Z95
from decoupled_descent.plotting.style import COLOURS, new_figure, save_figure, tidy

OUT = Path(__file__).parents[1] / "docs" / "figures" / "story.png"
N, D, UNITS, STEPS = 400, 400, 4, 80
MIXTURE = dd.mixtures.flipped_classes(D, snr=1.5, labels=(0.0, 1.0))


def runs() -> dict[str, Any]:
    """Train by each method, from the same start, on the same rows."""
    rows, test = MIXTURE.sample(N, seed=3), MIXTURE.sample(10_000, seed=4)
    head = dd.heads.TwoLayer(UNITS, seed=0)
    start = torch.randn(UNITS, D, generator=torch.Generator().manual_seed(0))
    objective = dd.Objective(head, "logistic")
    network = nn.Sequential(nn.Linear(D, UNITS, bias=False), head)
    with torch.no_grad():
        network[0].weight.copy_(start)
    rates = {"lr": 0.2, "head_lr": 0.1}
    algorithms = {
        "gradient descent": dd.GradientDescent(**rates, estimate=True),
        "decoupled descent": dd.DecoupledDescent(**rates, damping=0.95),
        "orthogonal": dd.OrthogonalDecoupledDescent(**rates, damping=0.95, ridge=1.0),
    }
    common = {"test": test, "progress": False}
    results = {
        name: dd.fit(*rows, objective, algorithm, STEPS, theta=start, **common)
        for name, algorithm in algorithms.items()
    }
    path = dd.DecoupledGaussNewton(ridge=1.0)
    results["path, every layer"] = dd.fit(*rows, network, path, 20, loss="logistic", **common)
    return results


def draw(results: dict[str, Any]) -> None:
    figure, axes = new_figure(2, 2, sharey=True)
    train, test = COLOURS["train"], COLOURS["test"]
    for ax, (name, run) in zip(axes.flat, results.items(), strict=True):
        estimate, margin = run.estimated_test_error, Z95 * run.train_error_stderr
        steps, corrected = range(len(estimate)), bool(run.history.fitted_error)
        ax.fill_between(steps, estimate - margin, estimate + margin, color=train, alpha=0.2, lw=0)
        label = "its corrected training error" if corrected else "training error"
        ax.plot(steps, estimate, color=train, lw=1.6, label=label)
        if corrected:
            ax.plot(steps, run.train_error, color=train, lw=1.4, ls=":", label="training error")
        ax.plot(steps, run.test_error, color=test, lw=1.4, label="error on new rows")
        ax.set(title=name, xlabel="step", ylim=(0, 1))
        tidy(ax, "small")
        ax.xaxis.get_major_locator().set_params(integer=True)
    for ax in axes[:, 0]:
        ax.set_ylabel("log loss")
    save_figure(figure, OUT)


if __name__ == "__main__":
    draw(runs())
