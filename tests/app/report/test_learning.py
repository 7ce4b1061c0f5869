"""Would more rows help? The figure, and the sentence."""

import pytest

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.data import ErrorsByRows
from decoupled_descent.app.report.learning import precision, sentence
from decoupled_descent.app.report.page import render_section
from decoupled_descent.tables.estimators.learning_curve import LearningCurve
from tests.app.report.examples import changed, classification, regression
from tests.app.report.reading import Page


def curve(change, stderr, now=0.5):
    errors = (0.8, 0.6, 0.55, now, now + change)
    return LearningCurve((50, 100, 150, 200, 400), errors, (0.05,) * 5, change, stderr, "log loss")


@pytest.mark.parametrize(
    ("change", "stderr", "start"),
    [
        (-0.05, 0.01, "Twice as many rows would help: with 400 rows instead of 200"),
        (-0.001, 0.001, "Twice as many rows would hardly help"),
        (-0.001, 0.05, "Twice as many rows would probably help little, but that is not certain"),
        (-0.02, 0.05, "Twice as many rows may help, but that is not certain"),
    ],
)
def test_the_sentence_depends_on_the_interval(change, stderr, start):
    assert sentence(ErrorsByRows.of(curve(change, stderr), roots=False)).startswith(start)


def test_roots_of_squared_errors_have_the_units_of_the_target():
    forecast = ErrorsByRows.of(curve(-0.14, 0.02), roots=True)
    assert forecast.errors[-2:] == pytest.approx((0.5**0.5, 0.6))
    assert forecast.change == pytest.approx(0.6 - 0.5**0.5)
    assert forecast.change_stderr == pytest.approx(0.02 / (2 * 0.5**0.5))  # d√e = de/(2√e)


def test_the_figure():
    assert render_section("more_rows", regression()) == ""
    reason = render_section("more_rows", changed(regression(), more_rows="a < b"))
    assert reason.strip() == "<p>a &lt; b</p>"
    data = changed(regression(), more_rows=ErrorsByRows.of(curve(-0.05, 0.01), roots=False))
    page = Page(render_report(data))
    assert "Would more rows help?" in page.text
    assert "0.45" in page.text


def test_how_many_rows_an_accuracy_needs():
    known = changed(classification(rows=100), score_interval=(0.7, 0.82))
    assert "± 6.0 points. With about 400 rows" in precision(known)
    precise = changed(classification(), score_interval=(0.8, 0.85))
    assert precision(precise) == "The accuracy is known to ± 2.5 points."
    assert precision(regression()) == ""
