"""Runs without single rows that leave the run with all rows."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.path import far_rows, steps

STEPS = 32


def diabetes():
    """221 rows for training and as many for the test, standardised, and 16 tanh units."""
    X, y = load_diabetes(return_X_y=True)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    X, y = torch.tensor(X).float()[order], torch.tensor(y).float()[order]
    X, y = (X - X[:221].mean(0)) / X[:221].std(0), (y - y[:221].mean()) / y[:221].std()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    return (X[:221], y[:221]), (X[221:], y[221:]), model


def test_a_long_path_of_a_real_table_does_not_diverge():
    """With plain refinements a single run grows without bound from step 20 on, to 1e10."""
    (X, y), test, model = diabetes()
    infos = []
    run = dd.fit(X, y, model, dd.DecoupledGaussNewton(), STEPS, loss="squared", test=test,
                 callbacks=lambda step: infos.append(step.info))  # fmt: skip
    assert len(run.train_error) == STEPS
    stderr = torch.hypot(run.train_error_stderr, run.test_error / 221**0.5)
    assert bool(((run.train_error - run.test_error).abs() < 3 * stderr).all())
    assert all(info.estimates for info in infos)
    assert float(infos[-1].losses.max()) < 60 * float(infos[-1].losses.mean())
    assert infos[-1].notes["fitted"] < 0.6 * run.train_error[-1]  # it overfits by now


def test_without_conjugate_gradients_it_does_and_names_remedies_of_its_own(monkeypatch):
    (X, y), _, model = diabetes()
    limits = [(far_rows, "APART"), (far_rows, "AGAIN"), (steps, "CONTRACTION"), (steps, "LOST")]
    for module, limit in limits:  # no refinement counts as too large, and no run as lost
        monkeypatch.setattr(module, limit, math.inf)
    with pytest.warns(dd.DivergenceWarning, match="larger ridge or a smaller rate") as caught:
        run = dd.fit(X, y, model, dd.DecoupledGaussNewton(), 60, loss="squared")
    assert "Decoupled descent grows" not in str(caught[0].message)
    assert float(run.train_error.max()) > 1e6
    assert float(run.train_error.min()) < 0.5
