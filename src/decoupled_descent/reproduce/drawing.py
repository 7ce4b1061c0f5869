"""Figures made of error panels: one row per panel, one column per algorithm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decoupled_descent import plotting
from decoupled_descent.reproduce.experiment import Curves
from decoupled_descent.reproduce.summary import NAMES

#: Medians that span more than this factor go on a logarithmic axis.
WIDE = 200.0


def error_grid(
    curves: Curves,
    title: str,
    loss: str,
    headings: Mapping[str, str] | None = None,
    side_by_side: bool = False,
    columns: int = 3,
) -> Figure:
    """Draw all error curves of an experiment.

    Args:
        curves: By ``"panel/algorithm/kind"``, each of shape (replications, T).
        title: Of the whole figure.
        loss: The label of the vertical axes.
        headings: What to write for the names of panels; the names themselves by default.
        side_by_side: Fill rows of ``columns`` panels instead of one row per panel; for a single
            algorithm.
        columns: Panels per row when side by side.

    Returns:
        The figure. Panels of one row share their vertical axis.
    """
    names = [tuple(name.split("/")[:2]) for name in curves if name.endswith("/train")]
    algorithms = list(dict.fromkeys(algorithm for _, algorithm in names))
    width = min(columns, len(names)) if side_by_side else len(algorithms)
    figure, axes = plotting.new_figure(columns=width, rows=-(-len(names) // width))
    for row in axes:
        for ax in row[1:]:
            ax.sharey(row[0])
    for ax, (panel, algorithm) in zip(axes.flat, names, strict=False):
        heading = (headings or {}).get(panel, _readable(panel))
        if not side_by_side:
            heading = f"{heading}: {NAMES.get(algorithm, algorithm)}"
        _errors(ax, curves, f"{panel}/{algorithm}", heading, loss)
        ax.label_outer()
    for ax in axes.flat[len(names) :]:
        ax.remove()
    for row in axes:
        _scale(list(row), curves, names)
    figure.suptitle(title)
    return figure
