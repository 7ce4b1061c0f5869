"""The report's figures as lists of marks, which ``templates/svg.html`` draws.

The figures are small, and coloured by the page's style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from decoupled_descent.app.report.text import number, power_of_ten
from decoupled_descent.checks import Z95

#: The most points that one figure draws.
MOST_POINTS = 2000

#: Values beyond this, or within its inverse on a logarithmic axis, are drawn at the edge.
FARTHEST = 1e300

#: Errors that span more than this factor are drawn on a logarithmic axis.
WIDE_SPAN = 50.0


class Stroke(NamedTuple):
    """A line or an area."""

    kind: str  # its class in the style sheet
    commands: Markup  # numbers and letters only
    tag: str = "path"


class Label(NamedTuple):
    """A text."""

    kind: str
    x: str
    y: str
    words: str
    shift: str = ""  # downwards
    tag: str = "text"


class Circle(NamedTuple):
    """A dot of a curve."""

    x: str
    y: str
    tag: str = "circle"


class Dots(NamedTuple):
    """A cloud of points."""

    kind: str
    points: list[str]
    tag: str = "dots"


Mark = Stroke | Label | Circle | Dots


class Drawing(NamedTuple):
    """One figure; ``name`` is unique in the page."""

    name: str
    shape: str  # "wide" or "square"
    size: tuple[int, int]
    title: str
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Axis:
    """Maps values from ``low`` to ``high`` to positions from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, values: Any) -> np.ndarray:
        """Positions of values. Values outside the range are moved to its edge; NaN stays NaN."""
        inside = np.clip(np.asarray(values, dtype=float), self.low, self.high)
        low, high = self.low, self.high
        if self.log:
            inside, low, high = np.log10(inside), math.log10(low), math.log10(high)
        positions: np.ndarray = self.start + (inside - low) / (high - low) * (self.end - self.start)
        return positions

    def ticks(self, most: int = 6) -> list[float]:
        """Round values between the ends, at most about ``most``."""
        if not self.log:
            return round_values(self.low, self.high, most)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        ordinary = self.low >= 1e-3 and self.high < 1e5
        for leads in ((1, 2, 5), (1,)) if ordinary else ((1,),):
            values = [float(f"{lead}e{k}") for k in range(first, last + 1) for lead in leads]
            inside = [v for v in values if self.low <= v <= self.high]
            if len(inside) <= most:
                break
        return inside[:: -(-len(inside) // most)]


def round_values(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about ``most`` of them, and at least two.

    Example:
        >>> round_values(0.13, 0.88, 5)
        [0.2, 0.4, 0.6, 0.8]
    """
    exponent = math.floor(math.log10((high - low) / most))
    steps = [
        float(f"{lead}e{k}") for k in (exponent - 1, exponent, exponent + 1) for lead in (1, 2, 5)
    ]
    slack = 1e-9 * (high - low)
    wide = next(k for k, step in enumerate(steps) if step * most >= high - low - slack)
    step = steps[0]
    for step in reversed(steps[: wide + 1]):
        if math.floor(high / step) > math.ceil(low / step):
            break
    inside = range(math.ceil((low - slack) / step), math.floor((high + slack) / step) + 1)
    return [float(f"{k * step:.15g}") for k in inside]


def span(values: Any, start: float, end: float, log: bool = False) -> Axis:
    """Make an axis that holds all finite values, with a margin; from 0 to 1 if there are none."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return Axis(0.0, 1.0, start, end)
    low, high = (float(v) for v in np.clip([finite.min(), finite.max()], -FARTHEST, FARTHEST))
    if log:
        return Axis(max(low, 1 / FARTHEST) / 1.2, high * 1.2, start, end, True)
    margin = 0.05 * (high - low)
    if not margin > 1e-9 * max(abs(low), abs(high)):
        margin = 0.5 * abs(low) or 0.5
    return Axis(low - margin, high + margin, start, end)


def error_curve(
    error: Any, stderr: Any, best: int, name: str, title: str, over: str = "step"
) -> tuple[Drawing, bool]:
    """Draw the train error with its 95 % band and the best step; say if the axis is logarithmic."""
    error, margin = np.asarray(error, dtype=float), Z95 * np.asarray(stderr, dtype=float)
    even = np.linspace(0, len(error) - 1, min(len(error), MOST_POINTS // 2)).round().astype(int)
    steps = np.unique(np.append(even, best))
    low, high = (error - margin)[steps], (error + margin)[steps]
    finite = error[np.isfinite(error)]
    log = bool(finite.size and finite.min() > 0 and finite.max() > WIDE_SPAN * finite.min())
    across = Axis(0, len(error) - 1, 72, 546) if len(error) > 1 else Axis(-0.5, 0.5, 72, 546)
    shown = finite if log else np.concatenate([finite, low, high])
    down = span(shown, 254, 46, log)
    x, y = across(steps), down(error[steps])
    marks = _frame(across, down, over, name, integers=True)
    for run in _finite_runs(np.isfinite(low) & np.isfinite(high)):
        around = np.append(x[run], x[run][::-1])
        band = _path(around, np.append(down(high)[run], down(low)[run][::-1]))
        is_area = run.stop - run.start > 1
        marks.append(Stroke("band", Markup(f"{band}Z")) if is_area else Stroke("whisker", band))
    for run in _finite_runs(np.isfinite(error[steps])):
        marks.append(Stroke("line", _path(x[run], y[run])))
    marks += _best_mark(float(across(best)), float(down(error[best])), f"{over} {best}")
    return Drawing("curve", "wide", (560, 300), title, marks), log


def learning_curve(rows: Any, errors: Any, intervals: Any, name: str, title: str) -> Drawing:
    """Draw errors with the ends of their intervals over the number of rows.

    The last one is extrapolated.
    """
    counts = np.asarray(rows, dtype=float)
    across = Axis(counts.min() / 1.15, counts.max() * 1.15, 72, 546, log=True)
    marks = _last_expected(counts, errors, intervals, across, "training rows", name)
    return Drawing("rows", "wide", (560, 300), title, marks)


def errors_over_time(errors: Any, intervals: Any, name: str, title: str) -> Drawing:
    """Draw errors of pieces in order, with the ends of their intervals; the last is expected."""
    places = np.arange(1.0, len(errors) + 1)
    across = Axis(0.5, len(errors) + 0.5, 72, 546)
    what = "pieces of the rows, in time"
    marks = _last_expected(places, errors, intervals, across, what, name)
    return Drawing("time", "wide", (560, 300), title, marks)


def _last_expected(
    places: Any, errors: Any, intervals: Any, across: Axis, what: str, name: str
) -> list[Any]:
    """The marks of errors with the ends of their intervals; the last one is expected."""
    low, high = np.asarray(intervals, dtype=float).T
    down = span(np.concatenate([low, high]), 254, 46)
    x, y = across(places), down(np.asarray(errors, dtype=float))
    ends = zip(x, down(low), down(high), strict=True)
    marks = _frame(across, down, what, name, ticks=places.tolist())
    marks += [Stroke("whisker", Markup(f"M{a:.1f} {b:.1f}V{c:.1f}")) for a, b, c in ends]
    marks.append(Stroke("line", _path(x[:-1], y[:-1])))
    marks.append(Stroke("reference", _path(x[-2:], y[-2:])))
    return [*marks, *(Circle(f"{a:.1f}", f"{b:.1f}") for a, b in zip(x, y, strict=True))]


def scatter(
    x: Any, y: Any, names: tuple[str, str], title: str, name: str, same: bool = False,
    trend: np.ndarray | None = None,
) -> Drawing:  # fmt: skip
    """Draw points with the line y = x (and one range for both axes) if ``same``, else y = 0.

    ``trend`` are points (m, 2) of a line drawn over the cloud; ``name`` is unique in the page.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    both = np.concatenate([x, y])
    across = span(both if same else x, 76, 426)
    down = span(both if same else np.append(y, 0.0), 332, 30)
    ends = np.array([across.low, across.high])
    marks = _frame(across, down, *names, most=5)
    marks.append(Dots("dots many" if len(x) > 500 else "dots", _points(across(x), down(y))))
    marks.append(Stroke("reference", _path(across(ends), down(ends if same else 0 * ends))))
    if trend is not None and len(trend) > 1:
        marks.append(Stroke("trend", _path(across(trend[:, 0]), down(trend[:, 1]))))
    return Drawing(name, "square", (440, 376), title, marks)


def chart(
    x: Any, y: Any, names: tuple[str, str], title: str, name: str,
    ends: Sequence[tuple[float, float]], dots: bool = False, top: float = 1.0,
    band: tuple[Any, Any] = ((), ()), high: float | None = None,
) -> Drawing:  # fmt: skip
    """Draw a line of shares up to ``top``, with dots if wanted, and a dashed line by its ends.

    ``band`` has the lower and upper ends of an area around the line, and ``high`` is the end of the
    vertical axis if it is another one.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    low, up = (np.asarray(one, dtype=float) for one in band)
    if len(x) > MOST_POINTS // 4:
        chosen = np.unique(np.round(np.linspace(0, len(x) - 1, MOST_POINTS // 4)).astype(int))
        x, y = x[chosen], y[chosen]
        low, up = (one[chosen] if len(one) else one for one in (low, up))
    across, down = Axis(0, top, 76, 426), Axis(0, high or top, 332, 30)
    along, height = np.array(ends, dtype=float).T
    reference = _path(across(along), down(height))
    marks = _frame(across, down, *names, most=5)
    if len(low):
        around = np.append(across(x), across(x)[::-1])
        area = _path(around, np.append(down(up), down(low)[::-1]))
        marks.append(Stroke("band", Markup(f"{area}Z")))
    marks += [Stroke("reference", reference), Stroke("line", _path(across(x), down(y)))]
    if dots:
        marks.append(Dots("dots bins", _points(across(x), down(y))))
    return Drawing(name, "square", (440, 376), title, marks)


def bin_means(x: Any, y: Any, bins: int = 10) -> np.ndarray:
    """Average points in bins of equal count along x; returns mean x and mean y, shape (bins, 2).

    Example:
        >>> bin_means([1, 2, 3, 4], [0, 2, 4, 6], bins=2)
        array([[1.5, 1. ],
               [3.5, 5. ]])
    """
    points = np.stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)], 1)
    parts = np.array_split(points[np.argsort(points[:, 0], kind="stable")], bins)
    return np.array([part.mean(0) for part in parts if len(part)])


def _finite_runs(finite: np.ndarray) -> list[slice]:
    """The slices of consecutive finite values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], finite, [0]])))
    return [slice(a, b) for a, b in edges.reshape(-1, 2)]


def _points(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Write positions to a tenth of a pixel."""
    pairs = zip(np.round(x, 1), np.round(y, 1), strict=True)
    return [f"{a:.1f} {b:.1f}".replace(".0 ", " ").removesuffix(".0") for a, b in pairs]


def _path(x: np.ndarray, y: np.ndarray) -> Markup:
    return Markup("M" + "L".join(_points(x, y)))


def _frame(
    across: Axis, down: Axis, x_name: str, y_name: str, most: int = 6, integers: bool = False,
    ticks: list[float] | None = None,
) -> list[Mark]:  # fmt: skip
    """Grid, ticks and the names of the axes.

    ``integers`` leaves out horizontal ticks that are not whole numbers, ``ticks`` replaces them.
    """
    marks: list[Mark] = []
    left, right, bottom = across.start, across.end, down.start
    along = across.ticks(most) if ticks is None else ticks
    ticks, labels, y_unit = _labelled(down.ticks(most), down.log)
    for tick, label in zip(ticks, labels, strict=True):
        y = f"{float(down(tick)):.1f}"
        marks.append(Stroke("grid", Markup(f"M{left} {y}H{right}")))
        marks.append(Label("end", f"{left - 7}", y, label, ".35em"))
    along = [t for t in along if not integers or (t >= 0 and t == int(t))]
    ticks, labels, x_unit = _labelled(along, across.log)
    for tick, label in zip(ticks, labels, strict=True):
        x = f"{float(across(tick)):.1f}"
        marks.append(Stroke("tick", Markup(f"M{x} {bottom}v5")))
        marks.append(Label("middle", x, f"{bottom + 8}", label, ".8em"))
    marks.append(Stroke("axis", Markup(f"M{left} {bottom}H{right}")))
    marks.append(Label("end name", f"{right}", f"{bottom + 40}", x_name + x_unit))
    marks.append(Label("name", "4", "16", y_name + y_unit))
    return marks


def _labelled(ticks: list[float], log: bool) -> tuple[list[float], list[str], str]:
    """Ticks, their labels, and the unit of the labels, for the name of the axis."""
    if log:
        return ticks, [number(t, digits=3) for t in ticks], ""
    largest = max((abs(t) for t in ticks), default=0.0)
    exponent = math.floor(math.log10(largest)) if largest and not 1e-3 <= largest < 1e6 else 0
    scaled = [t / 10.0**exponent for t in ticks]
    step = min(np.diff(scaled), default=1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    labels = [f"{t:,.{decimals}f}".replace("-", "−") for t in np.round(scaled, decimals) + 0.0]
    return ticks, labels, f", in units of {power_of_ten(exponent)}" if exponent else ""


def _best_mark(x: float, y: float, best: str) -> list[Mark]:
    """A dot at the best step, with a line to its name."""
    if not math.isfinite(y):
        return []
    side = "start" if x < 120 else "end" if x > 488 else "middle"
    return [
        Stroke("mark", Markup(f"M{x:.1f} 46V254")),
        Circle(f"{x:.1f}", f"{y:.1f}"),
        Label(f"{side} best-name", f"{x:.1f}", "40", f"best: {best}"),
    ]
