"""Figures in the style of the paper: blue train errors, orange test errors, medians and bands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decoupled_descent.files import written_whole

if TYPE_CHECKING:  # matplotlib is imported where something is drawn
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Blue and orange ("vermilion") of the Okabe-Ito palette, safe for colour-blind readers.
COLOURS = {"train": "#0072B2", "test": "#D55E00"}

#: Okabe-Ito colours for the terms of a Taylor expansion.
TERMS = ("#CC79A7", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#D55E00")

#: How predictions of the theory are drawn: dashed, so that the curve below stays visible.
THEORY: dict[str, Any] = {"color": "black", "lw": 1.2, "ls": (0, (4, 4))}
THEORY["label"] = "state evolution"


def new_figure(columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, np.ndarray]:
    """Make a figure that needs no display; return it and its axes, shape (rows, columns).

    ``options`` are passed on to ``Figure.subplots``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from decoupled_descent.plotting.notebook import NotebookFigure

    figure = NotebookFigure(figsize=(4.6 * columns, 3.4 * rows), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def tidy(ax: Axes, legend: str | None = None) -> None:
    """Draw a light grid and a legend of the given size; remove the frame at the top and right."""
    ax.grid(alpha=0.25, lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False, fontsize=legend)


def plain_log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2, 5, or, beyond three decades, at powers of ten only."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    if high < 1000 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def quantiles(values: Any, levels: Sequence[float]) -> np.ndarray:
    """Quantiles over replications (axis 0), some of which may be infinite because they diverged.

    Like ``numpy.quantile``, except that a quantile between a number and infinity is infinite, not
    NaN.

    Example:
        >>> quantiles([1.0, 2.0, np.inf], [0.0, 0.5, 0.75])
        array([ 1.,  2., inf])
    """
    values = np.asarray(values, dtype=float)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        result = np.quantile(values, levels, axis=0)
    higher: np.ndarray = np.quantile(values, levels, axis=0, method="higher")
    return np.where(np.isnan(result), higher, result)


def error_band(ax: Axes, curves: Any, kind: str) -> None:
    """Draw the median, interquartile band and dotted extremes of error curves.

    ``curves`` has shape (replications, T), or (T,) for a single run, which gets no band. Infinite
    values are left out. ``kind``, ``"train"`` or ``"test"``, sets colour and label.
    """
    values = np.atleast_2d(np.asarray(curves, dtype=float))
    steps, colour = np.arange(values.shape[1]), COLOURS[kind]
    drawn = quantiles(values, [0.5, 0.25, 0.75, 0.0, 1.0])
    median, low, high, *extremes = np.where(np.isfinite(drawn), drawn, np.nan)
    ax.plot(steps, median, color=colour, lw=1.8, label=f"{kind} error")
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
    """Draw train and test errors, shape (replications, T) or (T,), and a prediction, shape (T,).

    ``loss`` labels the vertical axis. Without a legend, :func:`figure_legend` draws a common one.
    """
    if test is not None:
        error_band(ax, test, "test")
    error_band(ax, train, "train")
    if theory is not None:
        ax.plot(np.asarray(theory, dtype=float), **THEORY)
    ax.set(title=title, xlabel="step", ylabel=loss)
    ax.set_xlim(left=0)
    tidy(ax, "medium" if legend else None)


def taylor_panel(ax: Axes, terms: Any, title: str = "") -> None:
    """Draw the Taylor terms of every step's change of the test error, and the change itself.

    ``terms`` is what :func:`decoupled_descent.theory.taylor_terms` returns.
    """
    ax.axhline(0, color="0.6", lw=0.8)
    for index, (name, values) in enumerate(terms.terms.items()):
        if float(values.abs().max()) > 0:
            ax.plot(np.asarray(values), lw=1.5, color=TERMS[index], label=name.replace("_", " "))
    ax.plot(np.diff(np.asarray(terms.test_error)), **THEORY | {"label": "actual change"})
    ax.set(title=title, xlabel="step", ylabel="change of the test error per step")
    ax.set_xlim(left=0)
    ax.locator_params(axis="x", integer=True)
    tidy(ax, "small")


def figure_legend(figure: Figure, theory: bool = False) -> None:
    """Explain colours, bands, dots and, with ``theory``, dashes below all panels."""
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
    """Save a figure in every format, each file whole or not at all, and return the files.

    A suffix ``.png``, ``.svg`` or ``.pdf`` of the path is replaced by each format's.
    """
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".png", ".svg", ".pdf") else path
    targets = [Path(f"{stem}.{suffix}") for suffix in formats]
    for target, suffix in zip(targets, formats, strict=True):
        with written_whole(target) as partial:
            figure.savefig(partial, format=suffix)
    return targets
