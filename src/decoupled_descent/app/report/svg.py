"""The report's figures as hand-written SVG: small, and coloured by the page's style sheet."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from decoupled_descent.app.report.text import number, power_of_ten
from decoupled_descent.checks import Z95

#: The most points that one figure draws.
MOST_POINTS = 2000

#: Values beyond this, or within its inverse on a logarithmic axis, are drawn at the edge.
LARGEST = 1e300

#: Errors that span more than this factor are drawn on a logarithmic axis.
WIDE_SPAN = 50.0


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
        held = np.clip(np.asarray(values, dtype=float), self.low, self.high)
        low, high = self.low, self.high
        if self.log:
            held, low, high = np.log10(held), math.log10(low), math.log10(high)
        positions: np.ndarray = self.start + (held - low) / (high - low) * (self.end - self.start)
        return positions

    def ticks(self, most: int = 6) -> list[float]:
        """Round values between the ends, at most about ``most``."""
        if not self.log:
            found = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(self.low, self.high)
            slack = 1e-9 * (self.high - self.low)
            return [float(t) for t in found if self.low - slack <= t <= self.high + slack]
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        ordinary = self.low >= 1e-3 and self.high < 1e5
        for leads in ((1, 2, 5), (1,)) if ordinary else ((1,),):
            values = [float(f"{lead}e{k}") for k in range(first, last + 1) for lead in leads]
            inside = [v for v in values if self.low <= v <= self.high]
            if len(inside) <= most:
                break
        return inside[:: -(-len(inside) // most)]


def span(values: Any, start: float, end: float, log: bool = False) -> Axis:
    """Make an axis that holds all finite values, with a margin; from 0 to 1 if there are none."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return Axis(0.0, 1.0, start, end)
    low, high = (float(v) for v in np.clip([finite.min(), finite.max()], -LARGEST, LARGEST))
    if log:
        return Axis(max(low, 1 / LARGEST) / 1.2, high * 1.2, start, end, True)
    margin = 0.05 * (high - low)
    if not margin > 1e-9 * max(abs(low), abs(high)):
        margin = 0.5 * abs(low) or 0.5
    return Axis(low - margin, high + margin, start, end)


def error_curve(
    error: Any, stderr: Any, best: int, name: str, title: str, over: str = "step"
) -> tuple[str, bool]:
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
    parts = [_frame(across, down, over, name, whole=True)]
    for run in _finite_runs(np.isfinite(low) & np.isfinite(high)):
        around = np.append(x[run], x[run][::-1])
        band = _path(around, np.append(down(high)[run], down(low)[run][::-1]))
        kind, end = ("band", "Z") if run.stop - run.start > 1 else ("whisker", "")
        parts.append(f'<path class="{kind}" d="{band}{end}"/>')
    for run in _finite_runs(np.isfinite(error[steps])):
        parts.append(f'<path class="line" d="{_path(x[run], y[run])}"/>')
    parts.append(_mark(float(across(best)), float(down(error[best])), f"{over} {best}"))
    return _svg("curve", "wide", (560, 300), title, parts), log


def learning_curve(rows: Any, errors: Any, intervals: Any, name: str, title: str) -> str:
    """Draw errors with the ends of their intervals over the number of rows.

    The last one is extrapolated.
    """
    counts, error = np.asarray(rows, dtype=float), np.asarray(errors, dtype=float)
    low, high = np.asarray(intervals, dtype=float).T
    across = Axis(counts.min() / 1.15, counts.max() * 1.15, 72, 546, log=True)
    down = span(np.concatenate([low, high]), 254, 46)
    x, y = across(counts), down(error)
    ends = zip(x, down(low), down(high), strict=True)
    parts = [_frame(across, down, "training rows", name, ticks=counts.tolist())]
    parts += [f'<path class="whisker" d="M{a:.1f} {b:.1f}V{c:.1f}"/>' for a, b, c in ends]
    parts.append(f'<path class="line" d="{_path(x[:-1], y[:-1])}"/>')
    parts.append(f'<path class="reference" d="{_path(x[-2:], y[-2:])}"/>')
    parts += [
        f'<circle class="best" cx="{a:.1f}" cy="{b:.1f}" r="4.5"/>'
        for a, b in zip(x, y, strict=True)
    ]
    return _svg("rows", "wide", (560, 300), title, parts)


def scatter(
    x: Any, y: Any, names: tuple[str, str], title: str, id: str, same: bool = False,
    trend: np.ndarray | None = None,
) -> str:  # fmt: skip
    """Draw points with the line y = x (and one range for both axes) if ``same``, else y = 0.

    ``trend`` are points (m, 2) of a line drawn over the cloud; ``id`` is unique in the page.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    both = np.concatenate([x, y])
    across = span(both if same else x, 76, 426)
    down = span(both if same else np.append(y, 0.0), 332, 30)
    ends = np.array([across.low, across.high])
    line = _path(across(ends), down(ends if same else 0 * ends))
    dots = "".join(f'<path d="M{point}h0"/>' for point in _points(across(x), down(y)))
    parts = [
        _frame(across, down, *names, most=5),
        f'<g class="dots{" many" if len(x) > 500 else ""}">{dots}</g>',
        f'<path class="reference" d="{line}"/>',
    ]
    if trend is not None and len(trend) > 1:
        path = _path(across(trend[:, 0]), down(trend[:, 1]))
        parts.append(f'<path class="trend" d="{path}"/>')
    return _svg(id, "square", (440, 376), title, parts)


def chart(
    x: Any, y: Any, names: tuple[str, str], title: str, id: str,
    ends: tuple[tuple[float, float], tuple[float, float]], dots: bool = False, top: float = 1.0,
) -> str:  # fmt: skip
    """Draw a line of shares up to ``top``, with dots if wanted, and a dashed line between ends."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) > MOST_POINTS // 4:
        chosen = np.unique(np.round(np.linspace(0, len(x) - 1, MOST_POINTS // 4)).astype(int))
        x, y = x[chosen], y[chosen]
    across, down = Axis(0, top, 76, 426), Axis(0, top, 332, 30)
    from_, to = np.array(ends, dtype=float)
    reference = _path(across(np.array([from_[0], to[0]])), down(np.array([from_[1], to[1]])))
    parts = [
        _frame(across, down, *names, most=5),
        f'<path class="reference" d="{reference}"/>',
        f'<path class="line" d="{_path(across(x), down(y))}"/>',
    ]
    if dots:
        marks = "".join(f'<path d="M{point}h0"/>' for point in _points(across(x), down(y)))
        parts.append(f'<g class="dots bins">{marks}</g>')
    return _svg(id, "square", (440, 376), title, parts)


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


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "M" + "L".join(_points(x, y))


def _frame(
    across: Axis, down: Axis, x_name: str, y_name: str, most: int = 6, whole: bool = False,
    ticks: list[float] | None = None,
) -> str:  # fmt: skip
    """Grid, ticks and the names of the axes.

    ``whole`` keeps horizontal ticks to integers, ``ticks`` are given ones.
    """
    parts = []
    right, bottom = across.end, down.start
    along = across.ticks(most) if ticks is None else ticks
    ticks, labels, y_unit = _labelled(down.ticks(most), down.log)
    for tick, label in zip(ticks, labels, strict=True):
        y = f"{float(down(tick)):.1f}"
        parts.append(f'<path class="grid" d="M{across.start} {y}H{right}"/>')
        parts.append(f'<text class="end" x="{across.start - 7}" y="{y}" dy=".35em">{label}</text>')
    along = [t for t in along if not whole or (t >= 0 and t == int(t))]
    ticks, labels, x_unit = _labelled(along, across.log)
    for tick, label in zip(ticks, labels, strict=True):
        x = f"{float(across(tick)):.1f}"
        parts.append(f'<path class="tick" d="M{x} {bottom}v5"/>')
        parts.append(f'<text class="middle" x="{x}" y="{bottom + 8}" dy=".8em">{label}</text>')
    x_name, y_name = html.escape(x_name + x_unit), html.escape(y_name + y_unit)
    parts.append(f'<path class="axis" d="M{across.start} {bottom}H{right}"/>')
    parts.append(f'<text class="end name" x="{right}" y="{bottom + 40}">{x_name}</text>')
    parts.append(f'<text class="name" x="4" y="16">{y_name}</text>')
    return "".join(parts)


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


def _mark(x: float, y: float, best: str) -> str:
    """A dot at the best step, with a line to its name."""
    if not math.isfinite(y):
        return ""
    side = "start" if x < 120 else "end" if x > 488 else "middle"
    return (
        f'<path class="mark" d="M{x:.1f} 46V254"/><circle class="best" cx="{x:.1f}" cy="{y:.1f}" '
        f'r="4.5"/><text class="{side} best-name" x="{x:.1f}" y="40">best: {best}</text>'
    )


def _svg(id: str, shape: str, size: tuple[int, int], title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'class="{shape}" aria-labelledby="{id}-title"><title id="{id}-title">{html.escape(title)}'
        f"</title>{''.join(parts)}</svg>"
    )
