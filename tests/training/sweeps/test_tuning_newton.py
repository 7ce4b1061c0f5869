"""``tune(method="newton")``: ridges of one's own objective."""

import math

import pytest
import torch

import decoupled_descent as dd


def newton_problem(n=120, seed=0):
    X, y = dd.mixtures.flipped_classes(30, 2.0, labels=(0.0, 1.0)).sample(n, seed=seed)
    return X.double(), y.double()


def test_newton_walks_downhill_over_ridges():
    X, y = newton_problem()
    objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
    result = dd.tune(X, y, objective, method="newton")
    ridges = [run.algorithm.ridge for run in result.runs]
    errors = {ridge: run.best.train_error for ridge, run in zip(ridges, result.runs, strict=True)}
    best = result.best.algorithm.ridge
    assert ridges == sorted(ridges)
    for neighbour in (best * 10**0.5, best / 10**0.5):  # both were tried, and are worse
        assert errors[min(errors, key=lambda ridge: abs(ridge - neighbour))] >= errors[best]
    alone = dd.fit(X, y, objective, dd.DecoupledNewton(best))
    assert result.best.best.train_error == pytest.approx(alone.best.train_error, rel=1e-9)
    fresh, labels = newton_problem(4000, seed=1)
    outputs = result.best.predict(fresh).reshape(-1)
    losses = torch.nn.functional.softplus(outputs) - labels * outputs
    error, stderr, _ = result.corrected_error
    spread = math.hypot(stderr, float(losses.std()) / math.sqrt(4000))
    assert abs(error - float(losses.mean())) < 3 * spread


def test_newton_takes_losses_of_your_own():
    X, y = newton_problem(60)

    def quartic(outputs, y):
        residual = outputs.squeeze(1) - y
        return residual**4 + residual**2

    own = dd.Objective(dd.heads.Linear(intercept=True), quartic)
    assert dd.tune(X, y, own, method="newton").best.best.info.estimates


def test_newton_refusals_and_runs_that_do_not_arrive():
    X, y = newton_problem(60)
    objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
    with pytest.raises(ValueError, match=r"lr=0.1 has no effect with method='newton'"):
        dd.tune(X, y, objective, method="newton", lr=0.1)
    with pytest.raises(ValueError, match=r"ridge=-1\.0 must be a positive number"):
        dd.tune(X, y, objective, method="newton", ridge=-1.0)
    with pytest.warns(dd.DivergenceWarning, match="no ridge reached its minimum") as caught:
        dd.tune(X, y, objective, method="newton", ridge=1.0, steps=1)
    assert "within steps=1" in str(caught[0].message)
    assert caught[0].filename == __file__
