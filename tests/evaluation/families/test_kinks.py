"""Linear models whose loss has a kink, without each row."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVC, LinearSVR

import decoupled_descent as dd
from decoupled_descent.evaluation.families.kinks import smoothed
from tests.evaluation.families.problems import check_near, classes, numbers

X, y = numbers(100)


@pytest.mark.parametrize(
    "model",
    [
        LinearSVR(tol=1e-8, max_iter=100000, random_state=0),
        LinearSVR(loss="squared_epsilon_insensitive", dual=False, epsilon=0.1),
        QuantileRegressor(alpha=0.01),
    ],
    ids=repr,
)
def test_near_to_literal_refits(model):
    check_near(model, X, y)


@pytest.mark.parametrize(
    "options", [{}, {"loss": "hinge", "max_iter": 1000000}, {"penalty": "l1", "dual": False}]
)
def test_decisions(options):
    for count in (2, 3):
        rows, labels = classes(90, count=count)
        model = LinearSVC(C=0.1, tol=1e-8, random_state=0, **options).fit(rows, labels)
        formula, every = (dd.evaluate(model, rows, labels, refits=m) for m in (0, 90))
        assert formula.how == "formula"
        assert np.mean(formula.predictions != every.predictions) <= 0.05


def test_a_smoothed_kink_has_the_jump_as_its_integral():
    errors = np.linspace(-1, 1, 2001)
    curvatures = smoothed(errors, np.full(2001, 3.0), 0.2)
    assert np.trapezoid(curvatures, errors) == pytest.approx(3.0, rel=0.02)
    assert errors[curvatures > 0].mean() == pytest.approx(0.2, abs=1e-3)
