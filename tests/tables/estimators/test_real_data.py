"""Estimates on the data sets that come with scikit-learn, against the half that was left out."""

import math

import numpy as np
import pytest
from sklearn import datasets
from sklearn.model_selection import train_test_split

import decoupled_descent as dd

SPLITS = 6
#: Three standard errors of a mean over the splits, if single ones spread by 1.3.
BOUND = 3 * 1.3 / math.sqrt(SPLITS)


def halves(name):
    """Six random halves."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return [train_test_split(X, y, test_size=0.5, random_state=k) for k in range(SPLITS)]


def z(estimate, stderr, values):
    """How far an estimate is from the mean of held-out values, which has its own error."""
    return (estimate - values.mean()) / math.hypot(stderr, values.std() / math.sqrt(len(values)))


def judge(model, X_test, y_test):
    """z of the error and of the accuracy; None for a regressor's."""
    if isinstance(model, dd.DecoupledRegressor):
        losses = (model.predict(X_test) - y_test) ** 2
        return z(model.estimated_test_error_, model.estimated_test_error_stderr_, losses), None
    proba = model.predict_proba(X_test)
    losses = -np.log(proba[np.arange(len(y_test)), y_test])
    right = (proba.argmax(1) == y_test).astype(float)
    return (
        z(model.estimated_test_error_, model.estimated_test_error_stderr_, losses),
        z(model.estimated_accuracy_, model.estimated_accuracy_stderr_, right),
    )


@pytest.mark.parametrize(
    ("name", "kind", "score"),
    [
        ("breast_cancer", dd.DecoupledClassifier, 0.94),
        ("wine", dd.DecoupledClassifier, 0.93),
        pytest.param("digits", dd.DecoupledClassifier, 0.9, marks=pytest.mark.slow),
        ("diabetes", dd.DecoupledRegressor, 0.35),
    ],
)
def test_estimates_agree_with_the_other_half(name, kind, score):
    model = kind(features="linear", ridge=1.0)
    result, scores = [], []
    for X, X_test, y, y_test in halves(name):
        result.append(judge(model.fit(X, y), X_test, y_test))
        scores.append(model.score(X_test, y_test))
    assert np.mean(scores) > score
    assert abs(np.mean([error for error, _ in result])) < BOUND
    if result[0][1] is not None:
        assert abs(np.mean([accuracy for _, accuracy in result])) < BOUND


def test_settings_that_were_chosen_are_honest_too():
    for name, kind in (("wine", dd.DecoupledClassifier), ("diabetes", dd.DecoupledRegressor)):
        X, X_test, y, y_test = halves(name)[0]
        model = kind(features=["linear", "rbf(1)"]).fit(X, y)
        assert len(model.candidates_) > 4
        assert abs(judge(model, X_test, y_test)[0]) < 3 * 1.3
