"""The picture of a learning curve."""

import numpy as np
import pytest

from decoupled_descent.checks import Z95
from decoupled_descent.plotting.learning import plot_learning_curve

ROWS, ERRORS, STDERRS = [50, 100, 200, 400], [0.5, 0.4, 0.35, 0.33], [0.05, 0.04, 0.03, 0.06]


def test_errors_intervals_and_the_extrapolated_one():
    (ax,) = plot_learning_curve(ROWS, ERRORS, STDERRS, "log loss").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("training rows", "log loss")
    measured, extrapolated = ax.containers
    for bars, part in ((measured, slice(0, 3)), (extrapolated, slice(3, 4))):
        points, _, (lines,) = bars.lines
        np.testing.assert_array_equal(points.get_xdata(), ROWS[part])
        np.testing.assert_array_equal(points.get_ydata(), ERRORS[part])
        ends = np.array([segment[:, 1] for segment in lines.get_segments()])
        half = Z95 * np.array(STDERRS[part])
        np.testing.assert_allclose(ends.T, [ERRORS[part] - half, ERRORS[part] + half])
    assert extrapolated.lines[0].get_markerfacecolor() == "white"
    assert measured.lines[0].get_markerfacecolor() != "white"


def test_every_size_has_a_tick_with_its_number():
    (ax,) = plot_learning_curve(ROWS, ERRORS, STDERRS).axes
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().tolist() == pytest.approx(ROWS)
    assert [label.get_text() for label in ax.get_xticklabels()] == list(map(str, ROWS))
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["estimated, with its 95 % interval", "extrapolated"]
