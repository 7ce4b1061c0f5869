"""How the model was found: curve, candidates and settings."""

import dataclasses

from decoupled_descent.app.report.training import how_found
from tests.app.report.examples import classification, regression
from tests.app.report.reading import Page


def test_values_that_all_candidates_share_are_listed_once():
    tried = [{"lr": 0.1 * k, "damping": 0.9, "chosen": k == 2} for k in (1, 2, 3)]
    page = Page(how_found(classification(candidates=tried)))
    assert "The same for all: damping = 0.9." in page.text
    assert "2 ✓ chosen 0.2" in page.text


def test_the_curve_is_over_steps_or_over_ridges():
    data = regression()
    assert "The error while training" in Page(how_found(data)).text
    newton = dataclasses.replace(data, settings={"method": "newton", "ridge": 1.0})
    text = Page(how_found(newton)).text
    assert "The error for different ridges" in text
    assert "from strong to weak" in text


def test_more_steps_may_help_only_where_the_last_is_the_best():
    assert "more steps may improve" in Page(how_found(classification())).text
    assert "more steps may improve" not in Page(how_found(classification(best_step=3))).text
    uncorrected = Page(how_found(classification(corrected=False))).text
    assert "falls while rows are memorised" in uncorrected
