"""Figures made of error panels: one row per panel, one column per algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decoupled_descent.plotting import style as plotting
from decoupled_descent.reproduce.experiment import Curves
from decoupled_descent.reproduce.summary import NAMES

#: An error that grows to this multiple of its start has exploded and needs a logarithmic axis.
EXPLOSION = 10.0

#: Extremes this many times above every quartile are a few runs' own, and may leave the panel.
OUTLIER = 20.0

#: No axis goes beyond this multiple of the starting errors.
CEILING = 1e12


def error_grid(
    curves: Curves,
    title: str,
    loss: str,
    headings: Mapping[str, str] | None = None,
    columns: int | None = None,
    share: bool = True,
    log: bool | None = None,
) -> Figure:
    """Draw all error curves of an experiment, panel after panel, algorithm after algorithm.

    Args:
        curves: By ``"panel/algorithm/kind"``, each of shape (replications, T).
        title: Of the whole figure.
        loss: The label of the vertical axes.
        headings: What to write for a panel's name; the name itself by default.
        columns: Axes per row; by default as many as a panel has algorithms, one row per panel.
        share: Whether the panels of a row share their vertical axis.
        log: Whether the vertical axes are logarithmic; by default in rows where an error explodes.

    Returns:
        The figure.
    """
    names = [name.removesuffix("/train") for name in curves if name.endswith("/train")]
    panels = [name.split("/")[0] for name in names]
    algorithms = max(map(panels.count, panels))
    columns = min(columns or algorithms, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plotting.new_figure(columns, rows, sharey="row" if share else False)
    for ax, name in zip(axes.flat, names, strict=False):
        panel, algorithm = name.split("/")
        heading = (headings or {}).get(panel, panel.replace("=", " = "))
        if algorithms > 1:
            heading = ": ".join(filter(None, (heading, NAMES.get(algorithm, algorithm))))
        train, test = (curves[f"{name}/{kind}"] for kind in ("train", "test"))
        theory = curves.get(f"{name}/state_evolution")
        prediction = None if theory is None else _finite(np.median(theory, axis=0))
        plotting.error_panel(ax, train, test, heading, loss, prediction, legend=False)
        ax.set_xlim(0, train.shape[1])
        if share:
            ax.label_outer(remove_inner_ticks=False)
    together = columns if share else 1
    for start in range(0, len(names), together):
        here = names[start : start + together]
        _scale(list(axes.flat[start : start + len(here)]), curves, here, log)
    for ax in axes.flat[len(names) :]:
        ax.remove()
    plotting.figure_legend(figure, theory=any(n.endswith("/state_evolution") for n in curves))
    figure.suptitle(title)
    return figure


def _scale(row: Sequence[Axes], curves: Curves, names: Sequence[str], log: bool | None) -> None:
    """Choose the vertical axes of a row: logarithmic after an explosion, not ruled by outliers."""
    found = {n: np.stack([curves[f"{n}/{kind}"] for kind in ("train", "test")]) for n in names}
    quartiles = [plotting.quantiles(e, [0.75])[0] for v in found.values() for e in v]
    usual = float(np.nanmax(_finite(np.stack(quartiles))))
    peak = max(float(errors.max()) for errors in found.values())
    start = max(float(errors[:, :, 0].max()) for errors in found.values())
    top = min(2 * usual if peak > OUTLIER * usual else peak, CEILING * start)
    for ax, errors in zip(row, found.values(), strict=True):
        logarithmic = top > EXPLOSION * start if log is None else log
        if top < peak:
            lowest = min(float(errors.min()) for errors in found.values())
            ax.set_ylim(lowest / 1.5 if logarithmic else -0.04 * top, top)
        if logarithmic:
            ax.set_yscale("log")
        outside = int((errors > top).any(axis=(0, 2)).sum())
        if outside:
            note = f"off the panel: {outside} of {errors.shape[1]} runs"
            ax.text(0.98, 0.97, note, transform=ax.transAxes, ha="right", va="top", fontsize=8)


def _finite(values: np.ndarray) -> np.ndarray:
    """The values with infinities, which no axis can show, replaced by NaN."""
    return np.where(np.isfinite(values), values, np.nan)
