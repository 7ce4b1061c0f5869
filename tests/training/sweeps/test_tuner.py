"""The contest of ``tune``: rates for heads that cannot make their outputs larger."""

import math

import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures
from torch import nn

import decoupled_descent as dd
from decoupled_descent.training import StopReason
from decoupled_descent.training.sweeps.tuner import DEFAULTS, LENGTHS, Tuner, stretch


def regression():
    """Diabetes with products of columns: 221 rows to train on and as many new ones."""
    result = load_diabetes()
    X = torch.tensor(PolynomialFeatures(2, include_bias=False).fit_transform(result.data))
    y = torch.tensor(result.target)
    X, y = (X - X.mean(0)) / X.std(0) / math.sqrt(X.shape[1]), (y - y.mean()) / y.std()
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    return X[order[::2]], y[order[::2]], X[order[1::2]], y[order[1::2]]


X, Y, X_NEW, Y_NEW = regression()
LINEAR = dd.Objective(dd.heads.Linear(intercept=True).double(), "squared")


class Factor(nn.Module):
    """A linear head with a trained factor."""

    width = 1

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, h):
        return h * self.factor


def left_out(ridge, rows):
    """Ridge regression on all rows but one, for each of some rows, by literal refits."""
    mu = ridge * X.square().sum() / X.shape[1]
    result = []
    for i in rows:
        others = torch.arange(len(X)) != i
        A = X[others].T @ X[others] + mu * torch.eye(X.shape[1]).double()
        result.append(X[i] @ torch.linalg.solve(A, X[others].T @ Y[others]))
    return torch.stack(result)


@pytest.fixture(scope="module")
def tuned():
    return dd.tune(X, Y, LINEAR)


@pytest.fixture(scope="module")
def usual():
    """The same with the rate that suits heads with a trained factor."""
    return dd.tune(X, Y, LINEAR, lr=DEFAULTS.rates[0])


def test_without_a_factor_the_length_is_that_of_the_rate():
    """The limit for squared loss: lr c/(n (1 − η₀)) times ridge regression, each row left out."""
    damping, ridge, lr = 0.8, 2.0, 0.7
    algorithm = dd.OrthogonalDecoupledDescent(lr, damping, ridge, reduction="mean")
    objective = dd.Objective(dd.heads.Linear().double(), "squared")
    run = dd.fit(X, Y, objective, algorithm, 200)
    mu = ridge * X.square().sum() / X.shape[1]
    P = X @ torch.linalg.solve(X.T @ X + mu * torch.eye(X.shape[1]).double(), X.T)
    c = X.square().sum(1).mean() / P.diagonal().mean()
    factor = lr * c / len(X) / (1 - damping)
    result, some = run.last.info.preactivations.squeeze(1), range(0, len(X), 20)
    torch.testing.assert_close(result[some], factor * left_out(ridge, some), rtol=1e-9, atol=1e-9)


def test_a_linear_head_is_as_good_as_ridge_regression(tuned, usual):
    """The length is right in the end, though the usual rate makes it several times too short."""
    minimum = dd.tune(X, Y, LINEAR, method="newton")
    error, stderr, _ = tuned.corrected_error
    assert tuned.corrected_error._fields == ("error", "stderr", "optimism")  # as the pages say
    assert usual.corrected_error.error > minimum.corrected_error.error + 4 * stderr
    assert error < minimum.corrected_error.error + 0.5 * stderr
    losses = LINEAR.losses(X_NEW @ tuned.best.best_theta.T, Y_NEW, tuned.best.best_state.head)
    spread = math.hypot(stderr, float(losses.std()) / math.sqrt(len(losses)))
    assert abs(error - float(losses.mean())) < 3 * spread
    assert tuned.best.algorithm.head_lr == DEFAULTS.rates[0]  # an intercept needs no more
    assert tuned.best.algorithm.lr > DEFAULTS.stretch * DEFAULTS.rates[0]


def test_a_trained_factor_needs_no_larger_rate():
    tuned = dd.tune(X, Y, dd.Objective(Factor(), "squared"), ridge=2.0, damping=0.95)
    assert {run.algorithm.head_lr for run in tuned.runs} == {None}
    assert tuned.best.stop_reason is StopReason.CONVERGED
    assert stretch(tuned.best, Y) < DEFAULTS.stretch


def test_stretch_is_the_best_length(usual):
    """For squared loss it is yᵀh/hᵀh, to the next of the lengths that are tried."""
    run = usual.best
    assert run.stop_reason is StopReason.CONVERGED
    h, shift = run.best_preactivations.squeeze(1), next(iter(run.best_state.head.values()))
    exact = float((Y - shift) @ h / (h @ h))
    result = stretch(run, Y)
    assert result in LENGTHS
    assert exact / LENGTHS[1] < result < exact * LENGTHS[1]


def test_a_run_that_has_not_come_to_rest_is_not_stretched():
    run = dd.tune(X, Y, LINEAR, steps=20, ridge=1.0).best
    assert run.stop_reason is StopReason.STEPS
    assert stretch(run, Y) == 1.0


def test_a_given_rate_stays(usual):
    assert {run.algorithm.lr for run in usual.runs} == {DEFAULTS.rates[0]}


def test_the_lower_of_two_rounds_stays():
    """A larger rate that does not help is forgotten."""
    given = {"lr": "auto", "damping": 0.9, "ridge": 1.0}
    tuner = Tuner("orthogonal", given, dd.Rows(X, Y))
    tuner.bind(LINEAR, None)
    good = dd.tune(X, Y, LINEAR, lr=DEFAULTS.rates[0], damping=0.95, ridge=1.0).best
    bad = dd.fit(X, Y, LINEAR, dd.OrthogonalDecoupledDescent(1e-9, 1.0), 100)
    assert stretch(good, Y) >= DEFAULTS.stretch
    assert bad.best_step > DEFAULTS.fast < good.best_step  # a round is then one stack
    rounds = [[good], [bad]]
    assert tuner.train_all(lambda _: rounds.pop(0)) == [good]
    assert not rounds


def test_all_candidates_of_a_round_have_the_same_length(tuned):
    """θ has a length ∝ lr/(1 − η₀), so the stronger damping gets the larger rate."""
    runs = tuned.runs
    strong = runs[-1].algorithm
    (usual,) = [run.algorithm for run in runs[:-1] if run.algorithm.ridge == strong.ridge]
    assert strong.damping < usual.damping
    lengths = [each.lr / each.head_lr / (1 - each.damping) for each in (usual, strong)]
    assert lengths[0] == pytest.approx(lengths[1])


@pytest.mark.parametrize("damping", [0.9, 1.0])
def test_a_setting_that_the_method_does_not_have_is_no_matter(damping):
    options = {"method": "decoupled", "damping": damping, "steps": 3}
    one, other = (dd.tune(X, Y, LINEAR, ridge=ridge, **options) for ridge in ("auto", 2.0))
    assert [run.history for run in one.runs] == [run.history for run in other.runs]
