"""What a step costs: the paper's listing, this package's gradient descent and decoupled descent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import decoupled_descent as dd
from decoupled_descent.app.reproduce import mnist
from decoupled_descent.app.reproduce.drawing import title
from decoupled_descent.app.reproduce.experiment import Experiment, Settings, default_theta, streams
from decoupled_descent.app.reproduce.listing import Listing
from decoupled_descent.app.reproduce.summary import Curves, Panel, quantiles
from decoupled_descent.plotting import style

WARM_UP = 5
CONTENDERS = {
    "listing": ("DD, the paper's listing", "#009E73"),
    "dd": ("DD, this package", "#0072B2"),
    "gd": ("GD, this package", "#E69F00"),
}


def contenders(settings: Settings, seed: int, data: Path | None) -> dict[str, Callable[[], float]]:
    """Set up what is timed: functions that make one update and return the train error."""
    (X, y), _ = mnist.noisy_digits(settings, seed, data)
    theta_seed, head_seed = streams(seed, 5)[3:]
    theta = default_theta(settings["width"], X.shape[1], theta_seed)
    head = dd.heads.TwoLayer(settings["width"], seed=head_seed)
    objective, rows, lr = dd.Objective(head, "logistic"), dd.Rows(X, y), settings["lr"]

    def ours(algorithm: Any) -> Callable[[], float]:
        bound = algorithm.bind(rows, objective, theta)
        state = algorithm.init(rows, bound, theta)

        def step() -> float:
            nonlocal state
            state, info = algorithm.step(state, rows, bound)
            return float(info.train_error)

        return step

    output = next(head.parameters()).detach()
    return {
        "listing": Listing(X, y, theta, output, lr).step,
        "dd": ours(dd.DecoupledDescent(lr, reduction="mean")),
        "gd": ours(dd.GradientDescent(lr, reduction="mean")),
    }


def density(ax: Axes, times: NDArray[np.float64], label: str, colour: str) -> None:
    """Draw a kernel estimate of the density of log time, without the outermost percents."""
    logs = np.log(times)
    bandwidth = max(1.06 * float(logs.std()) * len(logs) ** -0.2, 0.01)
    low, high = np.quantile(logs, [0.01, 0.99]) + np.array([-4, 4]) * bandwidth
    grid = np.linspace(low, high, 500)
    distances = (grid[:, None] - logs[None, :]) / bandwidth
    height = np.exp(-(distances**2) / 2).mean(axis=1) / (bandwidth * (2 * np.pi) ** 0.5)
    ax.plot(np.exp(grid), height, color=colour, lw=1.8, label=label)
    ax.fill_between(np.exp(grid), 0, height, color=colour, alpha=0.25, lw=0)


class Runtime(Experiment):
    """An experiment that measures times instead of errors."""

    def replicate(self, settings: Settings, seed: int, data: Path | None = None) -> Curves:
        """Time every step of every contender, in an order that changes with the seed."""
        curves: Curves = {f"{name}/seconds": np.empty(settings["steps"]) for name in CONTENDERS}
        steps = self.problems(settings, seed, data)
        for index in np.random.default_rng(seed).permutation(len(steps)):
            name = list(steps)[index]
            for _ in range(WARM_UP):
                steps[name]()
            for t in range(settings["steps"]):
                start = time.perf_counter()
                steps[name]()
                curves[f"{name}/seconds"][t] = time.perf_counter() - start
        return curves

    def summarise(self, curves: Curves) -> list[Panel]:
        """Quantiles of the time per step (ms) and of the time per replication (s)."""
        panels = []
        for panel, unit, times in (
            ("step", "milliseconds", {k: 1e3 * v.ravel() for k, v in curves.items()}),
            ("total", "seconds", {k: v.sum(axis=1) for k, v in curves.items()}),
        ):
            summaries = [
                {"algorithm": name.split("/")[0], unit: quantiles(values)}
                for name, values in times.items()
            ]
            panels.append({"name": panel, "curves": summaries})
        return panels

    def draw(self, settings: Settings, curves: Curves) -> Figure:
        """Densities of the time per step, left, and of the time per replication, right."""
        figure, axes = style.new_figure(columns=2)
        for name, (label, colour) in CONTENDERS.items():
            seconds = curves[f"{name}/seconds"]
            density(axes[0, 0], 1e3 * seconds.ravel(), label, colour)
            density(axes[0, 1], seconds.sum(axis=1), label, colour)
        axes[0, 0].set(title="one step", xlabel="milliseconds", ylabel="density (per factor e)")
        axes[0, 1].set(title=f"{settings['steps']} steps", xlabel="seconds")
        for ax in axes[0]:
            ax.set_xscale("log")
            style.plain_log_ticks(ax.xaxis)
            ax.set_ylim(bottom=0)
            style.tidy(ax)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        heading = title(self.heading, settings, *self.shown)
        figure.suptitle(f"{heading}, one thread")
        return figure

    def findings(self, settings: Settings, panels: list[Panel]) -> str:
        """Say what a step costs, and how it compares."""
        step, total = (
            {c["algorithm"]: c[unit]["median"] for c in panel["curves"]}
            for panel, unit in zip(panels, ("milliseconds", "seconds"), strict=True)
        )
        return (
            f"Medians over {settings['replications']} runs of {settings['steps']} steps with L = "
            f"{settings['width']}, on one thread, without the test error. The paper's listing "
            f"takes {step['listing']:.2f} ms per step ({total['listing']:.2f} s per run), this "
            f"package's decoupled descent {step['dd']:.2f} ms ({total['dd']:.2f} s) and its "
            f"gradient descent {step['gd']:.2f} ms ({total['gd']:.2f} s): a step of decoupled "
            f"descent costs {step['dd'] / step['gd']:.2f} times one of gradient descent here, and "
            f"the listing {step['listing'] / step['dd']:.1f} times as much as this package."
        )


RUNTIME = Runtime(
    name="runtime",
    title="Run time on MNIST",
    label="fig:timeGDvDD",
    settings=mnist.COMMON | {"width": 9, "threads": 1, "replications": 25},
    quick={"replications": 4},
    problems=contenders,
    heading="Time on MNIST",
    shown=("n", "d", "width"),
    prepare=mnist.prepare,
    timed=True,
)
