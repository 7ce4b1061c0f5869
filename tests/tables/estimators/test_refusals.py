"""Little data, bad data and bad options: a clear line, or an estimate that is not trusted."""

import math

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from torch import nn

import decoupled_descent as dd
from tests.tables.estimators.problems import CHEAP, binary, features, several

X, Y = binary()
X3, Y3 = several()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledClassifier(**(CHEAP | options))


@pytest.mark.parametrize("n", range(2, 7))
def test_a_handful_of_rows_is_trained_on_but_not_trusted(n):
    model = dd.DecoupledClassifier(method="orthogonal", max_iter=20).fit(X[:n], np.arange(n) % 2)
    assert math.isfinite(model.estimated_test_error_)
    assert math.isfinite(model.estimated_test_error_stderr_)
    assert np.isfinite(model.predict_proba(FRESH)).all()
    assert model.diagnostics_.verdict == "do not trust"


def more_columns_than_rows():
    """A model of 40 rows and 90 columns, its error on them and on new rows."""
    X, y = binary(40, d=90)
    model = dd.DecoupledClassifier(method="orthogonal", max_iter=40).fit(X, y)
    fresh, answers = binary(4000, d=90)
    error = log_loss(answers[40:], model.predict_proba(fresh[40:]))
    return model, log_loss(y, model.predict_proba(X)), error


def test_more_columns_than_rows():
    model, seen, error = more_columns_than_rows()
    assert seen < error
    assert seen < model.estimated_test_error_
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
        (fit_with(hidden="wide"), "hidden='wide' must be a width, several, or 'auto'"),
        (fit_with(hidden=()), r"hidden=\(\) must be a width"),
        (fit_with(activation="step"), "activation='step' is unknown; use one of"),
        (
            fit_with(method="sgd"),
            "method='sgd' must be one of newton, orthogonal, decoupled, gradient",
        ),
        (fit_with(lr="fast"), "lr='fast' must be a number or 'auto'"),
        (fit_with(lr=-1), "lr=-1.0 must be a number of at least 0"),
        (fit_with(lr=1e39), r"lr=1e\+39 must be a number of at least 0 and at most 3.4e\+38"),
        (fit_with(lr=math.inf), "lr=inf must be a number of at least 0 and at most"),
        (
            fit_with(method="gradient"),
            "damping=0.95 has no effect with method='gradient'; leave it",
        ),
        (fit_with(method="gradient", damping="auto"), "ridge=1.0 has no effect .* at 'auto'"),
        (fit_with(method="decoupled"), "ridge=1.0 has no effect with method='decoupled'"),
        (fit_with(damping=None), "damping=None must be a number or 'auto'"),
        (fit_with(ridge=0), "ridge=0.0 must be a positive number"),
        (fit_with(max_iter=0), "max_iter=0 must be a whole number of at least 1"),
        (fit_with(max_iter=2.5), "max_iter=2.5 must be a whole number of at least 1"),
        (fit_with(max_iter=True), "max_iter=True must be a whole number"),
        (fit_with(random_state="x"), "'x' cannot be used to seed"),
        (fit_with(device="abacus"), r"device='abacus' cannot be used here .*; use 'cpu'"),
        (fit_with(head=3), "head=3 must be a torch.nn.Module"),
        (fit_with(head=nn.Linear(3, 2)), r"the head has 2 output\(s\) but y has 1 column"),
        (fit_with(head=nn.Sequential(nn.Linear(3, 1), nn.Dropout())), "mixes rows or is random"),
    ],
)
def test_refusals(act, message):
    with pytest.raises((ValueError, NotFittedError), match=message):
        act()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_says_so():
    with pytest.raises(ValueError, match=r"device='cuda' cannot be used here \(.*\); use 'cpu'$"):
        cheap(device="cuda").fit(X, Y)


def test_a_rate_that_is_too_large_is_reported():
    options = {"lr": 1e30, "activation": "identity", "damping": 1.0}
    with pytest.warns(dd.DivergenceWarning, match="smaller lr"):
        model = cheap(**options).fit(X, Y)
    assert model.stop_reason_ == "diverged"
    assert math.isfinite(model.estimated_test_error_)
    assert "divergence" in model.diagnostics_.summary


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden=0 must be"),
        ({"hidden": (4, 2.5)}, "hidden=.*2.5"),
        ({"hidden": None}, "hidden=None must be"),
        ({"activation": None}, "activation=None"),
        ({"max_iter": "x"}, "max_iter='x' must be a whole number"),
        ({"max_iter": None}, "max_iter=None must be a whole number"),
        ({"max_iter": math.inf}, "max_iter=inf must be a whole number"),
        ({"device": "meta"}, "device='meta' cannot be used here"),
        ({"head": nn.Tanh()}, "head.*width"),
    ],
    ids=str,
)
def test_options_that_should_be_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        cheap(**options).fit(X, Y)
    assert "Objective(" not in str(caught.value)


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
