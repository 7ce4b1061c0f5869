"""Figures made of error panels: one row per panel, one column per algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decoupled_descent.app.reproduce.summary import NAMES, Curves, written
from decoupled_descent.plotting import style

#: An axis must show the upper quartiles of the errors at this share of the steps.
STEPS = 0.95

#: If these quartiles reach this multiple of the start, the axis is logarithmic.
EXPLOSION = 10.0

#: An axis ends at this multiple of these quartiles, unless all runs stay below it. A few extreme
#: runs would squash a linear axis; they hardly matter to a logarithmic one.
ROOM_LINEAR, ROOM_LOG = 1.5, 20.0

#: No axis goes beyond this multiple of the starting errors.
CEILING = 1e12


def title(what: str, settings: Mapping[str, Any], *names: str) -> str:
    """A figure's title: what it shows, the named settings, and the number of runs.

    Example:
        >>> title("XOR", {"n": 500, "lr": 0.05, "replications": 12}, "n", "lr")
        'XOR: n = 500, η = 0.05, 12 runs'
    """
    values = [written(f"{name}={settings[name]:g}") for name in names]
    return f"{what}: {', '.join(values)}, {settings['replications']} runs"


def error_grid(
    curves: Curves,
    heading: str,
    loss: str,
    columns: int | None = None,
    share: bool = True,
    log: bool | None = None,
) -> Figure:
    """Draw curves by ``"panel/algorithm/kind"``, (replications, T) each, panel after panel.

    Each row has ``columns`` axes, by default one for each algorithm of a panel. Vertical axes are
    logarithmic if ``log`` says so, by default in rows where an error explodes.
    """
    names = [name.removesuffix("/train") for name in curves if name.endswith("/train")]
    panels = [name.split("/")[0] for name in names]
    algorithms = max(map(panels.count, panels))
    columns = min(columns or algorithms, len(names))
    rows = -(-len(names) // columns)
    figure, axes = style.new_figure(columns, rows, sharey="row" if share else False)
    for ax, name in zip(axes.flat, names, strict=False):
        panel, algorithm = name.split("/")
        parts = [written(panel), NAMES[algorithm] if algorithms > 1 else ""]
        train, test = (curves[f"{name}/{kind}"] for kind in ("train", "test"))
        theory = curves.get(f"{name}/state_evolution")
        prediction = None if theory is None else _finite(np.median(theory, axis=0))
        heading_here = ": ".join(filter(None, parts))
        style.error_panel(ax, train, test, heading_here, loss, prediction, legend=False)
        if f"{name}/state_evolution_train" in curves:
            own = _finite(np.median(curves[f"{name}/state_evolution_train"], axis=0))
            ax.plot(own, **(style.THEORY | {"label": None}))
        ax.set_xlim(0, train.shape[1])
        if share:
            ax.label_outer(remove_inner_ticks=False)
    together = columns if share else 1
    for start in range(0, len(names), together):
        here = names[start : start + together]
        _scale(list(axes.flat[start : start + len(here)]), curves, here, log)
    for ax in axes.flat[len(names) :]:
        ax.remove()
    style.figure_legend(figure, theory=any(n.endswith("/state_evolution") for n in curves))
    figure.suptitle(heading)
    return figure


def _scale(row: Sequence[Axes], curves: Curves, names: Sequence[str], log: bool | None) -> None:
    """Choose the vertical axes of a row from the quartiles, and say how many runs leave them."""
    errors_of = [np.stack([curves[f"{n}/{kind}"] for kind in ("train", "test")]) for n in names]
    quartiles = np.concatenate([style.quantiles(e, [0.75]) for errors in errors_of for e in errors])
    usual = float(max(quartiles[:, 0].max(), *np.nanquantile(_finite(quartiles), STEPS, axis=1)))
    highest = max(float(errors.max()) for errors in errors_of)
    start = max(float(errors[:, :, 0].max()) for errors in errors_of)
    logarithmic = usual > EXPLOSION * start if log is None else log
    top = min(highest, (ROOM_LOG if logarithmic else ROOM_LINEAR) * usual, CEILING * start)
    for ax, errors in zip(row, errors_of, strict=True):
        if top < highest:
            smallest = min(float(errors.min()) for errors in errors_of)
            ax.set_ylim(smallest / 1.5 if logarithmic else -0.04 * top, top)
        if logarithmic:
            ax.set_yscale("log")
            style.plain_log_ticks(ax.yaxis)
        outside = int((errors > top).any(axis=(0, 2)).sum())
        if outside:
            note = f"off the panel: {outside} of {errors.shape[1]} runs"
            text = ax.text(
                0.98, 0.97, note, transform=ax.transAxes, ha="right", va="top", fontsize=8
            )
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2})


def _finite(values: np.ndarray) -> np.ndarray:
    """The values with infinities, which no axis can show, replaced by NaN."""
    return np.where(np.isfinite(values), values, np.nan)
