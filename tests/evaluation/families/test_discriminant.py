"""Discriminant analysis without each row."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

import decoupled_descent as dd
from tests.evaluation.families.problems import check_exact, classes

A, label = classes(60, count=3)
B, two = classes(60)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"solver": "lsqr"},
        {"solver": "lsqr", "shrinkage": 0.3},
        {"solver": "eigen"},
        {"priors": [0.2, 0.3, 0.5]},
    ],
)
def test_linear(options):
    check_exact(LinearDiscriminantAnalysis(**options), A, label)
    if "priors" not in options:
        check_exact(LinearDiscriminantAnalysis(**options), B, two)


@pytest.mark.parametrize("options", [{}, {"reg_param": 0.3}, {"priors": [0.2, 0.3, 0.5]}])
def test_quadratic(options):
    check_exact(QuadraticDiscriminantAnalysis(**options), A, label)


def test_the_shares_of_the_classes_are_kept_in_decisions():
    rows = np.random.default_rng(0).normal(size=(20, 1)) * 1e-3
    labels = np.arange(20) % 2
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1.0).fit(rows, labels)
    assert dd.evaluate(model, rows, labels).estimate("accuracy").value > 0.2


def test_estimated_shrinkage_is_left_to_folds():
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(A, label)
    assert "shrinkage is estimated" in dd.evaluate(model, A, label).reason


def test_other_rows_are_refused():
    with pytest.raises(ValueError, match="not the rows"):
        dd.evaluate(QuadraticDiscriminantAnalysis().fit(A, label), A[::-1], label)


def test_a_column_without_variation_is_left_to_folds():
    """Its covariance has no inverse; scikit-learn leaves the direction out."""
    rows = np.concatenate([A, np.ones((len(A), 1))], 1)
    evaluation = dd.evaluate(LinearDiscriminantAnalysis().fit(rows, label), rows, label)
    assert evaluation.how == "folds"
    assert "no inverse" in evaluation.reason
