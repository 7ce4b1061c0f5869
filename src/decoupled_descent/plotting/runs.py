"""Figures of a run, of a sweep and of a learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from decoupled_descent.checks import Z95
from decoupled_descent.plotting.style import COLOURS, THEORY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from decoupled_descent.training.sweeps.sweep import Sweep


def plot_curve(
    error: Any,
    stderr: Any,
    *,
    fitted: Any = None,
    test: Any = None,
    theory: Any = None,
    title: str = "",
    ylabel: str = "error",
    xlabel: str = "step",
) -> Figure:
    """Draw a train error with its 95 % interval and mark the lowest point.

    Args:
        error: The train error, shape (T,), or an estimate of the test error beside it.
        stderr: Its standard error, shape (T,).
        fitted: The train error, if ``error`` is an estimate beside it, shape (T,).
        test: The error on test rows, shape (T,), if there are any.
        theory: What state evolution predicts, shape (T,).
        title: The title of the figure.
        ylabel: The name of the error.
        xlabel: The name of the horizontal axis.

    Example:
        >>> plot_curve([1.0, 0.5, 0.6], [0.1, 0.1, 0.1], ylabel="log loss").axes[0].get_ylabel()
        'log loss'
    """
    figure, axes = new_figure()
    ax: Axes = axes[0, 0]
    error, margin = np.asarray(error), Z95 * np.asarray(stderr)
    steps, best = np.arange(len(error)), int(np.argmin(error))
    name = "train error" if fitted is None else "estimated test error"
    ax.plot(steps, error, color=COLOURS["train"], lw=1.8, label=name)
    if fitted is not None:
        ax.plot(
            steps, np.asarray(fitted), color=COLOURS["train"], lw=1.2, ls=":", label="train error"
        )
    interval = ax.fill_between(steps, error - margin, error + margin, alpha=0.2, lw=0)
    interval.set(color=COLOURS["train"], label="its 95 % interval")
    ax.plot(best, error[best], "o", color=COLOURS["train"], ms=5, label=f"best step, {best}")
    if test is not None:
        ax.plot(np.asarray(test), color=COLOURS["test"], lw=1.4, label="test error", zorder=1.9)
    if theory is not None:
        ax.plot(np.asarray(theory, dtype=float), **THEORY)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    tidy(ax, "small")
    return figure


def plot_sweep(sweep: Sweep) -> Figure:
    """Draw a sweep; see :meth:`~decoupled_descent.training.sweeps.Sweep.plot`."""
    figure, axes = new_figure(columns=2)
    errors, behind = axes[0]
    for index, run in enumerate(sweep.runs):
        error = run.train_error.numpy()
        (line,) = errors.plot(error, color="0.6", lw=0.9, zorder=2)
        if index == sweep.best_index:
            name = f"winner: {sweep.names[index]}"
            line.set(color=COLOURS["train"], lw=2.0, zorder=3, label=name)
        if run.stop_reason.is_failure:
            errors.plot(len(error) - 1, error[-1], "x", color="0.4", ms=5)
    errors.set(xlabel="step", ylabel="train error")
    highest_start = max(float(run.train_error[0]) for run in sweep.runs)
    errors.set_ylim(min(0.0, float(sweep.best.train_error.min())), 1.15 * highest_start)
    tidy(errors, "small")

    differences = [sweep.difference(index) for index in range(len(sweep.runs))]
    order = sorted(range(len(differences)), key=lambda k: -differences[k].mean)
    for place, index in enumerate(order):  # the winner on top
        mean, margin = differences[index].mean, Z95 * differences[index].stderr
        colour = COLOURS["train"] if index == sweep.best_index else "0.4"
        behind.errorbar(mean, place, xerr=margin, fmt="o", ms=4, capsize=2, color=colour)
    behind.set_yticks(range(len(order)), [sweep.names[k] for k in order], fontsize="small")
    behind.set(xlabel="error minus that of the winner, on the same rows")
    tidy(behind)
    return figure


def plot_learning_curve(
    rows: Sequence[int], errors: Sequence[float], stderrs: Sequence[float], name: str = "error"
) -> Figure:
    """Draw errors over the number of rows, with 95 % intervals; the last one is extrapolated.

    Args:
        rows: Numbers of rows, ascending.
        errors: The error for each number of rows.
        stderrs: Their standard errors.
        name: The name of the error.

    Returns:
        A figure.

    Example:
        >>> figure = plot_learning_curve([50, 100, 200], [0.5, 0.4, 0.35], [0.05, 0.04, 0.04])
        >>> figure.axes[0].get_xlabel()
        'training rows'
    """
    figure, axes = new_figure()
    ax = axes[0, 0]
    colour, margins = COLOURS["train"], Z95 * np.asarray(stderrs)
    ax.errorbar(
        rows[:-1], errors[:-1], yerr=margins[:-1], fmt="o-", ms=5, lw=1.8, capsize=3, color=colour,
        label="estimated, with its 95 % interval",
    )  # fmt: skip
    ax.errorbar(
        rows[-1:], errors[-1:], yerr=margins[-1:], fmt="o", ms=5, capsize=3, color=colour,
        markerfacecolor="white", label="extrapolated",
    )  # fmt: skip
    ax.plot(rows[-2:], errors[-2:], ls=":", lw=1.8, color=colour)
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(rows), [str(count) for count in rows])
    ax.minorticks_off()
    ax.set(xlabel="training rows", ylabel=name)
    tidy(ax, "small")
    return figure
