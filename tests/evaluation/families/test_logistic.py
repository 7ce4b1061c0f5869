"""Logistic regression without each row."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

import decoupled_descent as dd
from tests.evaluation.families.problems import (
    EXACT,
    WEIGHTS,
    check_miss,
    check_near,
    classes,
)
from tests.oracles.left_out import one_step

A, two = classes(100)
B, three = classes(99, count=3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"C": 0.1, "class_weight": "balanced"},
        {"C": 0.1, "class_weight": {0: 2, 1: 1}},
        {"C": np.inf},
        {"l1_ratio": 0.5, "solver": "saga", "C": 0.3},
        {"fit_intercept": False},
    ],
)
def test_near_to_literal_refits(options):
    model = LogisticRegression(**EXACT, **options)
    check_near(model, A, two)
    check_near(model, B, three)


@pytest.mark.parametrize("share", [0, 1])
def test_liblinear_penalises_its_intercept(share):
    model = LogisticRegression(
        solver="liblinear", l1_ratio=share, C=0.3, intercept_scaling=2, tol=1e-9
    )
    check_miss(model.fit(A + 1, two), A + 1, two)


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


@pytest.mark.slow
def test_a_penalty_that_was_chosen():
    model = LogisticRegressionCV(
        Cs=3, l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False, **EXACT
    ).fit(A, two)
    check_miss(model, A, two)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_ridge_whose_share_is_stored_as_none():
    """The defaults of scikit-learn 1.9: ``l1_ratio_`` is [None]."""
    legacy = LogisticRegressionCV(Cs=[0.1], use_legacy_attributes=True, **EXACT).fit(A, two)
    plain = LogisticRegression(C=0.1, **EXACT).fit(A, two)
    found, expected = (dd.evaluate(one, A, two, refits=0) for one in (legacy, plain))
    assert found.how == expected.how == "formula"
    assert found.error == pytest.approx(expected.error, rel=1e-6)
