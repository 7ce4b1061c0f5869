"""The error of the estimate against its cost: model classes below each other, sizes beside."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.versus.records import Record
from benchmarks.versus.summary import ORDER, SIZES, Group, cells, families, groups

#: Ours are orange, what serves every model is blue, formulas for linear models are green.
STYLES = {
    "hold-out 10 %": ("v", "#0072B2"), "hold-out 20 %": ("^", "#0072B2"),
    "hold-out 30 %": (">", "#0072B2"), "5-fold": ("s", "#0072B2"), "10-fold": ("D", "#0072B2"),
    "leave-one-out": ("X", "#0072B2"), "ALO": ("d", "#009E73"), "PSIS-LOO": ("8", "#CC79A7"),
    "GCV": ("P", "#009E73"), "RidgeCV": ("*", "#009E73"),
    "path GCV": ("P", "#009E73"), "path leave-one-out": ("*", "#009E73"),
    "Bellec–Tan": ("h", "#009E73"), "DD": ("o", "#D55E00"),
    "Newton": ("D", "#D55E00"), "own": ("p", "#D55E00"),
}  # fmt: skip
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 300)


def draw(records: Iterable[Record]) -> Figure:
    """Ways as points: cost to the right, error of the estimate upward."""
    found = cells(records)
    names = families(found)
    sizes = [n for n in SIZES if any(place[2] == n for place in found)]
    shape = len(names), len(sizes)
    figure = Figure(figsize=(1 + 2.6 * shape[1], 0.9 + 2.3 * shape[0]), layout="constrained")
    grid = figure.subplots(*shape, squeeze=False, sharey=True, sharex="row")
    shown = set()
    for family, row in zip(names, grid, strict=True):
        for n, axis in zip(sizes, row, strict=True):
            shown |= panel(axis, groups(found, family, n))
            axis.set_title(f"n = {n}", fontsize="medium")
        row[0].set_ylabel(family.replace(", ", ",\n").replace(" with", "\nwith"))
    for axis in grid[-1]:
        axis.set_xlabel("cost, in single fits")
    figure.supylabel("error of the estimate, in errors of a test set of n rows", fontsize="medium")
    legend(figure, shown)
    return figure


def panel(axis: Axes, ways: list[Group]) -> set[str]:
    """One model class and size; returns the ways shown."""
    most = max((group.problems for group in ways), default=0)
    shown = set()
    for group in ways:
        if group.way not in STYLES:
            continue
        mark, colour = STYLES[group.way]
        look = {"color": colour, "ms": 6, "elinewidth": 0.8}
        if group.problems < most:  # hollow: not tried on all problems
            look["mfc"] = "none"
        axis.errorbar(group.cost, group.miss.value, group.miss.stderr, fmt=mark, **look)
        shown.add(group.way)
    if not shown:
        axis.set_visible(False)
    axis.axhline(1, color="0.6", lw=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", ylim=(0.1, 5))
    axis.spines[["top", "right"]].set_visible(False)
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(FixedLocator(TICKS))
        scale.set_minor_locator(NullLocator())
        scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return shown


def legend(figure: Figure, shown: set[str]) -> None:
    """What the marks mean, above all panels."""
    marks = [
        Line2D([], [], ls="", marker=STYLES[way][0], color=STYLES[way][1], label=way)
        for way in ORDER
        if way in shown
    ]
    figure.legend(handles=marks, loc="outside upper center", ncols=6, frameon=False)
