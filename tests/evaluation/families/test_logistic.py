"""Logistic regression without each row."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

import decoupled_descent as dd
from tests.evaluation.families.problems import (
    EXACT,
    WEIGHTS,
    check_near,
    classes,
    gap,
)
from tests.oracles.left_out import one_step

A, two = classes(100)
B, three = classes(99, count=3)


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ({}, 0.1),
        ({"C": 0.1, "class_weight": "balanced"}, 0.1),
        ({"C": 0.1, "class_weight": {0: 2, 1: 1}}, 0.1),
        ({"C": np.inf}, 0.4),
        ({"l1_ratio": 0.5, "solver": "saga", "C": 0.3}, 0.15),
        ({"fit_intercept": False}, 0.1),
    ],
)
def test_near_to_literal_refits(options, near):
    model = LogisticRegression(**EXACT, **options)
    check_near(model, A, two, near)
    check_near(model, B, three, near)


@pytest.mark.parametrize("share", [0, 1])
def test_liblinear_penalises_its_intercept(share):
    model = LogisticRegression(
        solver="liblinear", l1_ratio=share, C=0.3, intercept_scaling=2, tol=1e-9
    )
    assert abs(gap(model.fit(A + 1, two), A + 1, two)) < 0.1


def test_one_newton_step():
    model = LogisticRegression(C=0.5, **EXACT).fit(A, two, sample_weight=WEIGHTS[:100])
    design = np.concatenate([A, np.ones((100, 1))], 1)
    beta = np.append(model.coef_[0], model.intercept_)
    outputs = one_step(
        design, two, lambda o, t: expit(o) - t, lambda o, t: expit(o) * expit(-o), 2.0, beta,
        WEIGHTS[:100],
    )  # fmt: skip
    evaluation = dd.evaluate(model, A, two, WEIGHTS[:100], refits=0)
    losses = np.logaddexp(0, outputs) - two * outputs
    np.testing.assert_allclose(evaluation.losses, losses, rtol=1e-5)


def test_a_penalty_that_was_chosen():
    model = LogisticRegressionCV(
        Cs=3, l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False, **EXACT
    ).fit(A, two)
    assert abs(gap(model, A, two)) < 0.2
