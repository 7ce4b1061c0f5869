"""Families with a formula: one Newton step without each row, and near to literal refits."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    QuantileRegressor,
    RidgeClassifier,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import decoupled_descent as dd
from tests.evaluation.families.problems import by_refits, classes, numbers
from tests.oracles.left_out import one_step

X, y = numbers(100)
POSITIVE = np.exp(0.3 * y)
A, two = classes(100)
B, three = classes(99, count=3)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, 100)
GROUPS = np.repeat(np.arange(25), 4)
EXACT = {"tol": 1e-9, "max_iter": 10000}

#: Models with the labels that they suit, and how far the formula may be from literal
#: leave-one-out, in standard errors. Those with kinks are less near.
REGRESSORS = [
    (RidgeCV([0.1, 1, 10]), y, 0.05),
    (BayesianRidge(), y, 0.05),
    (Lasso(0.1), y, 0.1),
    (ElasticNet(0.1), y, 0.1),
    (LassoCV(), y, 0.15),
    (ElasticNetCV(), y, 0.15),
    (HuberRegressor(tol=1e-8, max_iter=1000), y, 0.15),
    (PoissonRegressor(alpha=0.01, tol=1e-9), POSITIVE, 0.05),
    (GammaRegressor(alpha=0.01, tol=1e-9), POSITIVE, 0.05),
    (TweedieRegressor(power=1.5, alpha=0.01, tol=1e-9), POSITIVE, 0.05),
    (TweedieRegressor(power=0, alpha=0.01, tol=1e-9), y, 0.05),
    (SVR(), y, 0.3),
    (LinearSVR(tol=1e-8, max_iter=100000, random_state=0), y, 0.3),
    (LinearSVR(loss="squared_epsilon_insensitive", dual=False, epsilon=0.1), y, 0.1),
    (QuantileRegressor(alpha=0.01), y, 0.6),
]
CLASSIFIERS = [
    (LogisticRegression(**EXACT), 0.1),
    (LogisticRegression(C=0.1, class_weight="balanced", **EXACT), 0.1),
    (LogisticRegression(C=np.inf, **EXACT), 0.4),
    (LogisticRegression(l1_ratio=0.5, solver="saga", C=0.3, **EXACT), 0.1),
    (LogisticRegression(fit_intercept=False, **EXACT), 0.1),
]
DECIDERS = [RidgeClassifier(2.0), LinearSVC(C=0.1, tol=1e-8), SVC(), SVC(kernel="linear", C=0.1)]


def gap(model, rows, labels, weights=None, groups=None):
    """The error by formula minus that of literal refits, in standard errors."""
    formula = dd.evaluate(model, rows, labels, weights, groups, refits=0)
    assert formula.how == "formula"
    literal = dd.evaluate(model, rows, labels, weights, groups, refits=len(rows))
    return (formula.error - literal.error) / literal.stderr


@pytest.mark.parametrize(("model", "labels", "near"), REGRESSORS, ids=lambda one: repr(one)[:50])
def test_regressors_are_near_to_literal_leave_one_out(model, labels, near):
    assert abs(gap(model.fit(X, labels), X, labels)) < near
    assert abs(gap(model.fit(X, labels), X, labels, groups=GROUPS)) < 2 * near
    model.fit(X, labels, sample_weight=WEIGHTS)
    assert abs(gap(model, X, labels, WEIGHTS)) < 2 * near


@pytest.mark.parametrize(("model", "near"), CLASSIFIERS, ids=lambda one: repr(one)[:70])
def test_classifiers_are_near_to_literal_leave_one_out(model, near):
    for rows, labels in ((A, two), (B, three)):
        assert abs(gap(model.fit(rows, labels), rows, labels)) < near
        assert abs(gap(model.fit(rows, labels), rows, labels, groups=GROUPS[: len(rows)])) < 2 * near
        weights = WEIGHTS[: len(rows)]
        model.fit(rows, labels, sample_weight=weights)
        assert abs(gap(model, rows, labels, weights)) < 2 * near


def test_liblinear_penalises_its_intercept():
    for share in (0, 1):
        model = LogisticRegression(
            solver="liblinear", l1_ratio=share, C=0.3, intercept_scaling=2, tol=1e-9
        )
        assert abs(gap(model.fit(A + 1, two), A + 1, two)) < 0.1


@pytest.mark.parametrize("model", DECIDERS, ids=repr)
def test_decisions_are_near_to_literal_ones_with_the_shares_kept(model):
    for rows, labels in ((A, two), (B, three)):
        model.fit(rows, labels)
        formula = dd.evaluate(model, rows, labels, refits=0)
        literal = dd.evaluate(model, rows, labels, refits=len(rows))
        assert np.mean(formula.predictions != literal.predictions) <= 0.05
        assert literal.error == pytest.approx(np.mean(literal.predictions != labels))


def test_logistic_regression_is_one_newton_step():
    model = LogisticRegression(C=0.5, **EXACT).fit(A, two, sample_weight=WEIGHTS)
    design = np.concatenate([A, np.ones((100, 1))], 1)
    beta = np.append(model.coef_[0], model.intercept_)
    outputs = one_step(
        design, two, lambda o, t: expit(o) - t, lambda o, t: expit(o) * expit(-o), 2.0, beta,
        WEIGHTS,
    )  # fmt: skip
    evaluation = dd.evaluate(model, A, two, WEIGHTS, refits=0)
    losses = np.logaddexp(0, outputs) - two * outputs
    np.testing.assert_allclose(evaluation.losses, losses, rtol=1e-5)


def test_the_lasso_is_one_newton_step_in_its_columns():
    model = Lasso(0.1, tol=1e-12, max_iter=100000).fit(X, y)
    moving = model.coef_ != 0
    design = np.concatenate([X[:, moving], np.ones((100, 1))], 1)
    left = np.empty(100)
    for row in range(100):
        kept = np.delete(np.arange(100), row)
        residual = design[kept] @ np.append(model.coef_[moving], model.intercept_) - y[kept]
        kink = 100 * 0.1 * np.append(np.sign(model.coef_[moving]), 0.0)
        step = np.linalg.solve(design[kept].T @ design[kept], design[kept].T @ residual + kink)
        left[row] = design[row] @ (np.append(model.coef_[moving], model.intercept_) - step)
    evaluation = dd.evaluate(model, X, y, refits=0)
    np.testing.assert_allclose(evaluation.predictions, left, atol=1e-7)


def test_without_signal_decisions_are_right_in_half_of_the_rows():
    """Without the shares of the classes kept, hardly any decision would be right."""
    right, plain = [], []
    for seed in range(10):
        rows = np.random.default_rng(seed).normal(size=(40, 3))
        labels = np.arange(40) % 2
        model = LogisticRegression(C=1e-4, **EXACT).fit(rows, labels)
        evaluation = dd.evaluate(model, rows, labels, refits=0)
        right.append(evaluation.estimate("accuracy").value)
        plain.append(np.mean(by_refits(model, rows, labels).argmax(1) == labels))
    assert np.mean(plain) < 0.1
    assert np.mean(right) == pytest.approx(0.5, abs=4 * np.std(right) / 10**0.5)


def test_an_early_end_of_training_is_seen_by_refits():
    """Such a model is not at its minimum, which is no sign of other rows."""
    model = LogisticRegression(C=1e4, max_iter=3)
    with pytest.warns(UserWarning):
        model.fit(A, two)
    evaluation = dd.evaluate(model, A, two)
    literal = dd.evaluate(model, A, two, refits=100)
    assert evaluation.refits >= 4
    assert abs(evaluation.error - literal.error) < 1.0 * literal.stderr


def test_a_search_over_penalties_is_redone_in_refits():
    model = LogisticRegressionCV(
        Cs=3, l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False
    ).fit(A, two)
    assert abs(gap(model, A, two)) < 0.2
