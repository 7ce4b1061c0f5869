"""Rows that were not drawn one by one: what shows it, and what must not be taken for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.diagnostics import alarms


def patients(count=40, visits=10, seed=0):
    """Rows of the same person are alike and have the same label."""
    r = np.random.default_rng(seed)
    people = r.normal(size=(count, 20))
    ill = 0.7 * people[:, 0] + 1.5 * r.normal(size=count) > 0
    who = np.repeat(np.arange(count), visits)
    return people[who] + 0.5 * r.normal(size=(len(who), 20)), ill[who].astype(int)


def series(n=400, seed=0):
    """Features that change slowly."""
    r = np.random.default_rng(seed)
    rows = np.zeros((n, 6))
    for t in range(1, n):
        rows[t] = 0.97 * rows[t - 1] + 0.25 * r.normal(size=6)
    return rows, r


def overlapping(n=400, days=20):
    """Whether a random walk is higher some days later: of the next day, most of it is the same."""
    rows, r = series(n)
    walk = np.r_[0, np.cumsum(r.normal(size=n + days))]
    return rows, (walk[days : n + days] > walk[:n]).astype(int)


def own_errors():
    rows, r = series()
    return rows, (rows @ r.normal(size=6) + r.logistic(size=400) > 0).astype(int)


def independent(d=20):
    r = np.random.default_rng(1)
    rows = r.normal(size=(400, d))
    return rows, (rows[:, 0] + rows[:, 1] + r.logistic(size=400) > 0).astype(int)


def ordered_by(key, d=20):
    rows, labels = independent(d)
    order = np.argsort(key(rows, labels), kind="stable")
    return rows[order], labels[order]


def finding(rows, labels):
    model = dd.DecoupledClassifier(lr=1.0, damping=0.95, ridge=1.0, max_iter=100).fit(rows, labels)
    (one,) = [f for f in model.diagnostics_.findings if f.name == "neighbouring rows"]
    return one, model.diagnostics_.verdict


@pytest.mark.parametrize("make", [patients, lambda: patients(200, 2), overlapping])
def test_rows_that_belong_together_in_order(make):
    found, verdict = finding(*make())
    assert found.status == "alarm"
    assert verdict == "do not trust"
    assert "keep one of each group" in found.advice


@pytest.mark.parametrize(
    "make",
    [
        independent,
        own_errors,
        lambda: ordered_by(lambda rows, labels: labels),
        lambda: ordered_by(lambda rows, labels: rows[:, 0]),
        lambda: ordered_by(lambda rows, labels: rows[:, 0], d=4),
        lambda: ordered_by(lambda rows, labels: rows[:, 0], d=2),
        lambda: ordered_by(lambda rows, labels: 10 * labels + rows[:, 0], d=4),
    ],
    ids=["in no order", "slow features", "label", "column", "of four", "of two", "label, column"],
)
def test_orders_that_do_no_harm(make):
    assert finding(*make())[0].status == "ok"


def test_correlations_of_neighbours_as_defined():
    r = np.random.default_rng(0)
    X, groups = torch.tensor(r.normal(size=(30, 5))), torch.tensor(r.integers(0, 2, 30))
    X, q = X.cumsum(0), torch.tensor(r.normal(size=(30, 3))).cumsum(0)
    rows = dd.Rows(X - X.mean(0), groups.double())
    blank = torch.zeros(1)
    seen = alarms.Seen(blank, q, blank, blank, 1.0, 0.0, 0.0)
    _, _, axes = np.linalg.svd(rows.X.numpy(), full_matrices=False)
    correlations = []
    for axis in axes:
        u = rows.X.numpy() @ axis
        u = u - np.array([u[groups == group].mean() for group in groups])
        correlations.append(sum(u[i] * u[i + 1] for i in range(29)) / sum(u**2))
    e = q.numpy() - q.numpy().mean(0)
    erring = sum(e[i] @ e[i + 1] for i in range(29)) / (e**2).sum()
    expected = min(np.median(correlations), erring)
    assert expected > 0.2
    assert alarms.neighbours_alike(seen, rows, groups) == pytest.approx(expected, abs=1e-10)
