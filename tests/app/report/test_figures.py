"""The report's figures: read back by their own ticks, they show what they were given."""

import re

import numpy as np
import pytest
from matplotlib.ticker import MaxNLocator

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.figures import round_values
from tests.app.report.examples import classification, regression


def drawing(source, index):
    """Figure number ``index``: its texts and paths as (class, data) and positions."""
    svg = re.findall(r"<svg.*?</svg>", source, re.DOTALL)[index]
    texts = re.findall(r'<text class="(\w+)" x="([\d.]+)" y="([\d.]+)" dy="[^"]*">([^<]*)', svg)
    written = [
        (k, float(x), float(y), t.replace("−", "-").replace(",", "")) for k, x, y, t in texts
    ]
    vertical = [(y, float(t)) for k, _, y, t in written if k == "end"]
    across = [(x, float(t)) for k, x, _, t in written if k == "middle"]
    return svg, across, vertical


def ruler(ticks, transform=lambda v: v):
    """From positions back to values, by the ticks that a reader would use."""
    positions, values = np.array(ticks).T
    slope, offset = np.polyfit(positions, transform(values), 1)
    return lambda position: slope * np.asarray(position) + offset


def points(svg, kind):
    path = re.search(rf'<path class="{kind}" d="M([^"Z]*)', svg)[1]
    return np.array([[float(v) for v in pair.split()] for pair in path.split("L")]).T


def test_curve_and_band_are_drawn_to_scale():
    svg, across, vertical = drawing(render_report(regression()), -1)
    step, value = ruler(across), ruler(vertical)
    error, stderr = regression().training.errors.numpy(), regression().training.stderrs.numpy()
    pixel = abs(value(1) - value(0))
    x, y = points(svg, "line")
    np.testing.assert_allclose(step(x), np.arange(len(error)), atol=0.02)
    np.testing.assert_allclose(value(y), error, atol=0.11 * pixel)
    _, band = points(svg, "band")
    both = np.concatenate([error + 1.96 * stderr, (error - 1.96 * stderr)[::-1]])
    np.testing.assert_allclose(value(band), both, atol=0.11 * pixel)
    dot = re.search(r'cx="([\d.]+)" cy="([\d.]+)"', svg)
    assert step(float(dot[1])) == pytest.approx(regression().training.best_step, abs=0.02)
    assert value(float(dot[2])) == pytest.approx(min(error), abs=0.11 * pixel)


def test_tiny_errors_have_a_unit():
    error = np.linspace(3e-5, 1e-5, 30)
    source = render_report(classification(errors=error, stderrs=error / 20))
    assert "estimated error (log loss), in units of 10⁻⁵" in source
    svg, _, vertical = drawing(source, -1)
    value = ruler(vertical)
    _, y = points(svg, "line")
    np.testing.assert_allclose(value(y), 1e5 * error, atol=0.11 * abs(value(1) - value(0)))


def test_errors_of_very_different_size_get_a_logarithmic_axis():
    error = list(10.0 ** np.linspace(2, -1, 30))
    source = render_report(classification(errors=error))
    svg, _, vertical = drawing(source, -1)
    value = ruler(vertical, np.log10)
    _, y = points(svg, "line")
    np.testing.assert_allclose(value(y), np.log10(error), atol=0.11 * abs(value(1) - value(0)))
    assert "The vertical axis is logarithmic" in source


def test_scatter_plots_are_drawn_to_scale():
    source = render_report(regression())
    true, predicted = (
        np.asarray(regression().rows.labels),
        np.asarray(regression().rows.predictions),
    )
    for index, (x, y) in enumerate([(true, predicted), (predicted, true - predicted)]):
        svg, across, vertical = drawing(source, index)
        right, up = ruler(across), ruler(vertical)
        found = re.findall(r'<path d="M([\d.]+) ([\d.]+)h0"/>', svg)
        positions = np.array(found, dtype=float)
        np.testing.assert_allclose(right(positions[:, 0]), x, atol=0.11 * abs(right(1) - right(0)))
        np.testing.assert_allclose(up(positions[:, 1]), y, atol=0.11 * abs(up(1) - up(0)))


@pytest.mark.parametrize("seed", range(20))
def test_ticks_are_those_of_matplotlib(seed):
    rng = np.random.default_rng(seed)
    low = float(rng.normal() * 10.0 ** rng.integers(-6, 7))
    high = low + float((0.1 + rng.random()) * 10.0 ** rng.integers(-2, 7) * max(1e-3, abs(low)))
    for most in (4, 5, 6):
        wanted = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
        slack = 1e-9 * (high - low)
        inside = wanted[(low - slack <= wanted) & (wanted <= high + slack)]
        np.testing.assert_allclose(round_values(low, high, most), inside, atol=slack)
