"""Decisions without signal are right as often as by chance, on average over samples."""

import numpy as np
import pytest
import torch

from decoupled_descent.leave_one_out.resampling import half_samples
from decoupled_descent.objective.losses import get_loss
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.members.constant import ConstantRecipe
from decoupled_descent.tables.search.decisions import (
    FEWEST,
    HALVES,
    half_sample_count,
    shares_in_halves,
)
from decoupled_descent.tables.search.search import search_models

OPTIONS = {"features": "linear", "ridge": 1e4, "progress": False}


def test_many_rows_and_classes_get_fewer_half_samples():
    assert half_sample_count(100, 1) == HALVES
    assert half_sample_count(10**6, 10) == FEWEST


@pytest.mark.parametrize("shares", ["drawn", "designed"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("members", [[], [ConstantRecipe()]], ids=["alone", "constant"])
def test_no_signal_is_chance(classes, shares, members):
    """Counted decisions of leave-one-out see the most frequent class of the sample."""
    found, counted = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.integers(classes, size=60) if shares == "drawn" else np.arange(60) % classes
        X = torch.from_numpy(rng.normal(size=(60, 2)))
        loss, outputs = ("logistic", 1) if classes == 2 else ("cross_entropy", 3)
        labels = torch.from_numpy(y).double() if classes == 2 else torch.from_numpy(y)
        result = search_models(X, labels, loss, outputs=outputs, members=members, **OPTIONS)
        found.append(float(result.right.mean()))
        counted.append(float((result.left_out.argmax(1).numpy() == y).mean()))
    stderr = np.std(found, ddof=1) / np.sqrt(40)
    assert abs(np.mean(found) - 1 / classes) < 3 * stderr
    if shares == "drawn":
        assert np.mean(counted) - 1 / classes > 3 * np.std(counted, ddof=1) / np.sqrt(40)


@pytest.mark.parametrize("groups", [None, torch.arange(30) // 2])
def test_shares_vary_as_those_of_half_samples(groups):
    rng = np.random.default_rng(0)
    y, weights = rng.integers(3, size=30), rng.uniform(0.5, 2.0, 30)
    loss, codes = get_loss("cross_entropy"), np.arange(30) if groups is None else groups.numpy()
    given = {"weights": torch.from_numpy(weights), "groups": groups}
    rows = Rows(torch.from_numpy(rng.normal(size=(30, 2))), torch.from_numpy(y), **given)
    drawn, halves = shares_in_halves(loss, rows, 3, 5)
    signs = half_samples(torch.from_numpy(y), groups, 5, seed=0).numpy()
    per_unit = np.bincount(codes, weights)
    n = weights.sum() ** 2 / (per_unit**2).sum()  # effective, for one more row of all classes
    every = np.array([weights[y == k].sum() for k in range(3)]) / weights.sum()
    for row in range(30):
        other = codes != codes[row]
        without = np.array([weights[other & (y == k)].sum() for k in range(3)])
        expected = (n * without / without.sum() + 1 / 3) / (n + 1)
        np.testing.assert_allclose(drawn[row], expected, rtol=1e-10)
        for draw in range(5):
            moved = np.zeros(3)
            for k in np.flatnonzero(other):
                moved += signs[k, draw] * weights[k] * ((np.arange(3) == y[k]) - every)
            moved *= n / (n + 1) / weights.sum()
            np.testing.assert_allclose(halves[draw, row], moved, atol=1e-12)


def test_clear_decisions_are_counted():
    rng = np.random.default_rng(0)
    y = torch.arange(80) % 2
    X = torch.from_numpy(rng.normal(size=(80, 3)))
    X[:, 0] += 8 * y
    found = search_models(X, y.double(), "logistic", features="linear", progress=False)
    torch.testing.assert_close(found.right, torch.ones(80, dtype=torch.float64))
