"""The error of the estimate against its cost, one panel per model class."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.versus.records import Record
from benchmarks.versus.summary import ORDER, SIZES, Place, Row, cells, groups

#: Ours are orange, what serves every model is blue, formulas for linear models are green.
STYLES = {
    "hold-out 10 %": ("v", "#0072B2"), "hold-out 20 %": ("^", "#0072B2"),
    "hold-out 30 %": (">", "#0072B2"), "5-fold": ("s", "#0072B2"), "10-fold": ("D", "#0072B2"),
    "leave-one-out": ("X", "#0072B2"), "ALO": ("d", "#009E73"), "PSIS-LOO": ("8", "#CC79A7"),
    "GCV": ("P", "#009E73"), "RidgeCV": ("*", "#009E73"),
    "path GCV": ("P", "#009E73"), "path leave-one-out": ("*", "#009E73"),
    "Bellec–Tan": ("h", "#009E73"), "DD": ("o", "#D55E00"), "ODD": ("s", "#D55E00"),
    "Newton": ("D", "#D55E00"), "own": ("p", "#D55E00"),
}  # fmt: skip
SHADES = dict(zip(SIZES, (0.3, 0.5, 0.75, 1.0), strict=True))
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def draw(records: Iterable[Record]) -> Figure:
    """Ways as points: cost to the right, error of the estimate upward."""
    found = cells(records)
    families = list(dict.fromkeys(place[0] for place in found))
    figure = Figure(figsize=(10, 3.3 * (len(families) // 2 + 1)), layout="constrained")
    axes = figure.subplots(len(families) // 2 + 1, 2, squeeze=False).ravel()
    shown = {way for axis, family in zip(axes, families, strict=False)
             for way in panel(axis, family, found)}  # fmt: skip
    for axis in axes[len(families) :]:
        axis.set_axis_off()
    legend(axes[len(families)], shown)
    for axis in axes[: len(families) : 2]:
        axis.set_ylabel("rms error of the estimate\n(1: that of a test set of n rows)")
    return figure


def panel(axis: Axes, family: str, found: dict[Place, list[Row]]) -> set[str]:
    """One model class, dark where there are many rows; returns the ways shown."""
    shown = set()
    for n in SIZES:
        of_size = groups(found, family, n)
        most = max((group.problems for group in of_size), default=0)
        for group in of_size:
            if group.way not in STYLES:
                continue
            mark, colour = STYLES[group.way]
            look = {"color": colour, "alpha": SHADES[n], "ms": 7, "elinewidth": 1}
            if group.problems < most:  # hollow: not tried on all problems
                look["mfc"] = "none"
            axis.errorbar(group.cost, group.miss.value, group.miss.stderr, fmt=mark, **look)
            shown.add(group.way)
    axis.axhline(1, color="0.6", lw=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", title=family, xlabel="processor time, in single fits")
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(FixedLocator(TICKS))
        scale.set_minor_locator(NullLocator())
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return shown


def legend(axis: Axes, shown: set[str]) -> None:
    """What the marks mean, in a place of its own."""
    for way in ORDER:
        if way in shown:
            mark, colour = STYLES[way]
            axis.plot([], [], mark, color=colour, ms=7, label=way)
    for n, shade in SHADES.items():
        axis.plot([], [], "o", color="black", alpha=shade, ms=7, label=f"n = {n}")
    axis.legend(loc="center", ncols=2, frameon=False)
