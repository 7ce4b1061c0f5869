"""The paragraph for a paper: what was done, what was found, and when there is none."""

import dataclasses

from decoupled_descent.app.report.data import Origin
from decoupled_descent.app.report.page import render_section
from tests.app.report.examples import changed, classification, regression
from tests.app.report.reading import Page

ORIGIN = Origin("2030-01-01 12:00 UTC", "1.2.3", "abc", "decoupled train fruit.csv --target kind")


def written(data):
    return Page(render_section("methods", dataclasses.replace(data, origin=ORIGIN))).text


def test_a_model_of_numbers():
    text = written(regression())
    assert "We predicted progression from 10 features with decoupled-descent 1.2.3 [1]." in text
    assert "All 442 rows were used for training, and none were held out." in text
    assert "among 2 candidates" in text
    assert "The R² on new rows is" in text
    assert "the verdict “caution”" in text
    assert "arXiv 2604.27883" in text


def test_groups_and_weights_are_stated():
    text = written(changed(regression(), is_grouped=True, is_weighted=True))
    assert "fitted without its group" in text
    assert "Rows count by their weights." in text


def test_a_class_is_counted():
    names = ["well", "ill"]
    text = written(
        classification(
            count=2,
            rows=100,
            classes=names,
            labels=["ill"] * 30 + ["well"] * 70,
            predictions=["well"] * 100,
        )
    )
    assert "(“ill” in 30 of 100 rows)" in text


def test_numbers_that_nobody_should_quote_have_no_paragraph():
    doubtful = changed(regression(), diagnosis={"verdict": "do not trust", "findings": []})
    assert written(doubtful) == ""
    assert render_section("methods", regression()) == ""  # made from nothing that is known
