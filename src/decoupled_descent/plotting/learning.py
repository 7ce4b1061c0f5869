"""The figure of a learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from decoupled_descent.checks import Z95
from decoupled_descent.plotting.style import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
