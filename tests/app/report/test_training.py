"""How the model was trained: curve, candidates and settings."""

from decoupled_descent.app.report.page import render_section
from tests.app.report.examples import classification, regression
from tests.app.report.reading import Page


def training(data):
    return render_section("training", data)


def test_values_that_all_candidates_share_are_listed_once():
    tried = [{"lr": 0.1 * k, "damping": 0.9, "chosen": k == 2} for k in (1, 2, 3)]
    page = Page(training(classification(candidates=tried)))
    assert "The same for all: damping = 0.9." in page.text
    assert "2 ✓ chosen 0.2" in page.text


def test_the_curve_is_over_ridges():
    text = Page(training(regression())).text
    assert "The error for different ridges" in text
    assert "from strong to weak" in text
