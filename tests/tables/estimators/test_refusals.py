"""Little data, bad data and bad options: a clear line, or an estimate that is not trusted."""

import math

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

import decoupled_descent as dd
from tests.tables.estimators.problems import CHEAP, binary, features

X, Y = binary()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledClassifier(**(CHEAP | options))


@pytest.mark.parametrize("n", range(2, 7))
def test_a_handful_of_rows_is_trained_on_but_not_trusted(n):
    model = dd.DecoupledClassifier(features="linear").fit(X[:n], np.arange(n) % 2)
    assert math.isfinite(model.estimated_test_error_)
    assert math.isfinite(model.estimated_test_error_stderr_)
    assert np.isfinite(model.predict_proba(FRESH)).all()
    assert model.diagnostics_.verdict == "do not trust"


def test_the_default_estimate_with_more_columns_than_rows():
    """Mean of z over four draws of 40 rows and 90 columns; single ones spread by about 1.5."""
    result = []
    for seed in range(4):
        X, y = binary(4040, d=90, seed=seed)
        model = dd.DecoupledClassifier().fit(X[:40], y[:40])
        fresh = log_loss(y[40:], model.predict_proba(X[40:]))
        assert log_loss(y[:40], model.predict_proba(X[:40])) < model.estimated_test_error_
        result.append((model.estimated_test_error_ - fresh) / model.estimated_test_error_stderr_)
    assert abs(np.mean(result)) < 3 * 1.5 / math.sqrt(4)


def fit_with(**options):
    return lambda: cheap(**options).fit(X, Y)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: cheap().fit(X, np.zeros(120)), "y has one class only, .*0"),
        (lambda: cheap().fit(X, X[:, 0]), "continuous"),
        (lambda: cheap().fit(np.ones((120, 6)), Y), "every column of X is constant"),
        (lambda: cheap().fit(np.full((120, 2), 0.1), Y), "every column of X is constant"),
        (lambda: cheap().fit(np.where(X > 2, np.inf, X), Y), "infinity"),
        (lambda: cheap().fit(X[:1], Y[:1]), "minimum of 2 is required"),
        (lambda: cheap().fit(X, Y[1:]), "inconsistent numbers of samples"),
        (lambda: cheap().fit(X, np.eye(2)[Y]), "y should be a 1d array"),
        (lambda: cheap().fit(X, Y).predict(X[:, 1:]), "X has 5 features, but .* expecting 6"),
        (lambda: cheap().predict(X), "not fitted"),
        (lambda: cheap().plot_training(), "not fitted"),
        (fit_with(ridge=0), "ridge=0.0 must be a positive number"),
        (fit_with(random_state="x"), "'x' cannot be used to seed"),
    ],
)
def test_refusals(act, message):
    with pytest.raises((ValueError, NotFittedError), match=message):
        act()


@pytest.mark.parametrize("kind", [dd.DecoupledClassifier, dd.DecoupledRegressor])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_of_a_training_are_taken(kind, dtype):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=generator).to(dtype)
    y = (X[:, 0] > 0).float()
    result = kind(ridge=1.0, features="linear").fit(X.clone().requires_grad_(), y.requires_grad_())
    same = kind(ridge=1.0, features="linear").fit(X.float().numpy(), y.detach().numpy())
    expected = same.predict(X.float().numpy())
    np.testing.assert_allclose(result.predict(X.requires_grad_()), expected, rtol=1e-6)


def test_labels_that_are_none():
    X, y = np.arange(20.0).reshape(10, 2), np.array(["a", None] * 5, dtype=object)
    with pytest.raises(ValueError, match=r"y\[1\] is None \(5 such entries in all\)"):
        dd.DecoupledClassifier().fit(X, y)
