"""Figures made of error panels: one row per panel, one column per algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from decoupled_descent import plotting
from decoupled_descent.reproduce.experiment import Curves
from decoupled_descent.reproduce.summary import NAMES

#: An error that grows to this multiple of its start has exploded and needs a logarithmic axis.
EXPLOSION = 5.0


def error_grid(
    curves: Curves,
    title: str,
    loss: str,
    headings: Mapping[str, str] | None = None,
    columns: int | None = None,
    share: bool = True,
) -> Figure:
    """Draw all error curves of an experiment, panel after panel, algorithm after algorithm.

    Args:
        curves: By ``"panel/algorithm/kind"``, each of shape (replications, T).
        title: Of the whole figure.
        loss: The label of the vertical axes.
        headings: What to write for a panel's name; the name itself by default.
        columns: Panels per row; one per algorithm by default, so that a row is a panel.
        share: Whether the panels of a row share their vertical axis.

    Returns:
        The figure; rows in which an error explodes have a logarithmic axis.
    """
    names = [name.removesuffix("/train") for name in curves if name.endswith("/train")]
    algorithms = dict.fromkeys(name.split("/")[1] for name in names)
    columns = min(columns or len(algorithms), len(names))
    rows = -(-len(names) // columns)
    figure, axes = plotting.new_figure(columns, rows, sharey="row" if share else False)
    for ax, name in zip(axes.flat, names, strict=False):
        panel, algorithm = name.split("/")
        heading = (headings or {}).get(panel, panel.replace("=", " = "))
        if len(algorithms) > 1:
            heading = ": ".join(filter(None, (heading, NAMES.get(algorithm, algorithm))))
        train, test = (curves[f"{name}/{kind}"] for kind in ("train", "test"))
        theory = curves.get(f"{name}/state_evolution")
        prediction = None if theory is None else _finite(np.median(theory, axis=0))
        plotting.error_panel(ax, train, test, heading, loss, prediction, legend=False)
        ax.set_xlim(0, train.shape[1])
        if share:
            ax.label_outer(remove_inner_ticks=False)
    for start in range(0, len(names), columns):
        here = names[start : start + columns]
        if explodes(curves, here):
            for ax in axes.flat[start : start + len(here)]:
                ax.set_yscale("log")
    for ax in axes.flat[len(names) :]:
        ax.remove()
    plotting.figure_legend(figure, theory=any(n.endswith("/state_evolution") for n in curves))
    figure.suptitle(title)
    return figure


def explodes(curves: Curves, names: Sequence[str]) -> bool:
    """Whether some error of these panels, extremes included, grows far beyond its start."""
    found = [curves[f"{name}/{kind}"] for name in names for kind in ("train", "test")]
    return any(np.nanmax(_finite(errors)) > EXPLOSION * errors[:, 0].max() for errors in found)


def _finite(values: np.ndarray) -> np.ndarray:
    """The values with infinities, which no axis can show, replaced by NaN."""
    return np.where(np.isfinite(values), values, np.nan)
