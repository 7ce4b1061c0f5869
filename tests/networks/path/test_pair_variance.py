"""The variance of a leave-one-out error that comes from pairs of rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import decoupled_descent as dd
from decoupled_descent.networks.path.pair_variance import left_out_factor, pair_variance
from tests.networks.path_problems import close, recorded, rows, tanh_network
from tests.oracles import path as oracle


def naive(effects: Tensor, shares: Tensor | None = None) -> float:
    """Residuals of a regression on a constant, rows and columns; then a loop over pairs."""
    m = len(effects)
    pairs = [(i, k) for i in range(m) for k in range(m) if i != k]
    design = torch.zeros(len(pairs), 2 * m).double()
    for place, (i, k) in enumerate(pairs):
        design[place, i] = design[place, m + k] = 1.0
    values = torch.stack([effects[i, k] for i, k in pairs]).double()
    shares = torch.ones(m).double() if shares is None else shares
    roots = torch.stack([shares[i] * shares[k] for i, k in pairs]).sqrt()
    fitted = design @ (torch.linalg.pinv(roots.unsqueeze(1) * design) @ (roots * values))
    left = {pair: float(v) for pair, v in zip(pairs, values - fitted, strict=True)}
    return sum(float(shares[i] * shares[k]) * left[i, k] * left[k, i] for i, k in pairs) / m**2


def test_sum_over_pairs_equals_a_loop():
    draw = torch.Generator().manual_seed(0)
    symmetric = torch.randn(9, 9, generator=draw).double()
    effects = symmetric + symmetric.T + torch.randn(9, 9, generator=draw).double()
    assert abs(pair_variance(effects, 1.0) - naive(effects)) < 1e-12
    assert abs(pair_variance(effects, 2.0) - 4 * naive(effects)) < 1e-12
    shares = torch.linspace(0.5, 1.5, 9).double()  # rows that speak for others
    assert abs(pair_variance(effects, 1.0, shares) - naive(effects, shares)) < 1e-12
    common = torch.randn(9, 1, generator=draw).double() + torch.randn(1, 9, generator=draw)
    assert abs(pair_variance(effects + common, 1.0) - naive(effects)) < 1e-12
    assert pair_variance(symmetric - symmetric.T, 1.0) == 0.0  # no negative variance


def test_standard_error_is_that_of_the_difference_to_the_test_error():
    """Ridge regression with half as many columns as rows, 300 draws: errors known exactly."""
    n, d, ridge, draws = 50, 25, 5.0, 300
    generator = torch.Generator().manual_seed(1)
    truth = torch.ones(d).double() / d**0.5
    errors, alone, pairs = [], 0.0, 0.0
    for _ in range(draws):
        X = torch.randn(n, d, generator=generator).double()
        y = X @ truth + torch.randn(n, generator=generator).double()
        smoother = X @ torch.linalg.solve(X.T @ X + ridge * torch.eye(d), X.T)
        residuals = y - smoother @ y
        left_out = residuals / (1 - smoother.diagonal())
        weights = torch.linalg.solve(X.T @ X + ridge * torch.eye(d).double(), X.T @ y)
        test = 0.5 * (float((weights - truth).square().sum()) + 1.0)
        losses = 0.5 * left_out**2
        errors.append(float(losses.mean()) - test)
        alone += float(losses.var()) / n / draws
        effects = left_out.unsqueeze(1) * smoother * left_out
        pairs += pair_variance(effects, left_out_factor(left_out, residuals)) / draws
    spread = float(torch.tensor(errors).std())
    stderr = spread / math.sqrt(2 * draws)
    assert abs(math.sqrt(alone + pairs) - spread) < 3 * stderr
    assert math.sqrt(alone) < spread - 3 * stderr  # what it would be without pairs


def test_factor_is_that_of_the_residuals_and_bounded():
    one = torch.ones(4, 1)
    assert left_out_factor(3 * one, one) == 3.0
    assert left_out_factor(one, 3 * one) == 1.0
    assert left_out_factor(one, 1e-3 * one) == left_out_factor(one, 0 * one) == 5.0


def test_path_takes_the_effects_of_its_own_runs():
    """With a linear model and one full step, the effects are those of the smoother matrix."""
    X, _ = rows(20, 4)
    y = X[:, 0] + 0.5 * X[:, 1] ** 2
    model = nn.Linear(4, 1, bias=False).double()
    algorithm = dd.DecoupledGaussNewton(ridge=0.7, rate=1.0, damping=0.0)
    run, _ = recorded(X, y, model, algorithm, 2, loss="squared")
    smoother = X @ torch.linalg.solve(X.T @ X + 0.7 * torch.eye(4).double(), X.T)
    residuals = y - smoother @ y
    left_out = residuals / (1 - smoother.diagonal())
    effects = left_out.unsqueeze(1) * smoother * left_out
    wanted = pair_variance(effects, left_out_factor(left_out, residuals))
    close(torch.tensor(run.last.info.pairs), torch.tensor(wanted), 1e-10)


def test_some_of_the_pairs_speak_for_all():
    X, y = rows(200, 12)
    model, given, found = tanh_network(12, 6), {"loss": "logistic"}, []
    for followed in (200, 100):
        algorithm = dd.DecoupledGaussNewton(followed=followed)
        found.append(float(dd.fit(X, y, model, algorithm, 10, **given).last.info.pairs))
    assert 0.5 < (found[1] / found[0]) ** 0.5 < 2.0


def test_groups_sum_the_effects_of_their_rows():
    X, y = rows(18, 3)
    groups, weights = torch.arange(18) % 6, torch.linspace(0.5, 2.0, 18).double()
    given = {"loss": "logistic", "groups": groups, "weights": weights}
    algorithm = dd.DecoupledGaussNewton(ridge=0.5, stratified=False)
    model = tanh_network(3, 4)
    run, seen = recorded(X, y, model, algorithm, 3, **given)
    path, lo = run.last.state.paths[0], seen[-1][:, 0]
    slope = lambda o: torch.sigmoid(o) - y  # noqa: E731
    fitted = oracle.outputs(model, path.beta, X)[:, 0]
    effects = torch.zeros(6, 6).double()
    for k in range(6):
        moved = oracle.outputs(model, path.beta + path.differences[k], X)[:, 0] - fitted
        for i in range(18):
            share = weights[i] / weights.mean() * 6 / 18
            effects[groups[i], k] += (share * slope(lo)[i] * moved[i]).detach()
    wanted = pair_variance(effects, left_out_factor(slope(lo), slope(fitted).detach()))
    close(torch.tensor(run.last.info.pairs), torch.tensor(wanted))
