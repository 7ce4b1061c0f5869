"""The error of the estimate against its cost, one panel per model class."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.versus.records import Record
from benchmarks.versus.summary import SIZES, Group, cells, groups

OURS = {"DD", "ODD", "Newton", "own"}
MARKS = ("o", "s", "D")


def draw(records: Iterable[Record]) -> Figure:
    """Ways as points: cost to the right, error of the estimate upward."""
    found = cells(records)
    families = list(dict.fromkeys(place[0] for place in found))
    figure = Figure(figsize=(10, 3.4 * ((len(families) + 1) // 2)), layout="constrained")
    axes = figure.subplots((len(families) + 1) // 2, 2, squeeze=False).ravel()
    for axis, family in zip(axes, families, strict=False):
        panel(axis, family, found)
    for axis in axes[len(families) :]:
        axis.set_axis_off()
    for row in range(0, len(axes), 2):
        axes[row].set_ylabel("rms error of the estimate,\nin errors of a test set of n rows")
    return figure


def panel(axis: Axes, family: str, found: dict) -> None:
    """One model class; the marks are sizes."""
    labelled: set[str] = set()
    for n, mark in zip(SIZES, MARKS, strict=True):
        shown = [group for group in groups(found, family, n) if group.way != "one fit"]
        if not shown:
            continue
        axis.plot([], [], mark, color="0.4", ms=5, label=f"n = {n}")
        for group in shown:
            point(axis, group, mark, group.way not in labelled)
            labelled.add(group.way)
    axis.axhline(1, color="0.7", lw=0.8, zorder=0)
    axis.set(xscale="log", yscale="log", title=family, xlabel="processor time, in single fits")
    axis.legend(frameon=False, fontsize=8, loc="upper right")


def point(axis: Axes, group: Group, mark: str, label: bool) -> None:
    colour = "#D55E00" if group.way in OURS else "#0072B2"
    axis.errorbar(
        group.cost, group.miss.value, group.miss.stderr, fmt=mark, color=colour, ms=5, lw=0.8
    )
    if label:
        axis.annotate(
            group.way, (group.cost, group.miss.value), (4, 3), textcoords="offset points",
            fontsize=7, color=colour,
        )  # fmt: skip
