"""How the model was trained: curve, candidates and settings."""

from decoupled_descent.app.report.page import render_section
from tests.app.report.examples import changed, classification, regression
from tests.app.report.reading import Page


def training(data):
    return render_section("training", data)


def test_values_that_all_candidates_share_are_listed_once():
    tried = [{"lr": 0.1 * k, "damping": 0.9, "chosen": k == 2} for k in (1, 2, 3)]
    page = Page(training(classification(candidates=tried)))
    assert "The same for all: damping = 0.9." in page.text
    assert "2 ✓ chosen 0.2" in page.text


def test_the_curve_is_over_steps_or_over_ridges():
    data = regression()
    assert "The error while training" in Page(training(data)).text
    text = Page(training(changed(data, leaves_rows_out=True))).text
    assert "The error for different ridges" in text
    assert "from strong to weak" in text


def test_more_steps_may_help_only_where_the_last_is_the_best():
    assert "more steps may improve" in Page(training(classification())).text
    assert "more steps may improve" not in Page(training(classification(best_step=3))).text
    uncorrected = Page(training(classification(corrected=False))).text
    assert "falls while rows are memorised" in uncorrected
