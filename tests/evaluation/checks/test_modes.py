"""A class may be a mixture of normal modes."""

from __future__ import annotations

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks.modes import shares_of_modes

ONE = torch.zeros(600, dtype=torch.int64)


def mixture(distance, n=600, seed=0):
    draw = torch.Generator().manual_seed(seed)
    side = (torch.rand(n, generator=draw) > 0.5).double()
    noise = torch.randn(n, 2, generator=draw, dtype=torch.float64)
    return noise + distance * torch.stack([side, -side], 1), side


def test_modes_far_apart_are_told_apart_and_one_is_one():
    h, side = mixture(5.0)
    shares = shares_of_modes(h, ONE, torch.eye(2))
    assert shares.shape == (600, 2)
    torch.testing.assert_close(shares.sum(1), torch.ones(600).double())
    first = shares[:, 0].round()
    assert torch.equal(first, side) or torch.equal(first, 1 - side)
    assert shares_of_modes(mixture(0.0)[0], ONE, torch.eye(2)).shape == (600, 1)
    outliers = torch.where(torch.arange(600).unsqueeze(1) < 12, 9.0, mixture(0.0)[0])
    assert shares_of_modes(outliers, ONE, torch.eye(2)).shape == (600, 1)
    assert shares_of_modes(0 * h, ONE, torch.zeros(2, 2)).shape == (600, 1)


def test_a_known_covariance_tells_overlapping_modes_apart():
    h, _ = mixture(0.8)
    turn = torch.tensor([[2.0, 1.0], [0.0, 0.5]]).double()
    assert shares_of_modes(h @ turn, ONE, turn.T @ turn).shape[1] == 2
    assert shares_of_modes(h, ONE, 1.64 * torch.eye(2)).shape[1] == 1


def test_the_shares_of_a_mixture_satisfy_steins_identity():
    r"""Σ E r_k (h − m_k) g = C E ∇g, within four standard errors, for a g that bends."""
    h, _ = mixture(4.0, 4000, seed=1)
    shares = shares_of_modes(h, torch.zeros(4000, dtype=torch.int64), torch.eye(2))
    means = shares.T @ h / shares.sum(0).unsqueeze(1)
    slope, bend = torch.tanh(h[:, 0]), 1 - torch.tanh(h[:, 0]).square()
    products = ((shares.unsqueeze(2) * (h.unsqueeze(1) - means)).sum(1)[:, 0]) * slope
    difference = products - bend  # C = I
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / 4000**0.5
    whole = (h[:, 0] - h[:, 0].mean()) * slope - bend
    assert abs(float(whole.mean())) > 20 * float(whole.std()) / 4000**0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_own_mixture_raises_no_alarm(seed):
    X, y = dd.mixtures.xor(dimension=1000, snr=4.0).sample(1000, seed=seed)
    torch.manual_seed(seed)
    objective = dd.Objective(dd.heads.Product(), "logistic")
    run = dd.fit(X, y, objective, dd.DecoupledDescent(lr=0.05), steps=200, seed=seed)
    diagnosis = dd.diagnose(X, y, run)
    (stein,) = [one for one in diagnosis.findings if one.name == "Stein's identity"]
    assert stein.status == "ok"
    assert diagnosis.verdict != "do not trust"
