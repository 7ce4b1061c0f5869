"""Measures by name: a table with intervals, which warns if it is not to be trusted."""

from decoupled_descent.app.report.data import Measure
from decoupled_descent.app.report.page import render_section
from tests.app.report.examples import classification, regression
from tests.app.report.reading import Page

AREA = Measure("AUC", "how often", 0.8123, (0.7512, 0.8741))
FOUND = Measure("sensitivity", "found", 0.5, (0.4, 0.6), True)
EMPTY = Measure("positive predictive value", "right", float("nan"), (float("nan"),) * 2, True)


def test_a_table_of_measures():
    data = classification(2, measures=[AREA, FOUND, EMPTY])
    text = Page(render_section("measures", data)).text
    assert "AUC 0.812 0.751 to 0.874 how often" in text
    assert "sensitivity 50.0 % 40.0 % to 60.0 % found" in text
    assert "positive predictive value undefined % no interval" in text


def test_no_measures_no_section():
    assert render_section("measures", regression()) == ""


def test_the_area_below_the_curve_is_the_measure():
    probabilities = [[0.3, 0.7], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]]
    data = classification(
        2, rows=4, labels=["class 1", "class 0"] * 2, predictions=["class 1", "class 0"] * 2,
        probabilities=probabilities, measures=[AREA],
    )  # fmt: skip
    text = Page(render_section("thresholds", data)).text
    assert "in 81.2 % (95 % interval 75.1 % to 87.4 %) of all pairs" in text
