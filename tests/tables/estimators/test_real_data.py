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


def halves(name, noise=0):
    """Six random halves, with so many columns of noise beside those of the data set."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = np.c_[X, np.random.default_rng(0).normal(size=(len(X), noise))]
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
        ("digits", dd.DecoupledClassifier, 0.9),
        ("diabetes", dd.DecoupledRegressor, 0.35),
    ],
)
def test_estimates_agree_with_the_other_half(name, kind, score):
    rate = 0.25 if kind is dd.DecoupledRegressor else 1.0
    model = kind(method="orthogonal", lr=rate, damping=0.95, ridge=1.0, max_iter=100)
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
        model = kind(method="orthogonal", max_iter=150).fit(X, y)
        assert len(model.candidates_) in (4, 5)  # half the rate only after a fast descent
        assert abs(judge(model, X_test, y_test)[0]) < 3 * 1.3


def test_columns_of_noise_fool_gradient_descent_only():
    """The 30 columns of the breast cancer data and 200 of noise for 284 rows."""
    means, corrected = {}, {"damping": 0.95, "ridge": 1.0}
    for method, settings in (("orthogonal", corrected), ("gradient", {})):
        result = []
        for X, X_test, y, y_test in halves("breast_cancer", noise=200)[:4]:
            model = dd.DecoupledClassifier(method=method, lr=1.0, max_iter=100, **settings)
            result.append(judge(model.fit(X, y), X_test, y_test)[0])
        means[method] = np.mean(result)
    assert abs(means["orthogonal"]) < 3 * 1.3 / 2
    assert means["gradient"] < -3 * 1.3 / 2
