"""Figures in the paper's style: blue train, red test, medians, bands and dotted extremes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # matplotlib is imported where something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue and vermilion of the Okabe-Ito palette: told apart by every kind of colour vision.
COLOURS = {"train": "#0072B2", "test": "#D55E00"}

#: Okabe-Ito colours for the terms of a Taylor expansion.
TERMS = ("#CC79A7", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#D55E00")

#: How predictions are drawn: over the curves, yet letting them show between the dashes.
THEORY: dict[str, Any] = {
    "color": "black",
    "lw": 1.2,
    "ls": (0, (4, 4)),
    "label": "state evolution",
}


def new_figure(columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, np.ndarray]:
    """Make a figure that needs no display.

    Args:
        columns: Panels side by side.
        rows: Panels on top of each other.
        options: Passed on to ``Figure.subplots``.

    Returns:
        The figure and its axes, shape (rows, columns).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * columns, 3.4 * rows), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def quantiles(values: Any, levels: Sequence[float]) -> np.ndarray:
    """Quantiles over replications, which may be infinite where runs diverged.

    Args:
        values: Shape (replications, …), finite or +∞.
        levels: Between 0 and 1.

    Returns:
        Shape (levels, …): the linear interpolation of ``numpy.quantile``, which makes NaN of
        infinities; here what lies between a number and infinity is infinite.

    Example:
        >>> quantiles([1.0, 2.0, np.inf], [0.0, 0.5, 0.75])
        array([ 1.,  2., inf])
    """
    ordered = np.sort(np.asarray(values, dtype=float), axis=0)
    found = []
    for level in levels:
        position = level * (len(ordered) - 1)
        below = int(position)
        share, low = position - below, ordered[below]
        if share > 0:
            high = ordered[below + 1]
            finite = np.isfinite(high)
            rise = np.subtract(high, low, out=np.zeros_like(low), where=finite)
            low = np.where(finite, low + share * rise, np.inf)
        found.append(low)
    return np.stack(found)


def error_band(ax: Axes, curves: Any, kind: str, label: str | None = None) -> None:
    """Draw replicated error curves: median, interquartile band, dotted extremes.

    Args:
        ax: Where.
        curves: Errors, shape (replications, T), or (T,) for a single run; infinite ones, of runs
            that diverged, are left out.
        kind: ``"train"`` or ``"test"``, which sets the colour.
        label: For the legend; ``"<kind> error"`` by default.
    """
    values = np.atleast_2d(np.asarray(curves, dtype=float))
    steps, colour = np.arange(values.shape[1]), COLOURS[kind]
    drawn = quantiles(values, [0.5, 0.25, 0.75, 0.0, 1.0])
    median, low, high, *extremes = np.where(np.isfinite(drawn), drawn, np.nan)
    ax.plot(steps, median, color=colour, lw=1.8, label=label or f"{kind} error")
    if len(values) > 1:
        ax.fill_between(steps, low, high, color=colour, alpha=0.25, lw=0)
        for extreme in extremes:
            ax.plot(steps, extreme, color=colour, lw=0.9, ls=":")


def error_panel(
    ax: Axes,
    train: Any,
    test: Any = None,
    title: str = "",
    loss: str = "error",
    theory: Any = None,
    legend: bool = True,
) -> None:
    """Draw train and test error over the steps of one algorithm.

    Args:
        ax: Where.
        train: Train errors, shape (replications, T) or (T,).
        test: Test errors of the same shape, or None.
        title: Of the panel.
        loss: The label of the vertical axis.
        theory: What state evolution predicts, shape (T,), or None.
        legend: Whether the panel has its own legend; see :func:`figure_legend` for a common one.
    """
    if test is not None:
        error_band(ax, test, "test")
    error_band(ax, train, "train")
    if theory is not None:
        ax.plot(np.asarray(theory, dtype=float), **THEORY)
    ax.set(title=title, xlabel="step", ylabel=loss)
    ax.set_xlim(left=0)
    ax.grid(alpha=0.25, lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False)


def taylor_panel(ax: Axes, terms: Any, title: str = "") -> None:
    """Draw what changes the test error at every step, term by term, and the change itself.

    Args:
        ax: Where.
        terms: :class:`~decoupled_descent.state_evolution.TaylorTerms`.
        title: Of the panel.
    """
    ax.axhline(0, color="0.6", lw=0.8)
    for index, (name, values) in enumerate(terms.terms.items()):
        if float(values.abs().max()) > 0:
            ax.plot(np.asarray(values), lw=1.5, color=TERMS[index], label=name.replace("_", " "))
    ax.plot(np.diff(np.asarray(terms.test_error)), **THEORY | {"label": "actual change"})
    ax.set(title=title, xlabel="step", ylabel="change of the test error per step")
    ax.set_xlim(left=0)
    ax.grid(alpha=0.25, lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")


def figure_legend(figure: Figure, theory: bool = False) -> None:
    """Explain colours, bands and dots once for all panels, below them.

    Args:
        figure: Made by :func:`new_figure`.
        theory: Whether some panel shows what state evolution predicts.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = [
        Line2D([], [], color=colour, lw=1.8, label=f"{kind} error (median)")
        for kind, colour in COLOURS.items()
    ]
    entries += [
        Patch(color="0.5", alpha=0.4, lw=0, label="quartiles"),
        Line2D([], [], color="0.4", lw=0.9, ls=":", label="extremes"),
    ]
    if theory:
        entries.append(Line2D([], [], **THEORY))
    columns = min(len(entries), int(figure.get_figwidth() // 1.8))
    figure.legend(handles=entries, loc="outside lower center", ncols=columns, frameon=False)


def save_figure(figure: Figure, path: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Save a figure, first to a temporary file and then by renaming.

    Args:
        figure: What.
        path: Where; a suffix ``.png``, ``.svg`` or ``.pdf`` is replaced by each format's.
        formats: File formats.

    Returns:
        The files written.
    """
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".png", ".svg", ".pdf") else path
    written = []
    for suffix in formats:
        target = Path(f"{stem}.{suffix}")
        partial = target.with_name(f".{target.name}.partial")
        try:
            figure.savefig(partial, format=suffix)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        written.append(target)
    return written
